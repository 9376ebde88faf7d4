"""Folders that a run writes to, tried by writing to them."""

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import zmq

from ddptui.config.trial import Trial
from ddptui.doctor.finding import Finding
from ddptui.engines.hub import Hub
from ddptui.engines.preflight import DATA_VARIABLE, FILES, data_folder
from ddptui.host import gpus
from ddptui.host.rank_side import Child, NoAnswer
from ddptui.store.runs import RUNS_VARIABLE, runs_folder
from ddptui.text.printable import first_line
from ddptui.text.units import GB
from ddptui.wire.connection import HUB, TOKEN

ENOUGH_DISK_GB = 1
SHARED = Path("/dev/shm")
ENOUGH_SHARED_GB = 1  # what NCCL's makers ask of a container
TEMPORARY = ("TMPDIR", "TEMP", "TMP")  # where Python looks, in this order
HELLO_MS = 5_000


def runs(given: str | None = None) -> Iterator[Finding]:
    """Where runs are kept, or the folder nearest to it that there is."""
    folder = runs_folder(given)
    nearest = next(path for path in (folder, *folder.parents) if os.path.lexists(path))
    try:
        write_and_remove(nearest)
        free = shutil.disk_usage(nearest).free / GB
    except OSError as error:
        remedy = f"name another folder: `ddptui --runs FOLDER`, or {RUNS_VARIABLE}"
        yield Finding("runs", f"{folder}: cannot be written: {first_line(error)}", remedy, fatal=True)
        return
    yield Finding("runs", str(folder))
    yield Finding("disk", f"{free:.1f} GB free there", disk_remedy(free))


def disk_remedy(free_gb: float) -> str:
    """What to do where little is free, in GB."""
    if free_gb >= ENOUGH_DISK_GB:
        return ""
    return f"delete runs that you no longer want (`ddptui runs` lists them), or set {RUNS_VARIABLE} to another disk"


def write_and_remove(folder: Path) -> None:
    """Do what keeping a run does, and leave nothing behind. Raises OSError."""
    mine = Path(tempfile.mkdtemp(prefix=".ddptui-doctor-", dir=folder))
    try:
        new = mine / "results.json.new"
        with new.open("wb") as file:
            file.write(b"{}\n" * 1000)
            file.flush()
            os.fsync(file.fileno())
        new.replace(mine / "results.json")
    finally:
        shutil.rmtree(mine)


def sockets() -> Iterator[Finding]:
    """The wire, as a run has it: a socket in a folder for temporary files, and a process that says Hello there."""
    remedy = "name a folder of a local disk that can be written: `export TMPDIR=FOLDER`"
    try:
        with Hub(1) as hub:
            where = hub.folder.parent
            heard = _hello(hub)
    except (OSError, zmq.ZMQError) as error:
        yield Finding("sockets", f"none can be made: {first_line(error)}", remedy, fatal=True)
    except NoAnswer as why:
        yield Finding("sockets", f"ZeroMQ cannot be reached by another process: {why}", remedy, fatal=True)
    else:
        if heard:
            yield judge_place(where, _wanted_place(), tempfile.gettempdir())
        else:
            yield Finding("sockets", f"ZeroMQ says nothing in {where}", remedy, fatal=True)


def _hello(hub: Hub) -> bool:
    with Child("workers.doctor.host", **{HUB: hub.endpoint, TOKEN: hub.token}) as child:
        child.ask("hello")
        return bool(hub.receive(HELLO_MS))


def _wanted_place() -> str | None:
    return next((os.environ[name] for name in TEMPORARY if os.environ.get(name)), None)


def judge_place(where: Path, wanted: str | None, usable: str) -> Finding:
    """where: sockets are made; wanted: where the environment wants them; usable: what of that can be written to."""
    found = f"ZeroMQ (ipc) is heard in {where}"
    if wanted is None or os.path.abspath(wanted) == str(where):
        return Finding("sockets", found)
    if os.path.abspath(wanted) == usable:
        return Finding("sockets", f"{found}: a path in TMPDIR would be too long")
    return Finding("sockets", f"{found}: TMPDIR ({wanted}) cannot be written", f"`export TMPDIR={where}`")


def shared_memory() -> Iterator[Finding]:
    if not sys.platform.startswith("linux"):
        return
    try:
        write_and_remove(SHARED)
        size = shutil.disk_usage(SHARED).total / GB
    except OSError as error:
        why = f"{first_line(error)}: no NCCL, and no DataLoader workers"
        yield Finding("/dev/shm", why, "`mount -t tmpfs tmpfs /dev/shm` (docker: --shm-size=1g)")
        return
    yield Finding(
        "/dev/shm", f"{size * 1024:.0f} MB, for NCCL and DataLoader workers", shared_remedy(size, gpus.surely_none())
    )


def shared_remedy(size_gb: float, no_gpu: bool) -> str:
    """What to do where shared memory is small: only NCCL asks for so much."""
    enough = size_gb >= ENOUGH_SHARED_GB or no_gpu
    return "" if enough else "NCCL wants 1 GB: `mount -o remount,size=1g /dev/shm` (docker: --shm-size=1g)"


def data() -> Iterator[Finding]:
    folder = data_folder(Trial())
    there = [name for name, files in FILES.items() if all((folder / file).is_file() for file in files)]
    found = ", ".join(there) or "nothing else"
    yield Finding("data", f"digits and random are built in; {found} in {folder} ({DATA_VARIABLE})")

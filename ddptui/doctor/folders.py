"""Checks the folders that a run writes to, by writing to them."""

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import zmq

from ddptui.config.trial import Trial
from ddptui.doctor.finding import Finding
from ddptui.engines.checks import DATA_VARIABLE, FILES, data_folder
from ddptui.engines.rank_server import RankServer
from ddptui.host import gpus
from ddptui.host.rank_side import Child, NoAnswer
from ddptui.store.runs import RUNS_VARIABLE, runs_folder
from ddptui.text.words import GB, first_line
from ddptui.wire.connection import HUB, TOKEN

ENOUGH_DISK_GB = 1
FREE_SOME = (
    "delete runs that you no longer want (`ddptui delete RUN`, then `ddptui delete --empty-trash`), "
    f"or set {RUNS_VARIABLE} to another disk"
)
SHARED = Path("/dev/shm")
ENOUGH_SHARED_GB = 1  # NVIDIA's recommendation for containers with NCCL
TEMPORARY = ("TMPDIR", "TEMP", "TMP")  # in the order in which Python reads these variables
HELLO_MS = 5_000


def runs(option: str | None = None) -> Iterator[Finding]:
    """Checks the folder of runs, or its nearest existing parent. option: the value of --runs."""
    try:
        folder = runs_folder(option)
    except OSError as error:  # the user has no home
        yield Finding("runs", first_line(error), f"set HOME, or {RUNS_VARIABLE}", fatal=True)
        return
    nearest = next(path for path in (folder, *folder.parents) if os.path.lexists(path))  # also a broken link
    try:
        write_and_remove(nearest)
        free = shutil.disk_usage(nearest).free / GB
    except OSError as error:
        remedy = f"name another folder with --runs FOLDER, or {RUNS_VARIABLE}"
        yield Finding("runs", f"{folder}: cannot be written: {first_line(error)}", remedy, fatal=True)
        return
    yield Finding("runs", str(folder))
    yield Finding("disk", f"{free:.1f} GB free", "" if free >= ENOUGH_DISK_GB else FREE_SOME)


def write_and_remove(folder: Path) -> None:
    """Write files as a run does, and remove them. Raises OSError."""
    scratch = Path(tempfile.mkdtemp(prefix=".ddptui-doctor-", dir=folder))
    try:
        new = scratch / "results.json.new"
        with new.open("wb") as file:
            file.write(b"{}\n" * 1000)
            file.flush()
            os.fsync(file.fileno())  # a full or remote disk may report an error only here
        new.replace(scratch / "results.json")
    finally:
        shutil.rmtree(scratch)


def sockets() -> Iterator[Finding]:
    """Checks ZeroMQ as a run uses it: with a socket in a temporary folder, and a process that sends a message to it."""
    remedy = "name a writable folder on a local disk: `export TMPDIR=FOLDER`"
    try:
        with RankServer(1) as hub:
            folder = hub.folder.parent
            received = _hello(hub)
    except (OSError, zmq.ZMQError) as error:
        yield Finding("sockets", f"no socket can be created: {first_line(error)}", remedy, fatal=True)
    except NoAnswer as why:
        yield Finding("sockets", f"another process cannot use ZeroMQ: {why}", remedy, fatal=True)
    else:
        if received:
            wanted = next((os.environ[name] for name in TEMPORARY if os.environ.get(name)), None)
            yield socket_folder_finding(folder, wanted, tempfile.gettempdir())
        else:
            yield Finding("sockets", f"no message arrives over ZeroMQ in {folder}", remedy, fatal=True)


def _hello(hub: RankServer) -> bool:
    with Child("workers.doctor.host", **{HUB: hub.endpoint, TOKEN: hub.token}) as child:
        child.ask("hello")
        return bool(hub.receive(HELLO_MS))


def socket_folder_finding(folder: Path, wanted: str | None, writable: str) -> Finding:
    """The finding about the folder of sockets. folder: the one that is used. wanted: the one that the environment
    names. writable: Python's choice of a temporary folder."""
    text = f"ZeroMQ (ipc) works in {folder}"
    if wanted is None or os.path.abspath(wanted) == str(folder):
        return Finding("sockets", text)
    if os.path.abspath(wanted) == writable:
        return Finding("sockets", f"{text}: the path of a socket in TMPDIR would be too long")
    return Finding("sockets", f"{text}: TMPDIR ({wanted}) cannot be written", f"`export TMPDIR={folder}`")


def shared_memory() -> Iterator[Finding]:
    """Checks /dev/shm, which NCCL and DataLoader workers need. Linux only."""
    if not sys.platform.startswith("linux"):
        return
    try:
        write_and_remove(SHARED)
        size = shutil.disk_usage(SHARED).total / GB
    except OSError as error:
        why = f"{first_line(error)}: NCCL and DataLoader workers cannot run"
        yield Finding("/dev/shm", why, "`mount -t tmpfs tmpfs /dev/shm` (docker: --shm-size=1g)")
        return
    remedy = "NCCL needs 1 GB: `mount -o remount,size=1g /dev/shm` (docker: --shm-size=1g)"
    is_enough = size >= ENOUGH_SHARED_GB or gpus.surely_none()  # only NCCL needs that much
    yield Finding("/dev/shm", f"{size * 1024:.0f} MB, for NCCL and DataLoader workers", "" if is_enough else remedy)


def data() -> Iterator[Finding]:
    """Lists the installed datasets."""
    folder = data_folder(Trial())
    installed = [name for name, files in FILES.items() if all((folder / file).is_file() for file in files)]
    listed = ", ".join(installed) or "no other dataset"
    yield Finding("data", f"digits and random are built in; {listed} in {folder} ({DATA_VARIABLE})")

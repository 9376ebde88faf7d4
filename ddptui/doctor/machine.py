"""Checks without torch: Python, cores, memory, folders, limits, network, and NVIDIA's GPUs."""

import os
import resource
import shutil
import socket
import sys
import tempfile
import textwrap
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import psutil
import zmq

from ddptui.config.preset import EngineOptions
from ddptui.config.trial import Trial
from ddptui.engines.checks import CHECKS, DATA_VARIABLE, FILES, data_folder, files_needed, too_few_files
from ddptui.engines.rank_server import RankServer
from ddptui.engines.slurm.job import refusal
from ddptui.host import gpus, network
from ddptui.host.gpus import VISIBLE, Build, Driver, HostGpu
from ddptui.host.machine import available_cores, cpu_model
from ddptui.host.network import NetworkError, choose_interface
from ddptui.host.rank_side import Child, NoAnswer
from ddptui.store.runs import RUNS_VARIABLE, runs_folder
from ddptui.text.words import GB, OLDER, first_line, remedy_of
from ddptui.wire.connection import HUB, TOKEN

WIDTH = 11  # width of the longest name; fixed, because each finding is printed before the next is known
COLUMNS = 80


class CheckResult(NamedTuple):
    """The result of one check."""

    name: str  # what was checked
    text: str  # what was found
    remedy: str = ""  # how to fix the problem; empty: there is none
    fatal: bool = False  # no run can start until the problem is fixed
    tried: bool = True  # False: not checked, because something else is missing


def with_known_cause(finding: CheckResult) -> CheckResult:
    """The finding, with a more specific remedy if its text names a resource that is exhausted."""
    return finding._replace(remedy=remedy_of(finding.text) or finding.remedy) if finding.remedy else finding


def lines(finding: CheckResult) -> list[str]:
    """A finding as printed lines, with the remedy below."""
    mark = "✗" if finding.fatal else "!" if finding.remedy else "✓" if finding.tried else "–"
    wrapped = _wrapped(f"{mark} {finding.name:{WIDTH}}  ", finding.text)
    return wrapped + (_wrapped(" " * (WIDTH + 4) + "→ ", finding.remedy) if finding.remedy else [])


def _wrapped(begin: str, text: str) -> list[str]:
    """Lines of at most 80 columns, unless a single word is longer."""
    # do not break commands and paths, so that they can be copied
    wrapper = textwrap.TextWrapper(COLUMNS, begin, " " * len(begin), break_long_words=False, break_on_hyphens=False)
    return wrapper.wrap(" ".join(text.split())) or [begin.rstrip()]


ENOUGH_MEMORY_GB = 2  # for two ranks
FEW, MANY = 2, 64  # numbers of ranks for which limits are checked
PIDS = Path("/sys/fs/cgroup")  # the folder of pids.max and pids.current (cgroups version 2)


def machine() -> Iterator[CheckResult]:
    """Checks Python, the cores and the memory."""
    yield CheckResult("python", f"{sys.version.split()[0]}, {sys.executable}")
    cores = available_cores()
    remedy = "ranks will share this core, so their times mean little" if cores < FEW else ""
    yield CheckResult("cores", f"{cores}, {cpu_model()}", remedy)
    free = psutil.virtual_memory().available / GB
    remedy = "two ranks need 2 GB: close other programs" if free < ENOUGH_MEMORY_GB else ""
    yield CheckResult("memory", f"{free:.1f} GB free", remedy)


def need(name: str, met: str) -> Iterator[CheckResult]:
    """Checks a requirement that only some trials have. name: its key in CHECKS. met: the finding's text if it is
    met."""
    problem = CHECKS[name].probe(Trial())
    yield CheckResult(name, problem or met, tried=not problem)


def open_files() -> Iterator[CheckResult]:
    """Checks the limit of open files, which a launcher reaches first. Like a run, the check raises the limit as far as
    it can."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    few, many = Trial(world_size=FEW), Trial(world_size=MANY)
    text = f"{_limit(soft)} per process, can be raised to {_limit(hard)}; {MANY} ranks need {files_needed(many)}"
    yield CheckResult("open files", text, too_few_files(few) or too_few_files(many) or "")


def processes() -> Iterator[CheckResult]:
    """Checks how many more processes and threads the limits of the user and of the container allow."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NPROC)
    # Linux does not apply this limit to root
    by_user = None if soft == resource.RLIM_INFINITY or os.geteuid() == 0 else soft - _threads_of_user()
    yield processes_finding(by_user, _room_in_cgroup())


def threads_for(ranks: int) -> int:
    """The number of processes and threads that a launch of this many ranks needs."""
    return 16 + 10 * ranks  # measured: 71 for 8 ranks


def processes_finding(by_user: int | None, by_group: int | None) -> CheckResult:
    """The finding about processes. by_user, by_group: how many more the limits of the user and of the container allow
    (None: no limit)."""
    rooms = [room for room in (by_user, by_group) if room is not None]
    room = min(rooms, default=threads_for(MANY))
    text = f"room for {room} more processes and threads" if rooms else "no limit"
    how = "raise `ulimit -u`" if room == by_user else "raise the container's limit (docker: --pids-limit)"
    return CheckResult(
        "processes", f"{text}; {MANY} ranks need {threads_for(MANY)}", how if room < threads_for(MANY) else ""
    )


def _threads_of_user() -> int:
    user = os.getuid()
    infos = (process.info for process in psutil.process_iter(["uids", "num_threads"]))
    return sum(info["num_threads"] or 0 for info in infos if info["uids"] and info["uids"].real == user)


def _room_in_cgroup() -> int | None:
    try:
        most, now = (int((PIDS / name).read_text(encoding="utf-8")) for name in ("pids.max", "pids.current"))
    except (OSError, ValueError):  # no such file, or it contains `max`, which means no limit
        return None
    return most - now


def _limit(limit: int) -> str:
    return "any number" if limit == resource.RLIM_INFINITY else str(limit)


def finest_tick_ns(readings: int = 1000) -> int:
    """The smallest step of `time.monotonic_ns()` over this many readings, in ns; 0: the clock never advanced."""
    times = [time.monotonic_ns() for _ in range(readings)]
    return min((after - before for before, after in pairwise(times) if after > before), default=0)


def interfaces() -> Iterator[CheckResult]:
    """Lists the network interfaces, and checks a connection over 127.0.0.1, which ranks need."""
    listed = ", ".join(f"{each.name} {each.address}" for each in network.interfaces()) or "none"
    try:
        # with a timeout, because a firewall may drop packets silently
        with (
            socket.create_server(("127.0.0.1", 0)) as server,
            socket.create_connection(server.getsockname(), timeout=5),
        ):
            pass
    except OSError as error:
        why = f"{listed}; no connection over 127.0.0.1: {first_line(error)}"
        yield CheckResult("interfaces", why, "ranks need it: `ip link set lo up`, or allow it in the firewall", True)
    else:
        yield CheckResult("interfaces", listed)


def join() -> Iterator[CheckResult]:
    """Checks whether nodes can join, and at which address of this host."""
    try:
        interface = choose_interface()
    except NetworkError as error:
        yield CheckResult("join", f"other hosts cannot reach this one: {error}", tried=False)
    else:
        yield CheckResult(
            "join", f"other hosts reach this one at {interface.address} ({interface.name}): --engine join"
        )


def slurm() -> Iterator[CheckResult]:
    """Checks whether Slurm jobs can be submitted from here. A machine without Slurm is fine."""
    if shutil.which("sbatch") is None:
        yield CheckResult("slurm", "no sbatch here, so no jobs can be submitted", tried=False)
        return
    why = refusal(EngineOptions(name="slurm"))
    remedy = "ask the cluster's administrators" if why else ""
    yield CheckResult("slurm", why or "jobs can be submitted: --engine slurm", remedy)


ENOUGH_DISK_GB = 1
FREE_SOME = (
    "delete runs that you no longer want (`ddptui delete RUN`, then `ddptui delete --empty-trash`), "
    f"or set {RUNS_VARIABLE} to another disk"
)
SHARED = Path("/dev/shm")
ENOUGH_SHARED_GB = 1  # NVIDIA's recommendation for containers with NCCL
TEMPORARY = ("TMPDIR", "TEMP", "TMP")  # in the order in which Python reads these variables
HELLO_MS = 5_000


def check_runs(option: str | None = None) -> Iterator[CheckResult]:
    """Checks the folder of runs, or its nearest existing parent. option: the value of --runs."""
    try:
        folder = runs_folder(option)
    except OSError as error:  # the user has no home
        yield CheckResult("runs", first_line(error), f"set HOME, or {RUNS_VARIABLE}", fatal=True)
        return
    nearest = next(path for path in (folder, *folder.parents) if os.path.lexists(path))  # also a broken link
    try:
        write_and_remove(nearest)
        free = shutil.disk_usage(nearest).free / GB
    except OSError as error:
        remedy = f"name another folder with --runs FOLDER, or {RUNS_VARIABLE}"
        yield CheckResult("runs", f"{folder}: cannot be written: {first_line(error)}", remedy, fatal=True)
        return
    yield CheckResult("runs", str(folder))
    yield CheckResult("disk", f"{free:.1f} GB free", "" if free >= ENOUGH_DISK_GB else FREE_SOME)


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


def check_sockets() -> Iterator[CheckResult]:
    """Checks ZeroMQ as a run uses it: with a socket in a temporary folder, and a process that sends a message to it."""
    remedy = "name a writable folder on a local disk: `export TMPDIR=FOLDER`"
    try:
        with RankServer(1) as hub:
            folder = hub.folder.parent
            received = _hello(hub)
    except (OSError, zmq.ZMQError) as error:
        yield CheckResult("sockets", f"no socket can be created: {first_line(error)}", remedy, fatal=True)
    except NoAnswer as why:
        yield CheckResult("sockets", f"another process cannot use ZeroMQ: {why}", remedy, fatal=True)
    else:
        if received:
            wanted = next((os.environ[name] for name in TEMPORARY if os.environ.get(name)), None)
            yield socket_folder_finding(folder, wanted, tempfile.gettempdir())
        else:
            yield CheckResult("sockets", f"no message arrives over ZeroMQ in {folder}", remedy, fatal=True)


def _hello(hub: RankServer) -> bool:
    with Child("workers.doctor.host", **{HUB: hub.endpoint, TOKEN: hub.token}) as child:
        child.ask("hello")
        return bool(hub.receive(HELLO_MS))


def socket_folder_finding(folder: Path, wanted: str | None, writable: str) -> CheckResult:
    """The finding about the folder of sockets. folder: the one that is used. wanted: the one that the environment
    names. writable: Python's choice of a temporary folder."""
    text = f"ZeroMQ (ipc) works in {folder}"
    if wanted is None or os.path.abspath(wanted) == str(folder):
        return CheckResult("sockets", text)
    if os.path.abspath(wanted) == writable:
        return CheckResult("sockets", f"{text}: the path of a socket in TMPDIR would be too long")
    return CheckResult("sockets", f"{text}: TMPDIR ({wanted}) cannot be written", f"`export TMPDIR={folder}`")


def shared_memory() -> Iterator[CheckResult]:
    """Checks /dev/shm, which NCCL and DataLoader workers need. Linux only."""
    if not sys.platform.startswith("linux"):
        return
    try:
        write_and_remove(SHARED)
        size = shutil.disk_usage(SHARED).total / GB
    except OSError as error:
        why = f"{first_line(error)}: NCCL and DataLoader workers cannot run"
        yield CheckResult("/dev/shm", why, "`mount -t tmpfs tmpfs /dev/shm` (docker: --shm-size=1g)")
        return
    remedy = "NCCL needs 1 GB: `mount -o remount,size=1g /dev/shm` (docker: --shm-size=1g)"
    is_enough = size >= ENOUGH_SHARED_GB or gpus.surely_none()  # only NCCL needs that much
    yield CheckResult("/dev/shm", f"{size * 1024:.0f} MB, for NCCL and DataLoader workers", "" if is_enough else remedy)


def check_data() -> Iterator[CheckResult]:
    """Lists the installed datasets."""
    folder = data_folder(Trial())
    installed = [name for name, files in FILES.items() if all((folder / file).is_file() for file in files)]
    listed = ", ".join(installed) or "no other dataset"
    yield CheckResult("data", f"digits and random are built in; {listed} in {folder} ({DATA_VARIABLE})")


BUSY_PERCENT, BUSY_GB = 10, 2  # above what an idle GPU shows: the driver itself uses up to 1 GB


def driver_and_gpus() -> Iterator[CheckResult]:
    """Checks NVIDIA's driver, its GPUs and what connects them. Yields nothing if there is no GPU: processes.py reports
    that."""
    if gpus.surely_none():
        return
    driver = gpus.ask(with_links=True)
    if driver is None:
        yield CheckResult("driver", "NVIDIA's NVML does not answer (no driver, or another vendor's GPU)", tried=False)
        return
    visible = os.environ.get(VISIBLE)
    yield driver_finding(driver, gpus.built_for())
    seen = gpus.seen(None if gpus.may_differ_in_order(driver) else visible, [gpu.uuid for gpu in driver.gpus])
    for index, gpu in enumerate(driver.gpus):
        yield gpu_finding(index, gpu, visible if index not in seen and not gpu.is_cut else None)
    if driver.links:
        yield CheckResult("links", "; ".join(driver.links))


def driver_finding(driver: Driver, build: Build | None) -> CheckResult:
    """The finding about NVIDIA's driver: its version, and whether this torch needs a newer one."""
    knows = f", up to CUDA {driver.cuda[0]}.{driver.cuda[1]}" if driver.cuda else ""
    built = f"; this torch is built for CUDA {build.cuda}" if build and build.cuda else ""
    return CheckResult("driver", f"{driver.version}{knows}{built}", OLDER if gpus.is_too_old(driver, build) else "")


def gpu_finding(index: int, gpu: HostGpu, hidden_by: str | None) -> CheckResult:
    """The finding about one GPU. hidden_by: the value of CUDA_VISIBLE_DEVICES if it hides this GPU, else None."""
    memory = f"{gpu.total_bytes / GB:.0f} GB" if gpu.total_bytes else ""
    used = f"{gpu.used_bytes / GB:.1f} GB used" if gpu.used_bytes is not None else ""
    parts = (
        gpu.name,
        memory,
        used,
        f"{gpu.busy_percent}% busy" if gpu.busy_percent is not None else "",
        _power_limit(gpu),
        f"at most {gpu.most_sm_mhz} MHz" if gpu.most_sm_mhz else "",
        "partitioned into instances (MIG)" if gpu.is_cut else "",
    )
    hidden = f"; hidden: {VISIBLE} is {hidden_by!r}" if hidden_by is not None else ""
    return CheckResult(f"GPU {index}", ", ".join(filter(None, parts)) + hidden, "; ".join(_remedies(gpu)))


def _power_limit(gpu: HostGpu) -> str:
    """The power limit in words: "at most 700 W"; with the default limit if they differ. Empty: not known."""
    limit, default = gpu.power_limit_w, gpu.default_power_limit_w
    if limit and default and round(limit) != round(default):
        return f"power limit {limit:.0f} W of {default:.0f} W by default"
    return f"at most {limit:.0f} W" if limit else ""


def _remedies(gpu: HostGpu) -> Iterator[str]:
    if (gpu.busy_percent or 0) > BUSY_PERCENT or (gpu.used_bytes or 0) > BUSY_GB * GB:
        yield f"other programs use it, which distorts times: `nvidia-smi` lists them; {VISIBLE} can exclude the GPU"
    if gpu.is_held_back:
        yield (
            "heat or the power limit lowers its clocks, which distorts times: check both;"
            " `nvidia-smi -q -d PERFORMANCE,TEMPERATURE`"
        )

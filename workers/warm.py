"""The warm parent: a process that imports what ranks need, once, and forks a launcher for each launch. A fork takes
milliseconds; the imports of a new process take seconds.

    python -m workers.warm DESCRIPTOR

DESCRIPTOR is a socket to the console. A forked launcher does what `python -m workers.MODE` does, and forks its ranks.
This process ends a launch as host/keeper.py does: when the console requests it, or has closed the socket. A fork copies
one thread only, so neither this process nor any module that it imports may start a second thread, CUDA or OpenMP.
"""

import gc
import importlib
import os
import pkgutil
import resource
import select
import signal
import socket
import sys
from collections.abc import Iterable
from contextlib import suppress
from functools import partial

import msgspec

import workers
from ddptui.host import keeper
from ddptui.host.machine import openmp_waits
from ddptui.wire import helper_messages as wire
from workers.rank import forked

WHILE_IMPORTING = {
    "OMP_NUM_THREADS": "1",  # no library may start threads; a rank sets its own number
    "PYTORCH_NVML_BASED_CUDA_CHECK": "1",  # torch.cuda.is_available must not start CUDA, which does not survive a fork
}
# Libraries that the modules of workers import only where they need them.
LIBRARIES = ("torch._dynamo", "torch.distributed.launcher.api", "torchvision.models", "torchvision.datasets")


def main() -> None:
    """Import, then serve the console's requests to fork and to end launches, until it closes the socket."""
    descriptor = int(sys.argv[1])
    console = socket.socket(fileno=descriptor)
    console.set_inheritable(False)
    gc.disable()  # imports create a million objects and hardly any garbage; collections would take a fifth of the time
    import_all()
    gc.collect()
    gc.freeze()  # a collection in a fork would write into every object's header, and so copy all memory pages
    gc.enable()
    woken = keeper.listen()
    poll = select.poll()  # unlike select, it takes descriptors above 1023
    poll.register(descriptor, select.POLLIN)
    poll.register(woken, select.POLLIN)
    send(console, wire.Imported(pid=os.getpid(), threads=len(os.listdir("/proc/self/task"))))
    launch = None
    while True:
        ready = [readable for readable, _ in poll.poll()]
        if woken in ready:
            os.read(woken, 4096)
        if descriptor in ready:
            message, descriptors = b"", list[int]()
            with suppress(ConnectionResetError):  # the console has ended without reading everything
                message, descriptors, *_ = socket.recv_fds(console, wire.MOST_WARM_BYTES, 1)
            match msgspec.json.decode(message, type=wire.Fork | wire.EndFork) if message else None:
                case wire.Fork() as request:
                    launch = fork(request, console, *descriptors)
                case wire.EndFork() if launch:
                    launch.end()
                case None:  # the console has closed the socket, or has ended
                    if launch:
                        launch.end()
                    os._exit(0)  # skips the teardown of all imported modules
        if launch:
            launch.reap()
            if launch.status is not None:
                launch.wait_and_kill(keeper.ORPHANS_S)
                send(console, wire.ForkEnded(status=launch.status))
                launch = None


def send(console: socket.socket, message: wire.FromParent) -> None:
    """Send the console a message, unless it has ended."""
    with suppress(OSError):  # the console has ended, which the main loop notices next
        console.send(msgspec.json.encode(message))


def import_all() -> None:
    """Import all modules that a launch may need."""
    before = dict(os.environ)
    os.environ.update(WHILE_IMPORTING | openmp_waits(before))  # OpenMP reads its wait policy when it is loaded
    for name in LIBRARIES:
        importlib.import_module(name)
    for module in pkgutil.walk_packages(workers.__path__, "workers."):
        importlib.import_module(module.name)
    os.environ.clear()  # torch has also added variables
    os.environ.update(before)


def fork(request: wire.Fork, console: socket.socket, log: int) -> keeper.Keeper | None:
    """Fork a launcher, and report to the console. Returns its keeper, or None if the fork failed."""
    try:
        launch = keeper.Keeper(request.launch_folder, fork_launcher(request, log))
    except OSError as error:
        launch = None
        send(console, wire.ForkRefused(why=f"{error.strerror}"))
    else:
        send(console, wire.Forked())
    os.close(log)
    return launch


def fork_launcher(request: wire.Fork, log: int) -> int:
    """Fork the launcher. Returns its process id. Raises OSError."""
    parent = os.getpid()
    # Block signals until the fork has dropped this process's handlers, in which they would be lost.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, keeper.LISTENED)
    try:
        pid = os.fork()
        if pid == 0:
            keeper.die_with(parent)
            forked.run(partial(run_launcher, request, log, before))
        return pid
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def run_launcher(request: wire.Fork, log: int, signals: Iterable[int]) -> None:
    """Run an entry point as a new process would. signals: the signal mask to restore."""
    signal.pthread_sigmask(signal.SIG_SETMASK, signals)
    os.setsid()
    for own in (1, 2):
        os.dup2(log, own)
    for descriptor in map(int, os.listdir("/proc/self/fd")):  # inherited from the warm parent; a new process has three
        if descriptor > 2:
            with suppress(OSError):  # the descriptor of listdir itself is closed already
                os.close(descriptor)
    resource.setrlimit(resource.RLIMIT_NOFILE, request.open_files)
    os.chdir(request.folder)
    os.environ.update(request.environment)
    sys.path[0] = request.folder  # as python -m sets it
    module = importlib.import_module(request.module)
    sys.argv = [str(module.__file__), *request.arguments]
    getattr(module, request.function)()


if __name__ == "__main__":
    main()

"""The warm parent: imports what ranks need, once, and forks a launcher for each launch. That takes milliseconds, where
a new process imports for seconds.

    python -m workers.warm DESCRIPTOR NICE

DESCRIPTOR is a socket to the console; NICE is the priority of the import. A forked launcher does what
`python -m workers.MODE` does, and forks its ranks. This process ends a launch as host/keeper.py does: when the console
wants it, or has closed the socket. A fork copies one thread only: this process must never have a second one, nor start
CUDA or OpenMP, and neither must what it imports.
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
import threading
import time
import traceback
from collections.abc import Iterable
from contextlib import suppress
from functools import partial

import msgspec

import workers
from ddptui.host import keeper
from ddptui.host.machine import openmp_waits
from ddptui.wire import warm as wire
from workers.rank import forked

ENDED_WITHIN_S = 1.0  # a thread that was joined, for the kernel
WHILE_IMPORTING = {
    "OMP_NUM_THREADS": "1",  # no library may start threads; a rank sets its own number
    "PYTORCH_NVML_BASED_CUDA_CHECK": "1",  # torch.cuda.is_available must not start CUDA, which does not survive a fork
}
# What ranks import only where they need it, beside the modules of workers.
LIBRARIES = ("torch._dynamo", "torch.distributed.launcher.api", "torchvision.models", "torchvision.datasets")


def main() -> None:
    descriptor = int(sys.argv[1])
    console = socket.socket(fileno=descriptor)
    console.set_inheritable(False)
    gc.disable()  # imports make a million objects and hardly any garbage; looking for it would take a fifth of the time
    import_at(int(sys.argv[2]))
    gc.collect()
    gc.freeze()  # a collection in a fork would write into every object's header, and so copy the pages it is on
    gc.enable()
    woken = keeper.listen()
    poll = select.poll()  # unlike select, it takes descriptors above 1023
    poll.register(descriptor, select.POLLIN)
    poll.register(woken, select.POLLIN)
    send(console, wire.Imported(pid=os.getpid(), threads=own_threads()))
    launch = None
    while True:
        ready = [readable for readable, _ in poll.poll()]
        if woken in ready:
            os.read(woken, 4096)
        if descriptor in ready:
            message, descriptors = b"", list[int]()
            with suppress(ConnectionResetError):  # the console has ended, and has not read all
                message, descriptors, *_ = socket.recv_fds(console, wire.MOST_BYTES, 1)
            match msgspec.json.decode(message, type=wire.Fork | wire.End) if message else None:
                case wire.Fork() as request:
                    launch = fork(request, console, *descriptors)
                case wire.End() if launch:
                    launch.end()
                case None:  # the console has closed the socket, or has ended
                    if launch:
                        launch.end()
                    os._exit(0)  # without taking apart what was imported
        if launch:
            launch.reap()
            if launch.status is not None:
                launch.wait_and_kill(keeper.ORPHANS_S)
                send(console, wire.Ended(status=launch.status))
                launch = None


def send(console: socket.socket, message: wire.FromParent) -> None:
    with suppress(OSError):  # the console has ended, as is noticed next
        console.send(msgspec.json.encode(message))


def import_at(nice: int) -> None:
    """Import all, at a priority. Ends the process if that fails."""
    failures: list[BaseException] = []

    def work() -> None:
        try:
            # never below its own, which only root may
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), max(nice, os.nice(0)))
            import_all()
        except BaseException as error:
            failures.append(error)

    # On Linux each thread has its own: this one's ends with it, and what is forked has the usual one.
    importer = threading.Thread(target=work)
    importer.start()
    importer.join()
    if failures:
        traceback.print_exception(failures[0])
        sys.stderr.flush()
        os._exit(1)  # whatever threads the imports have left


def own_threads() -> int:
    """The threads of this process, once one that has just ended is gone."""
    deadline = time.monotonic() + ENDED_WITHIN_S
    while (threads := len(os.listdir("/proc/self/task"))) > 1 and time.monotonic() < deadline:
        time.sleep(0.001)
    return threads


def import_all() -> None:
    """Import what a launch may need."""
    before = dict(os.environ)
    os.environ.update(WHILE_IMPORTING | openmp_waits(before))  # OpenMP reads how its threads wait when it is loaded
    for name in LIBRARIES:
        importlib.import_module(name)
    for module in pkgutil.walk_packages(workers.__path__, "workers."):
        importlib.import_module(module.name)
    os.environ.clear()  # torch has added some, too
    os.environ.update(before)


def fork(request: wire.Fork, console: socket.socket, log: int) -> keeper.Keeper | None:
    """Fork a launcher, and tell the console. None: it cannot be."""
    try:
        launch = keeper.Keeper(request.launch_folder, fork_launcher(request, log))
    except OSError as error:
        launch = None
        send(console, wire.Refused(why=f"{error.strerror}"))
    else:
        send(console, wire.Forked())
    os.close(log)
    return launch


def fork_launcher(request: wire.Fork, log: int) -> int:
    """Fork the launcher. Returns its process id. Raises OSError."""
    parent = os.getpid()
    # Signals wait until the fork has let go of this process's handlers, in which they would be lost.
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
    """Run an entry point as a new process would. signals: those that are to be blocked."""
    signal.pthread_sigmask(signal.SIG_SETMASK, signals)
    os.setsid()
    for own in (1, 2):
        os.dup2(log, own)
    for descriptor in map(int, os.listdir("/proc/self/fd")):  # the warm parent's: a new process has three
        if descriptor > 2:
            with suppress(OSError):  # that of this list
                os.close(descriptor)
    resource.setrlimit(resource.RLIMIT_NOFILE, request.open_files)
    os.chdir(request.folder)
    os.environ.update(request.environment)
    sys.path[0] = request.folder  # as python -m has it
    module = importlib.import_module(request.module)
    sys.argv = [str(module.__file__), *request.arguments]
    getattr(module, request.function)()


if __name__ == "__main__":
    main()

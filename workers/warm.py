"""The warm parent: imports what ranks need, once, and forks a launcher for each launch. That takes milliseconds, where
a new process imports for seconds.

    python -m workers.warm DESCRIPTOR NICE

DESCRIPTOR is a socket to the console; NICE is the priority of the import; the current folder is for temporary files. A
forked launcher does what `python -m workers.MODE` does, and forks its ranks. A fork copies one thread only: this
process must never have a second one, nor start CUDA or OpenMP, and neither must what it imports.
"""

import gc
import importlib
import os
import pkgutil
import resource
import signal
import socket
import sys
import threading
import time
import traceback
from contextlib import suppress
from functools import partial

import msgspec
import psutil

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

keepers: set[int] = set()  # process ids of the launches' keepers


def main() -> None:
    console = socket.socket(fileno=int(sys.argv[1]))
    console.set_inheritable(False)
    gc.disable()  # imports make a million objects and hardly any garbage; looking for it would take a fifth of the time
    import_at(int(sys.argv[2]))
    gc.collect()
    gc.freeze()  # a collection in a fork would write into every object's header, and so copy the pages it is on
    gc.enable()
    keeper.prctl(keeper.PR_SET_CHILD_SUBREAPER, 1)  # what a killed keeper leaves becomes this process's, to be killed
    signal.signal(signal.SIGCHLD, lambda *_: reap())
    console.send(msgspec.json.encode(wire.Imported(pid=os.getpid(), threads=own_threads())))
    while True:
        message, descriptors, *_ = socket.recv_fds(console, wire.MOST_BYTES, wire.DESCRIPTORS)
        if not message:  # the console has closed the socket, or has ended
            return
        request = msgspec.json.decode(message, type=wire.Fork)
        try:
            answer: wire.Forked | wire.Refused = wire.Forked(pid=fork_keeper(request, console, descriptors))
        except OSError as error:
            answer = wire.Refused(why=f"{error.strerror}")
        for descriptor in descriptors:
            os.close(descriptor)
        console.send(msgspec.json.encode(answer))


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
    # OpenMP reads how its threads wait when it is loaded. The compiler makes a folder for its cache.
    os.environ.update(WHILE_IMPORTING | openmp_waits(before), TMPDIR=os.getcwd())
    for name in LIBRARIES:
        importlib.import_module(name)
    for module in pkgutil.walk_packages(workers.__path__, "workers."):
        importlib.import_module(module.name)
    os.environ.clear()  # torch has added some, too
    os.environ.update(before)


def reap() -> None:
    """Collect the keepers that have ended: they have told the console themselves how. Kill what killed ones left."""
    orphaned = False
    with suppress(ChildProcessError):  # none is left
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            pid, status = ended
            orphaned |= pid not in keepers or os.WIFSIGNALED(status)  # one that was adopted may have children, too
            keepers.discard(pid)
    if orphaned:
        keeper.send((child for child in psutil.Process().children() if child.pid not in keepers), signal.SIGKILL)


def fork_keeper(request: wire.Fork, console: socket.socket, descriptors: list[int]) -> int:
    """Fork the keeper of a launch. Returns its process id. Raises OSError."""
    parent = os.getpid()
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})  # until `reap` knows the keeper
    try:
        pid = os.fork()
        keepers.add(pid)
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
    if pid == 0:
        console.close()  # with the warm parent: the console notices its end at once
        forked.run(partial(keep_launch, request, parent, *descriptors))
    return pid


def keep_launch(request: wire.Fork, parent: int, console: int, log: int) -> None:
    """The life of a launch's keeper. At its end it sends the launcher's status."""
    os.setsid()
    keeper.prctl(keeper.PR_SET_PDEATHSIG, signal.SIGHUP)  # wakes `keep`, which then ends the launch
    if os.getppid() != parent:  # it died before that call
        return
    for descriptor, own in ((console, keeper.CONSOLE), (log, 1), (log, 2)):
        os.dup2(descriptor, own)
    os.close(console)
    os.close(log)
    if os.read(keeper.CONSOLE, len(wire.BEGIN)) != wire.BEGIN:  # the console starts this launch in another way
        return
    status = keeper.keep(request.launch_folder, partial(fork_launcher, request))
    with suppress(OSError):  # the console has ended
        os.write(keeper.CONSOLE, status.to_bytes(wire.STATUS_BYTES))


def fork_launcher(request: wire.Fork) -> int:
    """Fork the launcher, below its keeper. Returns its process id. Raises OSError."""
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        keeper.die_with(parent)
        forked.run(partial(launch, request))
    return pid


def launch(request: wire.Fork) -> None:
    """Run an entry point as a new process would."""
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)  # in place of the keeper's connection
    for descriptor in map(int, os.listdir("/proc/self/fd")):  # the keeper's: a new process has three
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

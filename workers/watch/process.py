"""What the hooks need to know of their process: its relay's file, its device, its threads, and whether a compiler
traces.

If a compiler traced our functions, that would take time, and emit warnings about code that it cannot trace.

Our threads are hidden from `threading`: a training that joins all threads would wait forever, and its trace and
profile functions would run in our threads.
"""

import os
import signal
import sys
import threading
from _thread import start_new_thread
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import Event, get_ident
from types import CodeType, FunctionType, ModuleType
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from ..instruments.shield import pass_on

CPU = torch.device("cpu")


def device_of(shown: Any) -> torch.device:
    """The device of `shown`: the tensors on which backward was called, a loss, or a torch DDP. If it has none: this
    thread's current GPU if CUDA is initialized, else the CPU. Touches no other GPU, where a context takes some hundred
    MB."""
    first = next((one for one in (shown if isinstance(shown, Sequence) else [shown]) if isinstance(one, Tensor)), shown)
    with torch._C.DisableTorchFunction():  # hides this access from the training's tensor subclasses and modes
        device = getattr(first, "device", None)
    if isinstance(device, torch.device):
        return CPU if device.type == "meta" else device
    return torch.device("cuda", torch.cuda.current_device()) if torch.cuda.is_initialized() else CPU


def is_capturing() -> bool:
    """Whether this thread is capturing a CUDA graph, which the first calls of a clock would abort."""
    if not torch.cuda.is_initialized():
        return False
    # CUDA never captures its default stream, whose pointer is 0, and must not be queried about it during a capture.
    stream = torch._C._cuda_getCurrentRawStream(torch.cuda.current_device())
    return bool(stream) and torch.cuda.is_current_stream_capturing()


def is_autograds_thread() -> bool:
    """Whether this is one of autograd's own threads, which run a GPU's part of backward, and a backward is running."""
    known = threading._active.get(threading.get_ident())  # type: ignore[attr-defined]
    is_pythons = known is not None and not isinstance(known, threading._DummyThread)
    return not is_pythons and torch._C._current_graph_task_id() != -1


@contextmanager
def no_signals() -> Iterator[None]:
    """Block this thread's signals while the context is open, except those of a fault."""
    faults = {signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGABRT}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    try:
        # This call raises what a handler does whose signal has just come: then the training gets it, with none blocked.
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals() - faults)
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def written(console: str) -> tuple[int, int] | None:
    """The inode and modification time of the file that names the relay; None if the file is gone."""
    try:
        status = os.stat(console)
    except OSError as error:
        pass_on(error)
        return None
    return status.st_ino, status.st_mtime_ns


FEW_BACKWARDS = 10  # a rank that has called backward this often without a process group trains without one


def is_a_rank(backwards: int) -> bool:
    """Whether this process is in a process group, or trains without one. False for a rank that has yet to join its
    group. backwards: how often it has called backward."""
    is_alone = os.environ.get("WORLD_SIZE", "1") == "1" or backwards >= FEW_BACKWARDS
    return not dist.is_available() or dist.is_initialized() or is_alone


FRAMES: Any = torch._C._dynamo.eval_frame
PACKAGES = {__name__.partition(".")[0], "ddptui"}


def leave_untraced() -> None:
    """Mark all functions of ddptui's modules that are imported so far as not to be traced."""
    for name, module in sys.modules.copy().items():
        if name.partition(".")[0] in PACKAGES and isinstance(module, ModuleType):
            for code in _codes_in(module, name):
                _skip(code)


def _skip(code: CodeType) -> None:
    if hasattr(FRAMES, "skip_code"):  # before torch 2.7
        FRAMES.skip_code(code)
        return
    action = FRAMES._FrameAction
    FRAMES.set_code_exec_strategy(code, FRAMES._FrameExecStrategy(action.SKIP, action.DEFAULT))


def _codes_in(thing: Any, module: str) -> Iterator[CodeType]:
    """The code objects of all functions that a module or class defines, including nested ones."""
    for value in vars(thing).copy().values():
        function = getattr(value, "fget", getattr(value, "__wrapped__", value))
        if isinstance(value, type) and value.__module__ == module:
            yield from _codes_in(value, module)
        elif isinstance(function, FunctionType):
            yield from _within(function.__code__)


def _within(code: CodeType) -> Iterator[CodeType]:
    yield code
    for part in code.co_consts:
        if isinstance(part, CodeType):
            yield from _within(part)


class OwnThread:
    """A thread that runs one function. Like a daemon thread, it does not keep the process alive."""

    def __init__(self, work: Callable[[], object]) -> None:
        self._work = work
        self._over = Event()
        self._over.set()
        self._ident = 0  # no thread has this number

    def start(self) -> None:
        """Start the thread. Raises RuntimeError if no thread can be started."""
        self._over.clear()
        start_new_thread(self._run, ())

    def _run(self) -> None:
        self._ident = get_ident()
        try:
            self._work()
        finally:
            self._over.set()

    def has_ended_within(self, seconds: float) -> bool:
        """Wait up to `seconds` for the thread's end, unless called in it. Returns whether it has ended or not begun."""
        return self._over.wait(0 if self._ident == get_ident() else seconds)

"""Keeps errors of the instruments away from the training, but lets the training's own errors pass.

Python may run a signal handler of the training between any two instructions, also during a call of the instruments.
What the handler raises (a timeout, a preemption notice) belongs to the training. So do exceptions that another thread
injects (PyThreadState_SetAsyncExc), and those of a debugger's trace function.
"""

import fcntl
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial, wraps
from inspect import CO_VARARGS
from itertools import pairwise
from traceback import walk_tb
from types import CodeType, FrameType, FunctionType, MethodType
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

# The packages whose exceptions a call of the instruments may raise; exceptions of other packages are the training's.
PACKAGES = {*sys.stdlib_module_names, "torch", "msgspec", "zmq", "ddptui", __name__.partition(".")[0]}
# Exceptions that Python raises without arguments. Those that PyThreadState_SetAsyncExc raises never have any.
WITHOUT_ARGUMENTS = (AssertionError, MemoryError, NotImplementedError, StopIteration)


def shielded(function: Callable[P, T], fail: Callable[[Exception], object]) -> Callable[P, T | None]:
    """Wrap a function of the instruments: it passes its own errors to `fail`, and then returns None."""

    @wraps(function)
    def call(*arguments: P.args, **options: P.kwargs) -> T | None:
        try:
            return function(*arguments, **options)
        except Exception as error:
            pass_on(error)
            fail(error)
            return None

    return call


def pass_on(error: BaseException) -> None:
    """Raise an error again, which a call of the instruments has raised, if it is the training's own."""
    if not is_ours(error):
        raise error


@contextmanager
def suppressed(*kinds: type[Exception]) -> Iterator[None]:
    """Suppress errors of these types, except the training's own."""
    try:
        yield
    except kinds as error:
        pass_on(error)


def is_ours(error: BaseException) -> bool:
    """Whether an error that was raised while the instruments made a call is a bug of the instruments. Otherwise the
    training's own code raised it, and must receive it."""
    return (
        isinstance(error, Exception)
        and type(error).__module__.partition(".")[0] in PACKAGES
        and (bool(error.args) or isinstance(error, WITHOUT_ARGUMENTS))
        and not is_from_a_handler(error)
    )


def is_from_a_handler(error: Exception) -> bool:
    """Whether a signal handler or a trace function has raised the error."""
    frames = [frame for frame, _ in walk_tb(error.__traceback__)]
    handlers = [_code_of(signal.getsignal(number)) for number in signal.valid_signals()]
    return any(
        _was_given(frame, interrupted) or any(frame.f_code is code for code in handlers)
        for interrupted, frame in pairwise(frames)
    )


def _was_given(frame: FrameType, interrupted: FrameType) -> bool:
    """Whether the frame's function received the interrupted frame as an argument, as handlers and trace functions do.
    (A handler may have been uninstalled since.)"""
    code = frame.f_code
    has_more = bool(code.co_flags & CO_VARARGS)
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount + has_more]
    arguments = [frame.f_locals.get(name) for name in names]
    more = arguments[-1] if has_more and isinstance(arguments[-1], tuple) else ()
    return any(argument is interrupted for argument in (*arguments, *more))


def _code_of(handler: object) -> CodeType | None:
    """The code that runs when a handler is called; None if it is not a Python function."""
    match handler:
        case partial(func=function) | MethodType(__func__=function):
            return _code_of(function)
        case FunctionType():
            return handler.__code__
    called: object = vars(type(handler)).get("__call__")
    return called.__code__ if isinstance(called, FunctionType) else None


def identity(descriptor: int) -> tuple[int, int] | None:
    """The device and inode of a descriptor's file; None if the descriptor is not open."""
    try:
        status = os.fstat(descriptor)
    except OSError as error:
        pass_on(error)
        return None
    return status.st_dev, status.st_ino


def no_standard_stream(descriptor: int) -> int:
    """Move a descriptor above 2 if it has the number of a standard stream that was closed: otherwise the training's
    output would go to our file. Returns the descriptor. Raises OSError."""
    if descriptor > 2:
        return descriptor
    try:
        return fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 3)
    finally:
        os.close(descriptor)

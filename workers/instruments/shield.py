"""Keeps errors of the instruments from the training, and lets the training's own errors pass.

Python runs a signal handler of the training between any two instructions, so also within a call of the instruments:
what it raises there (a timeout, a preemption notice) belongs to the training. So does what another thread has Python
raise there (PyThreadState_SetAsyncExc), and what a debugger's trace function raises.
"""

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

# The packages whose exceptions a call of the instruments may raise; those of any other are the training's own.
PACKAGES = {*sys.stdlib_module_names, "torch", "msgspec", "zmq", "ddptui", __name__.partition(".")[0]}
# Exceptions that Python raises without arguments. PyThreadState_SetAsyncExc gives none of its own any.
WITHOUT_ARGUMENTS = (AssertionError, MemoryError, NotImplementedError, StopIteration)


def shielded(function: Callable[P, T], fail: Callable[[Exception], object]) -> Callable[P, T | None]:
    """The function, a part of the instruments. What it raises itself goes to `fail`, and it returns None then."""

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
    """Raises an error that has come out of a call of the instruments if it is the training's own."""
    if not is_ours(error):
        raise error


@contextmanager
def suppressed(*kinds: type[Exception]) -> Iterator[None]:
    """Suppress errors of these kinds, but none of the training's own."""
    try:
        yield
    except kinds as error:
        pass_on(error)


def is_ours(error: BaseException) -> bool:
    """Whether the instruments have raised an error that has come out of a call of theirs. Else it is the training's own
    and must reach it."""
    return (
        isinstance(error, Exception)
        and type(error).__module__.partition(".")[0] in PACKAGES
        and (bool(error.args) or isinstance(error, WITHOUT_ARGUMENTS))
        and not is_from_a_handler(error)
    )


def is_from_a_handler(error: Exception) -> bool:
    """Whether a signal handler or a trace function has raised it."""
    frames = [frame for frame, _ in walk_tb(error.__traceback__)]
    handlers = [_code_of(signal.getsignal(number)) for number in signal.valid_signals()]
    return any(
        _was_given(frame, interrupted) or any(frame.f_code is code for code in handlers)
        for interrupted, frame in pairwise(frames)
    )


def _was_given(frame: FrameType, interrupted: FrameType) -> bool:
    """Whether the frame's function has got the other frame as an argument, as Python calls a handler or a trace
    function. A handler may be installed no more by now."""
    code = frame.f_code
    has_more = bool(code.co_flags & CO_VARARGS)
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount + has_more]
    arguments = [frame.f_locals.get(name) for name in names]
    more = arguments[-1] if has_more and isinstance(arguments[-1], tuple) else ()
    return any(argument is interrupted for argument in (*arguments, *more))


def _code_of(handler: object) -> CodeType | None:
    """The code that runs when a handler is called; None if it is not Python's."""
    match handler:
        case partial(func=function) | MethodType(__func__=function):
            return _code_of(function)
        case FunctionType():
            return handler.__code__
    called: object = vars(type(handler)).get("__call__")
    return called.__code__ if isinstance(called, FunctionType) else None

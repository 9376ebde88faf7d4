"""What the instruments raise stays with them; what a training raises within a call of theirs reaches it."""

import ctypes
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial, wraps
from types import FrameType
from typing import Any

import pytest

from workers.instruments.shield import shielded
from workers.watch.process import no_signals

Handler = Callable[..., Any]


class OutOfTime(Exception):
    """The training's own."""


class Server:
    """A training that handles its signals by methods."""

    def notice(self, number: int, frame: FrameType | None) -> None:
        raise RuntimeError("it is preempted")

    def __call__(self, *arguments: Any) -> None:
        raise TimeoutError("the step takes too long")


def by_function(number: int, frame: FrameType | None) -> None:
    raise RuntimeError("it is preempted")


def deeper(number: int, frame: FrameType | None) -> None:
    by_function(number, None)


def forgetful(number: int, frame: FrameType | None) -> None:
    del frame
    raise ValueError("it is preempted")


def only_once(number: int, frame: FrameType | None) -> None:
    signal.signal(number, signal.SIG_DFL)
    raise ValueError("it is preempted")


def with_a_word(word: str, number: int, frame: FrameType | None) -> None:
    raise ValueError(word)


@wraps(by_function)
def decorated(*arguments: Any, **options: Any) -> None:
    by_function(*arguments, **options)


@pytest.fixture
def handled() -> Iterator[Callable[[Handler], None]]:
    before = signal.getsignal(signal.SIGUSR1)
    yield partial(signal.signal, signal.SIGUSR1)
    signal.signal(signal.SIGUSR1, before)


HANDLERS = {
    "function": by_function,
    "deeper": deeper,
    "forgetful": forgetful,
    "only once": only_once,
    "decorated": decorated,
    "partial": partial(with_a_word, "it is preempted"),
    "partial of a method": partial(Server().notice),
    "method": Server().notice,
    "object": Server(),
    "any arguments": lambda *_: [][1],
}


@pytest.mark.parametrize("handler", HANDLERS.values(), ids=HANDLERS)
def test_what_a_signal_handler_raises_within_a_call_of_ours_reaches_the_training(
    handler: Handler, handled: Callable[[Handler], None]
) -> None:
    handled(handler)
    failed: list[Exception] = []

    def measure() -> None:
        for each in [signal.SIGUSR1]:
            signal.raise_signal(each)

    with pytest.raises(Exception, match=r"preempted|too long|out of range"):
        shielded(measure, failed.append)()
    assert failed == []


def asynchronous(kind: type[BaseException]) -> None:
    """Have Python raise it here."""
    thread = ctypes.c_ulong(threading.get_ident())
    assert ctypes.pythonapi.PyThreadState_SetAsyncExc(thread, ctypes.py_object(kind)) == 1
    for _ in range(1000):
        pass


@pytest.mark.parametrize("kind", [OutOfTime, TimeoutError, RuntimeError, KeyboardInterrupt, SystemExit])
def test_what_another_thread_has_raised_within_a_call_of_ours_reaches_the_training(kind: type[BaseException]) -> None:
    failed: list[Exception] = []
    with pytest.raises(kind):
        shielded(asynchronous, failed.append)(kind)
    assert failed == []


def test_what_a_trace_function_raises_within_a_call_of_ours_reaches_the_training() -> None:
    """A debugger ends a program in this way."""

    def leave(frame: FrameType, event: str, argument: Any) -> Any:
        if event == "line":
            raise RuntimeError("left in the debugger")
        return leave

    failed: list[Exception] = []
    tracing = sys.gettrace()
    traced = shielded(lambda: sys.settrace(leave) or index(), failed.append)
    with pytest.raises(RuntimeError, match="debugger"):
        traced()
    sys.settrace(tracing)
    assert failed == []


def index() -> None:
    [][1]


def fail_in_torch() -> None:
    import torch

    torch.ones(2) @ torch.ones(3)


def assert_something() -> None:
    assert not signal.getsignal(signal.SIGINT)


@pytest.mark.parametrize("measure", [index, fail_in_torch, assert_something])
def test_what_we_raise_goes_to_fail_and_no_further(measure: Callable[[], None]) -> None:
    failed: list[Exception] = []
    assert shielded(measure, failed.append)() is None
    assert len(failed) == 1


def test_ours_is_still_ours_where_the_training_has_handlers(handled: Callable[[Handler], None]) -> None:
    handled(by_function)
    failed: list[Exception] = []
    shielded(index, failed.append)()
    assert [type(error) for error in failed] == [IndexError]


def exit_by_itself() -> None:
    raise SystemExit(3)


def test_what_ends_the_process_passes() -> None:
    with pytest.raises(SystemExit):
        shielded(exit_by_itself, pytest.fail)()


def test_a_call_that_fails_not_returns_what_it_returned() -> None:
    assert shielded(divmod, pytest.fail)(7, 2) == (3, 1)


def test_a_signal_that_comes_just_before_all_are_blocked_leaves_none_blocked(monkeypatch: pytest.MonkeyPatch) -> None:
    mask = signal.pthread_sigmask

    def interrupted(how: int, numbers: Any) -> Any:
        before = mask(how, numbers)
        if how == signal.SIG_BLOCK and numbers:
            raise OutOfTime  # as a handler does that Python calls within
        return before

    before = mask(signal.SIG_BLOCK, ())
    monkeypatch.setattr(signal, "pthread_sigmask", interrupted)
    with pytest.raises(OutOfTime), no_signals():
        pass
    assert mask(signal.SIG_BLOCK, ()) == before

"""A rank's end of the wire, against a real hub."""

import os
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import pytest

from ddptui.engines.rank_server import RankServer
from ddptui.wire.connection import HUB
from ddptui.wire.limits import MOST_OF_AN_ERROR
from ddptui.wire.messages import VERSION, Echo, Failed, Fingerprint, Hello, Pause, RankMessage
from ddptui.wire.records import Message, Probe
from tests.support import builders
from tests.support.failing import failing
from workers.instruments import reporter as module
from workers.instruments.reporter import Reporter, within_limits


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[RankServer]:
    with RankServer(1) as hub:
        monkeypatch.setenv(HUB, hub.endpoint)
        yield hub


def hello(hub: RankServer) -> Hello:
    return builders.hello(version=VERSION, token=hub.token, world_size=1, pid=os.getpid())


def without_pauses(messages: Sequence[Message]) -> list[Message]:
    """On a busy machine, this process may stand still, and report it."""
    return [message for message in messages if not isinstance(message, Pause)]


def receive(hub: RankServer, count: int) -> list[Message]:
    messages: list[Message] = []
    while len(messages) < count:
        new = hub.receive(5000)
        assert new, f"only {len(messages)} of {count} messages came"
        messages += without_pauses(new)
    return messages


def failed(number: int, error: str = "") -> Failed:
    return Failed(rank=0, at_ns=number, error=error)


broken = failing(RuntimeError("CUDA error: unspecified launch failure"))
MANY = [failed(number, "x" * 1000) for number in range(5000)]
SAID: dict[str, tuple[list[Any], list[Failed], int]] = {  # what is said after a hello, what comes, and what is dropped
    # The hello travels alone, however much is said at once with it: of strangers the console takes little.
    "everything in order, the last words too": (MANY, MANY, 0),
    # Where the device has failed, some forty steps are queued: the end of the log, which is shown, should be the
    # loop's. And one event that cannot be read must not silence the rank.
    "of failures one": ([broken, broken, lambda: [failed(1)], failed(3)], [failed(1), failed(3)], 2),
}


@pytest.mark.parametrize(("said", "comes", "dropped"), SAID.values(), ids=SAID)
def test_what_is_said_arrives(
    said: list[Any], comes: list[Failed], dropped: int, hub: RankServer, capsys: pytest.CaptureFixture[str]
) -> None:
    reporter = Reporter(0)
    for words in [hello(hub), *said]:
        reporter.send(words)
    if broken not in said:
        reporter.close()
    assert receive(hub, 1 + len(comes)) == [hello(hub), *comes]
    reporter.close()
    assert (reporter.dropped, hub.refused) == (dropped, 0)
    assert capsys.readouterr().err.count("RuntimeError: CUDA error") == (1 if dropped else 0)


def test_before_its_hello_a_rank_says_nothing_however_long_its_device_takes(
    hub: RankServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rank on a GPU says Hello once CUDA has started, and that holds Python's lock: a pause to be told, too."""
    monkeypatch.setattr(module, "BEAT_EVERY_S", 0.0)
    monkeypatch.setattr(module, "STOOD_STILL_MS", 0)
    monkeypatch.setattr(module, "SEND_EVERY_MS", 1)
    sends = threading.Semaphore(0)
    send = Reporter._send
    monkeypatch.setattr(Reporter, "_send", lambda *arguments: (send(*arguments), sends.release()))
    reporter = Reporter(0)
    for _ in range(3):
        sends.acquire()
    reporter.send(hello(hub))
    first, *_ = receive(hub, 3)
    reporter.close()
    assert first == hello(hub)
    assert hub.refused == 0


def test_a_full_queue_is_counted_never_waited_for(hub: RankServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_QUEUED", 10)
    reporter = Reporter(0)
    for _ in range(2000):
        reporter.send(hello(hub))
    assert reporter.dropped > 0
    reporter.close()


def test_a_probe_is_answered_at_once_and_not_with_the_next_batch(
    hub: RankServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    reporter = Reporter(0, heartbeat=False)
    reporter.send(hello(hub))
    receive(hub, 1)
    monkeypatch.setattr(module, "SEND_EVERY_MS", 10**6)
    for number in range(3):
        sent_ns = time.monotonic_ns()
        hub.send(Probe(number=number))
        [echo] = receive(hub, 1)
        assert isinstance(echo, Echo)
        assert (echo.rank, echo.number) == (0, number)
        assert sent_ns <= echo.heard_ns <= echo.said_ns <= time.monotonic_ns()
    reporter.close()


def test_what_is_not_known_yet_keeps_its_place(hub: RankServer) -> None:
    reporter = Reporter(0)
    known = threading.Event()
    asked: list[int] = []

    def later() -> list[Failed] | None:
        asked.append(threading.get_ident())
        return [failed(1), failed(2)] if known.is_set() else None

    for words in (hello(hub), later, failed(3)):
        reporter.send(words)
    assert receive(hub, 1) == [hello(hub)]
    while len(asked) < 2:
        assert without_pauses(hub.receive(20)) == []
    known.set()
    assert receive(hub, 3) == [failed(1), failed(2), failed(3)]
    assert threading.get_ident() not in asked
    reporter.close()


def test_what_never_gets_known_does_not_take_the_last_words_with_it(
    hub: RankServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LAST_WORDS_S", 0.2)
    reporter = Reporter(0)
    for words in (hello(hub), lambda: None, failed(3)):
        reporter.send(words)
    reporter.close()
    assert receive(hub, 2) == [hello(hub), failed(3)]


def test_without_a_console_what_there_is_to_tell_is_asked_for_in_order_until_it_is_known() -> None:
    reporter = Reporter(0)
    answers: list[list[Failed] | None] = [None, None, None, []]
    asked: list[str] = []

    def slow() -> list[Failed] | None:
        asked.append("slow")
        return answers.pop(0)

    def quick() -> list[Failed] | None:
        asked.append("quick")
        return []

    reporter.send(slow)
    reporter.send(quick)
    reporter.close()
    assert asked == ["slow", "slow", "slow", "slow", "quick"]


@pytest.mark.parametrize("error", ["x" * 10**6, "no such file: \udcff", "two\nlines \x1b[2J"])
def test_an_error_is_cut_and_spelled_so_that_the_console_takes_it(error: str) -> None:
    said = within_limits(Failed(rank=0, at_ns=1, error=error))
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(said), type=RankMessage) == said
    assert isinstance(said, Failed)
    assert said.error[:14] == error[:14]
    assert len(said.error) <= MOST_OF_AN_ERROR


@pytest.mark.parametrize("name", ["weight\n", "\udcff", "w" * 1000])
def test_what_the_console_would_refuse_is_said_to_have_failed(hub: RankServer, name: str) -> None:
    reporter = Reporter(0)
    reporter.send(hello(hub))
    reporter.send(Fingerprint(rank=0, step=1, parameters={name: "ab"}, buffers={}))
    told = receive(hub, 2)[1]
    reporter.close()
    assert isinstance(told, Failed)
    assert told.error.startswith("cannot send the console a Fingerprint: ")
    assert hub.refused == 0

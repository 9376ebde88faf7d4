"""Messages survive their encodings, and what is no message is refused as such; and what a training says of itself."""

from typing import Any, get_args

import msgspec
import pytest

import ddptui
from ddptui.wire import phases
from ddptui.wire.limits import MOST_OF_AN_ERROR
from ddptui.wire.messages import Failed, Heartbeat, Place, Position, RankMessage
from ddptui.wire.records import ConsoleMessage, Ended, Message, NcclLog
from ddptui.wire.relay_file import Event
from tests.support.builders import (
    audit,
    done,
    failed,
    fingerprint,
    heartbeat,
    hello,
    one_of_each,
    one_of_each_to_a_rank,
    step,
    tied,
    trained,
)

FRAME = msgspec.msgpack.Decoder(list[RankMessage])
LINE = msgspec.json.Decoder(Message)
TO_RANK = msgspec.msgpack.Decoder(ConsoleMessage)


@pytest.mark.parametrize("message", one_of_each(), ids=lambda message: type(message).__name__)
def test_every_message_survives_the_journal_in_a_line_and_messagepack(message: Message) -> None:
    line = msgspec.json.encode(message)
    assert LINE.decode(line) == message
    assert b"\n" not in line
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(message), type=Message) == message
    if type(message).__name__ in ("Launched", "Load", "Refused", "Injection", "Restarted", "Ended"):
        with pytest.raises(msgspec.ValidationError):  # a rank cannot speak for the lab
            FRAME.decode(msgspec.msgpack.encode([message]))


def test_what_older_journals_say_besides_is_ignored() -> None:
    """Fields and messages that no version writes any more."""
    nccl = {"type": "NcclLog", "at_ns": 7, "channels": 24, "transports": ["P2P/CUMEM"], "algorithms": ["RING/LL"]}
    assert LINE.decode(msgspec.json.encode(nccl)) == NcclLog(at_ns=7)
    gpu = [97, 1, 2, 241.5, 71, 1410, ["power cap"], 8.5]
    beat = LINE.decode(msgspec.json.encode(msgspec.to_builtins(heartbeat()) | {"type": "Heartbeat", "gpu": gpu}))
    assert isinstance(beat, Heartbeat)
    assert beat.gpu is not None
    assert (beat.gpu.held_back, beat.gpu.joules) == (("power cap",), 8.5)


def test_what_older_journals_do_not_say_yet_is_empty() -> None:
    at = [3, ["data"], 2, 1, "all_reduce", None, [0, 1], False, False, 0, 7, 32, "forward"]
    beat = LINE.decode(msgspec.json.encode(BEAT | {"position": at}))
    assert isinstance(beat, Heartbeat)
    assert (beat.stack, beat.position.phase) == ((), "forward")
    assert (beat.position.seq, beat.position.bytes) == (0, 0)
    old = LINE.decode(b'{"type": "Failed", "rank": 1, "at_ns": 7, "error": "ValueError: no"}')
    assert isinstance(old, Failed)
    assert (old.stack, old.workers, old.position, old.grown_bytes) == ((), (), Position(), 0)
    end = LINE.decode(b'{"type": "Ended", "at_ns": 7, "status": "failed", "error": "no"}')
    assert isinstance(end, Ended)
    assert (end.error, end.failure) == ("no", None)


EVENT: dict[str, Any] = {"what": "failed", "at_ns": 1, "pid": 2, "ppid": 1, "rank": None, "world": None, "attempt": 0}
EVENT |= {"error": "ValueError: no", "stack": [["train.py", 3, "f", True]], "exit": None, "workers": [[7, -9]]}
EVENT |= {"failures": [[1, 101, -9], [0, None, None]]}


def test_an_event_of_a_process_is_read_and_what_it_says_besides_is_ignored() -> None:
    event = msgspec.convert(EVENT, Event)
    assert (event.rank, event.stack, event.workers) == (None, (Place("train.py", 3, "f", True),), ((7, -9),))
    assert event.failures == ((1, 101, -9), (0, None, None))
    joins = msgspec.json.decode(b'{"what": "joins", "at_ns": 1, "pid": 2, "rank": 1, "world": 3}', type=Event)
    assert (joins.rank, joins.world, joins.error, joins.failures) == (1, 3, "", ())


@pytest.mark.parametrize(
    "changes",
    [
        {"what": "leaves"},
        {"pid": -1},
        {"rank": "0"},
        {"error": "x" * (MOST_OF_AN_ERROR + 1)},
        {"stack": [["a\x1b[2J", 3, "f", True]]},
        {"stack": [["train.py", 3, "f", True]] * 65},
        {"failures": [[1, 101]]},
        {"workers": [[7, None]]},
    ],
    ids=repr,
)
def test_an_event_that_no_process_writes_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(EVENT | changes, Event)


@pytest.mark.parametrize("message", one_of_each_to_a_rank(), ids=lambda message: type(message).__name__)
def test_what_the_console_says_survives_messagepack(message: ConsoleMessage) -> None:
    assert TO_RANK.decode(msgspec.msgpack.encode(message)) == message


def test_every_kind_of_message_is_among_the_examples() -> None:
    assert {type(message) for message in one_of_each()} == set(get_args(Message))
    assert {type(message) for message in one_of_each_to_a_rank()} == set(get_args(ConsoleMessage))


READY: dict[str, Any] = {"type": "Ready", "rank": 0, "at_ns": 1, "steps": 2, "parameters": 3}
STEP: dict[str, Any] = msgspec.to_builtins(step())
OPERATION = ["all_reduce", 0, 8, 1, 2, 3, 4]
TRAINED: dict[str, Any] = msgspec.to_builtins(trained())
PRINT: dict[str, Any] = msgspec.to_builtins(fingerprint())
AUDIT: dict[str, Any] = msgspec.to_builtins(audit())
DONE: dict[str, Any] = msgspec.to_builtins(done())
HELLO: dict[str, Any] = msgspec.to_builtins(hello())
FAILED: dict[str, Any] = msgspec.to_builtins(failed())
BEAT: dict[str, Any] = msgspec.to_builtins(heartbeat())
AT: dict[str, Any] = {"rank": 0, "at_ns": 1, "position": [3, ["data"], 2, 1, "all_reduce", None, [0, 1], False]}
TIED: dict[str, Any] = msgspec.to_builtins(tied())
INFINITE = float("inf")


@pytest.mark.parametrize(
    "raw",
    [
        READY | {"extra": 1},
        READY | {"rank": "0"},
        READY | {"rank": True},
        READY | {"type": "Reddy"},
        {key: value for key, value in READY.items() if key != "type"},
        STEP | {"phases_ns": [1, 2, 3, 4]},
        STEP | {"loss": "low"},
        STEP | {"collectives": [OPERATION[:-1]]},
        STEP | {"collectives": [["all_reduce", "0", *OPERATION[2:]]]},
        STEP | {"slept": [["nowhere", 1, 2]]},
        TRAINED | {"steps": 1.5},
        PRINT | {"parameters": {"weight": 1}},
        DONE | {"orders": [1]},
        DONE | {"audit": AUDIT | {"extra": 1}},
        DONE | {"audit": AUDIT | {"of": "buffers"}},
        [],
        READY | {"rank": -1},
        READY | {"rank": 1024},
        READY | {"at_ns": 2**63},
        HELLO | {"device": "cpu\x1b[2J"},
        HELLO | {"host": "h" * 501},
        HELLO | {"torch": "2\u202e51"},
        STEP | {"loss": INFINITE},
        STEP | {"phases_ns": [1, 2, 3, 4, -5]},
        STEP | {"order": []},
        STEP | {"order": [0] * 17},
        STEP | {"collectives": [["\x07", *OPERATION[1:]]]},
        STEP | {"collectives": [[*OPERATION, -1]]},
        STEP | {"collectives": [[*OPERATION, None, [0] * 1025]]},
        STEP | {"collectives": [OPERATION] * 65_537},
        BEAT | {"cpu_percent": INFINITE},
        BEAT | AT | {"position": [3, ["a\nb"]]},
        BEAT | {"gpu": [INFINITE]},
        BEAT | {"gpu": [99.0, 1, 2, "much"]},
        BEAT | {"gpu_bytes": -1},
        PRINT | {"parameters": {"weight\x00": "ab"}},
        PRINT | {"parameters": {"weight": "a" * 129}},
        PRINT | {"buffers": {str(number): "" for number in range(50_001)}},
        DONE | {"audit": AUDIT | {"worst": "a\x9bb"}},
        FAILED | {"error": "x" * (MOST_OF_AN_ERROR + 1)},
        FAILED | {"stack": [["a\nb", 3, "f", True]]},
        FAILED | {"workers": [[-7, -9]]},
        BEAT | {"stack": [["train.py", 3, "f", True]] * 65},
        BEAT | AT | {"position": [*AT["position"], False, 0, 7, 32, "forward", -1]},
    ],
    ids=lambda raw: repr(raw)[-60:],
)
def test_what_no_rank_says_is_refused(raw: object) -> None:
    with pytest.raises(msgspec.ValidationError):
        FRAME.decode(msgspec.msgpack.encode([raw]))


@pytest.mark.parametrize(
    "raw",
    [
        *(READY, STEP, STEP | {"collectives": [OPERATION]}, TRAINED, PRINT, DONE, DONE | {"audit": AUDIT}),
        STEP | {"collectives": [[*OPERATION, None, list(range(64))]] * 161 * 3},
        STEP | {"loss": 1.5e308},
        PRINT | {"parameters": {f"layer.{number}.größe": "a" * 64 for number in range(10_000)}},
        FAILED | {"error": "line\n" * 3_000},
        HELLO | {"rank": -1, "version": 10**9, "world_size": -5},
        BEAT | AT,
        BEAT | {"gpu_bytes": 2**36, "gpu": [99.5, 2**36, 2**37, 650.25, 71]},
        BEAT | {"gpu": [None, 2**36]},
        TIED,
    ],
    ids=lambda raw: raw["type"],
)
def test_what_is_spoilt_above_was_sound_and_what_large_models_and_many_ranks_say_is_not(raw: dict[str, Any]) -> None:
    assert len(FRAME.decode(msgspec.msgpack.encode([raw]))) == 1


# What a training may say of itself


class Listening:
    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []

    def phase_begins(self, name: str) -> None:
        self.calls.append(("begins", name))

    def phase_ends(self) -> None:
        self.calls.append(("ends",))

    def step_ends(self, loss: Any, samples: int) -> None:
        self.calls.append(("step", loss, samples))


@pytest.fixture
def listening(monkeypatch: pytest.MonkeyPatch) -> Listening:
    listener = Listening()
    monkeypatch.setattr(phases, "listener", listener)
    return listener


def test_marks_reach_the_instruments_also_where_a_phase_fails_or_is_a_function(listening: Listening) -> None:
    with pytest.raises(KeyError), ddptui.phase("forward"):
        raise KeyError
    ddptui.step(loss=2.5, samples=8)
    ddptui.step()
    assert listening.calls == [("begins", "forward"), ("ends",), ("step", 2.5, 8), ("step", None, 0)]
    listening.calls.clear()

    @ddptui.phase("backward")
    def backward(number: int) -> int:
        """Its own docstring."""
        return 2 * number

    assert (backward(3), backward(4), backward.__doc__) == (6, 8, "Its own docstring.")
    assert listening.calls == [("begins", "backward"), ("ends",)] * 2


def test_a_phase_that_there_is_not_is_refused_with_those_that_there_are_also_without_a_console() -> None:
    assert phases.listener is None
    with pytest.raises(ValueError, match="'eval' is not a phase of a step: choose from data, forward,"):
        ddptui.phase("eval")

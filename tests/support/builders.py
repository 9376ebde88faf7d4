"""Messages, journals, presets and runs made by hand. Times are given in ms, as a reader counts them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from ddptui.analysis.results import RepeatResult, Results
from ddptui.config.parser import parse
from ddptui.config.preset import Preset
from ddptui.config.trial import Bottleneck
from ddptui.findings.compare import compare
from ddptui.findings.repeat import RepeatOutcome, outcome_of_messages
from ddptui.store.runs import Run
from ddptui.wire.messages import (
    Audit,
    Batch,
    Buffer,
    Collective,
    Done,
    Echo,
    Failed,
    Fingerprint,
    Heartbeat,
    Hello,
    Line,
    LoaderWorker,
    Pause,
    Place,
    Position,
    Ready,
    Sampled,
    Shown,
    Slept,
    Step,
    Stood,
    Tied,
    Timed,
    Trained,
)
from ddptui.wire.records import (
    Alive,
    ConsoleMessage,
    Ended,
    Failure,
    Injection,
    LastStep,
    Launched,
    Load,
    Look,
    Message,
    NcclLog,
    Notice,
    Offset,
    Probe,
    Refused,
    Restarted,
    SetBottleneck,
    Stop,
    shift_times,
)

MS = 1_000_000  # ns
NEIGHBOR = "make (process 4711)"
LAUNCHED_MS = 1_000
FIRST_STEP_MS = 3_000
EQUAL_PHASES_MS = (1, 2, 3, 4, 5)


def launched(trial: str = "a", repeat: int = 1, at_ms: int = LAUNCHED_MS) -> Launched:
    return Launched(
        trial=trial, repeat=repeat, at_ns=at_ms * MS, command=("python", "-m", "workers.spawn"), start="warm"
    )


def hello(rank: int = 0, **changes: Any) -> Hello:
    words = Hello(
        version=1,
        token="token",
        rank=rank,
        world_size=2,
        at_ns=2_000 * MS,
        host="here",
        pid=100 + rank,
        device="cpu",
        threads=1,
        torch="2.15.0",
        backend="gloo",
    )
    return msgspec.structs.replace(words, **changes)


def ready(rank: int = 0, steps: int | None = 4, **changes: Any) -> Ready:
    words = Ready(rank=rank, at_ns=2_500 * MS, steps=steps, parameters=1_000)
    return msgspec.structs.replace(words, **changes)


def step(
    rank: int = 0,
    number: int = 0,
    *,
    begin_ms: float = FIRST_STEP_MS,
    end_ms: float = FIRST_STEP_MS + 10,
    phases_ms: tuple[float, ...] = EQUAL_PHASES_MS,
    samples: int = 8,
    loss: float | None = 1.0,
    warmup: bool = False,
) -> Step:
    data, forward, backward, aggregate, optimizer = (round(phase * MS) for phase in phases_ms)
    return Step(
        rank=rank,
        step=number,
        epoch=0,
        warmup=warmup,
        begin_ns=round(begin_ms * MS),
        end_ns=round(end_ms * MS),
        phases_ns=(data, forward, backward, aggregate, optimizer),
        samples=samples,
        loss=loss,
    )


def heartbeat(rank: int = 0, **changes: Any) -> Heartbeat:
    words = Heartbeat(rank=rank, at_ns=2_900 * MS, cpu_percent=99.5, rss_bytes=5_000, dropped=0)
    return msgspec.structs.replace(words, **changes)


def pause(rank: int = 0, *, begin_ms: float = FIRST_STEP_MS, end_ms: float = FIRST_STEP_MS + 10) -> Pause:
    return Pause(rank=rank, begin_ns=round(begin_ms * MS), end_ns=round(end_ms * MS))


def load(busy: float = 1.5, own: float = 1.5, *, at_ms: float = FIRST_STEP_MS) -> Load:
    return Load(at_ns=round(at_ms * MS), busy=busy, own=own)


def trained(rank: int = 0, **changes: Any) -> Trained:
    """Of a rank without instruments: the steps of `journal`."""
    words = Trained(
        rank=rank,
        first_ns=FIRST_STEP_MS * MS,
        begin_ns=(FIRST_STEP_MS + 100) * MS,
        end_ns=(FIRST_STEP_MS + 130) * MS,
        steps=3,
        samples=24,
        loss=0.5,
    )
    return msgspec.structs.replace(words, **changes)


def done(rank: int = 0, **changes: Any) -> Done:
    words = Done(
        rank=rank,
        at_ns=9_000 * MS,
        correct=30,
        evaluated=40,
        parameters={"weight": "abc", "bias": "def"},
        buffers={"running_mean": "123"},
        bottleneck_fired=0,
        bottleneck_ns=0,
    )
    return msgspec.structs.replace(words, **changes)


def fingerprint(rank: int = 0, number: int = 1, **changes: Any) -> Fingerprint:
    """As `done` has it, after step `number`."""
    words = Fingerprint(
        rank=rank, step=number, parameters={"weight": "abc", "bias": "def"}, buffers={"running_mean": "123"}
    )
    return msgspec.structs.replace(words, **changes)


def audit(**changes: Any) -> Audit:
    """Of a rank on which exactly the mean was left, its own gradients being at right angles to the other rank's. The
    worst tensor is as far off as all together, unless it is said otherwise."""
    words = Audit(
        of="gradients", error=0.0, scale=1.0, scaled_error=0.0, own_scale=0.5, own_error=0.5, worst="weight",
        worst_error=changes.get("error", 0.0),
    )  # fmt: skip
    return msgspec.structs.replace(words, **changes)


def audit_without_numbers() -> Audit:
    """What a rank says when its tensors were not finite."""
    return audit(error=None, scale=None, scaled_error=None, own_scale=None, own_error=None)


def failed(rank: int = 0, error: str = "ValueError: no", at_ms: int = 8_000) -> Failed:
    return Failed(rank=rank, at_ns=at_ms * MS, error=error)


def offset(
    rank: int = 1, at_ms: float = 2_100, offset_ms: float = 0, error_ms: float = 0.1, clock: str = "far"
) -> Offset:
    """What a probe says of another clock."""
    at_ns, offset_ns, error_ns = (round(each * MS) for each in (at_ms, offset_ms, error_ms))
    return Offset(rank=rank, clock=clock, at_ns=at_ns, offset_ns=offset_ns, error_ns=error_ns)


def tied(rank: int = 0, at_ms: float = FIRST_STEP_MS, error_ms: float = 0.05) -> Tied:
    """How exact the times of a rank's device are from then on."""
    return Tied(rank=rank, at_ns=round(at_ms * MS), error_ns=round(error_ms * MS))


def ended(status: str = "ok", error: str | None = None, failure: Failure | None = None) -> Ended:
    """failure: of a watched training; its text is the error, unless that is given."""
    text = failure.text if failure and error is None else error
    words = {"type": "Ended", "at_ns": 9_500 * MS, "status": status, "error": text}
    return msgspec.structs.replace(msgspec.convert(words, Ended), failure=failure)


def shown(rank: int = 0, place: int = 0, **changes: Any) -> Shown:
    """A reduce of two ranks to rank 0; on the other one, what is left means nothing."""
    words = Shown(
        rank=rank,
        place=place,
        at_ns=3_000 * MS,
        operation="reduce",
        reduce_op="sum",
        root=0,
        call="dist.reduce(tensor, dst=0, op=ReduceOp.SUM)",
        buffers=(Buffer("tensor", 1, (10.0 * rank + 1, 10.0 * rank + 2), (12.0, 14.0), rank != 0),),
    )
    return msgspec.structs.replace(words, **changes)


def timed(rank: int = 0, place: int = 0, us: tuple[float, ...] = (100.0, 200.0), **changes: Any) -> Timed:
    words = Timed(
        rank=rank,
        place=place,
        at_ns=3_000 * MS,
        operation="all_reduce",
        composite=False,
        reduce_op="sum",
        cadence="back_to_back",
        bytes=4096,
        calls_ns=tuple(round(each * 1000) for each in us),
    )
    return msgspec.structs.replace(words, **changes)


def one_of_each() -> list[Message]:
    """Every kind of message that a journal can hold."""
    told = [done(), done(audit=audit(), orders=("12", "34")), done(audit=audit_without_numbers())]
    operation = Collective("all_reduce", 1, 8, 10, 20, 30, 40, 0, (0, 1), 2)
    slept = Slept("aggregate", 10, 20)
    operation = msgspec.structs.replace(operation, line=7)
    full = msgspec.structs.replace(step(), collectives=(operation,), slept=(slept,), order=(0, 1, 3, 2))
    full = msgspec.structs.replace(full, lines=(Sampled(15, 20, 7, 1_000),))
    steps: list[Message] = [step(), full, step(loss=None), fingerprint(), trained(), trained(loss=None)]
    late = Bottleneck(at="forward", ranks=(1,), sleep_ms=5)
    waits = Position(step=3, passed=("data", "forward"), calls=2, number=1, kind="reduce", root=0, group=(0, 1))
    seen: list[Message] = [heartbeat(), msgspec.structs.replace(heartbeat(), position=waits), load(), tied()]
    watched = msgspec.structs.replace(waits, batch=3, batches=9, phase="forward", seq=7, bytes=400, between=1)
    seen += [msgspec.structs.replace(heartbeat(), position=watched, stack=SAVING, loaders=(LoaderWorker(5.0, "disk"),))]
    seen += [Line(rank=0, number=7, stack=SAVING), Stood(rank=0, at_ns=4_000 * MS, asked=1, stack=SAVING)]
    seen += [msgspec.structs.replace(failed(), position=watched, stack=SAVING, workers=((77, -9),), grown_bytes=-5)]
    batch = Batch(rank=0, step=1, loader=0, passes=1, batch=1, samples=4, elements=40, rows=(1, -2, 3))
    read = {"gradients": {"weight": "1f"}, "own": (1.0, None), "left": (0.5, 2.0), "settings": {"learning rate": "0.1"}}
    seen += [batch, msgspec.structs.replace(fingerprint(), **read), Pause(rank=0, begin_ns=10, end_ns=20)]
    seen += [
        Restarted(at_ns=4_000 * MS, failure=CAUSE),
        Injection(at_ns=4_000 * MS, bottleneck=(late,)),
        Refused(at_ns=4_000 * MS, count=3, why="a stranger"),
    ]
    seen += [Notice(at_ns=1_500 * MS, text="job 7 waits"), offset(), Echo(rank=1, number=2, heard_ns=10, said_ns=20)]
    seen += [shown(), shown(buffers=(Buffer("parts", 2, None, None),)), shown(error="no"), timed(), timed(us=())]

    return [
        launched(),
        hello(),
        ready(),
        *steps,
        *seen,
        *told,
        failed(),
        NcclLog(at_ns=4_500 * MS),
        ended("failed", "no"),
        ended("failed", failure=CAUSE),
    ]


def one_of_each_to_a_rank() -> list[ConsoleMessage]:
    late = Bottleneck(at="aggregate", ranks=(0, 1), sleep_ms=2.5, per="call", to_step=9, jitter="uniform")
    return [
        Stop(why="enough"),
        Alive(),
        Probe(number=3),
        SetBottleneck(bottleneck=(late,)),
        SetBottleneck(bottleneck=()),
        LastStep(step=17),
        Look(per_s=50, asked=3),
    ]


def journal(
    trial: str = "a",
    repeat: int = 1,
    *,
    ranks: int = 2,
    step_ms: float = 10,
    steps: int = 3,
    launched_ms: int = LAUNCHED_MS,
    device: str = "cpu",
) -> list[Message]:
    """One repeat that ended well: a warm-up step of 100 ms, then steps of `step_ms`, 8 samples a rank each."""
    messages: list[Message] = [launched(trial, repeat, launched_ms)]
    messages += [hello(rank, world_size=ranks, device=device) for rank in range(ranks)]
    messages += [ready(rank) for rank in range(ranks)]
    messages += [step(rank, 0, end_ms=FIRST_STEP_MS + 100, warmup=True, loss=9.0) for rank in range(ranks)]
    for number in range(1, steps + 1):
        begin_ms = FIRST_STEP_MS + 100 + (number - 1) * step_ms
        messages += [
            step(rank, number, begin_ms=begin_ms, end_ms=begin_ms + step_ms, loss=2.0 / number) for rank in range(ranks)
        ]
    messages += [done(rank) for rank in range(ranks)]
    return [*messages, ended()]


def with_done(messages: list[Message], *told: Done) -> list[Message]:
    """A journal in which these are the last words of their ranks."""
    others = {words.rank: words for words in told}
    return [others.get(message.rank, message) if isinstance(message, Done) else message for message in messages]


def with_hello(messages: list[Message], **changes: Any) -> list[Message]:
    """A journal whose ranks introduce themselves in this way, too."""
    return [msgspec.structs.replace(words, **changes) if isinstance(words, Hello) else words for words in messages]


def by_its_clock(message: Message, by_ms: float) -> Message:
    """The message as rank 1 tells it by a clock of its own, which is so far ahead; another rank's as it is."""
    if getattr(message, "rank", None) != 1:
        return message
    later = shift_times(message, round(by_ms * MS))
    return msgspec.structs.replace(later, clock="far") if hasattr(later, "clock") else later


def beside(messages: list[Message], **load: Any) -> list[Message]:
    """The same launch beside a program that keeps a core busy."""
    last = [message for message in messages if hasattr(message, "end_ns")][-1]
    reading = {"busy": 2.0, "own": 1.0, "s": 0.02, "by": NEIGHBOR} | load
    return [*messages[:-1], Load(at_ns=last.end_ns, **reading), messages[-1]]


SAVING = (Place("/lib/serialization.py", 9, "save", False), Place("train.py", 18, "<module>", True))
CAUSE = Failure(
    summary="rank 1 failed after step 59, at train.py:30: KeyError: 'val/f1'",
    remedy="give every rank the same metrics",
    rank=1,
    step=59,
    place="train.py:30",
    error="KeyError: 'val/f1'",
    details=("rank 0 failed as a consequence: RuntimeError: Connection closed by peer",),
)


def failure(trial: str, repeat: int = 1, error: str = "rank 1 was killed by SIGKILL\nthe log's end") -> list[Message]:
    return [launched(trial, repeat), hello(0), hello(1), ended("failed", error)]


def preset_of(table: Mapping[str, Any], **overrides: Any) -> Preset:
    return parse("made", dict(table), overrides)


def two_trials(**fields: Any) -> Preset:
    """Trials `a` (the baseline) and `b`, two repeats each."""
    return preset_of({"title": "A or b?", "repeats": 2, "trial": [{"name": "a"}, {"name": "b"}], **fields})


def outcomes_of(*journals: list[Message]) -> dict[tuple[str, int], RepeatOutcome]:
    read = [found for messages in journals if (found := outcome_of_messages(messages))]
    return {(found.trial, found.repeat): found for found in read}


def result_of(messages: list[Message]) -> RepeatResult:
    """What one launch, which ended well, comes to."""
    return outcome_of_messages(messages).result


def results_for(preset: Preset, *journals: list[Message]) -> Results:
    return compare(preset, "the-run", {"host": "here"}, outcomes_of(*journals))


def write_run(runs: Path, preset: Preset, *journals: list[Message]) -> Run:
    """The folder that a run with these journals leaves behind."""
    run = Run.create(runs, preset, {"host": "here"})
    for messages in journals:
        first = messages[0]
        assert isinstance(first, Launched)
        with run.begin(first.trial, first.repeat) as repeat:
            for message in messages:
                repeat.write(message)
    run.write_results(compare(preset, run.name, run.environment(), outcomes_of(*journals)))
    return run


def replayed(run: Run, preset: Preset) -> list[Message]:
    """The messages of all launches of a run, in the order of the launches."""
    launches = sorted(run.repeats(preset).items(), key=lambda launch: launch[0][1])
    return [message for _, messages in launches for message in messages]


def write_preset(folder: Path, text: str | bytes, name: str = "mine.toml") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path

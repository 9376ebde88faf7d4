"""Writes a run as CSV with a line for each step, rank and operation.

The journals are read twice: first for the clocks and standstills of a repeat, which hold for all its steps, then for
the steps, of which only some hundred are kept at a time. So the text of a run of any length needs little memory.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from math import inf
from typing import Any, NamedTuple

from ddptui.analysis.clocks import Clocks, clock_spread, in_console_time
from ddptui.analysis.operations import drop_inconsistent
from ddptui.analysis.thinning import StepsByRank
from ddptui.analysis.waits import align_steps
from ddptui.report.exports import values_of
from ddptui.text.tables import csv_lines, value_at
from ddptui.text.words import MS, S
from ddptui.wire.messages import Collective, Hello, Pause, Step
from ddptui.wire.phases import PHASES
from ddptui.wire.records import Launched, Message

BLOCK = 256  # steps that are aligned together

Journal = Callable[[], Iterable[Message]]  # reads the messages of a repeat


class Line(NamedTuple):
    """A line: a rank's operation in a step, or its step without one. Times are by the console's clock."""

    trial: str
    repeat: int
    zero_ns: int  # the launch
    step: Step
    number: int | None = None  # of the operation in the step, from 1
    operation: Collective | None = None
    # None: the ranks' operations differ in this step, or their arrivals cannot be compared
    transfer_ns: int | None = None  # how long the operation took once all needed ranks had arrived
    last_rank: int | None = None  # the rank that arrived last; None also if the operation has no other rank
    clock_error_ms: float | None = None


def _at(moment: str) -> Callable[[Line], float | None]:
    def since_launch(line: Line) -> float | None:
        ns: Any = value_at(line, moment)
        return None if ns is None else (ns - line.zero_ns) / S

    return since_launch


def _phase_ms(at: int) -> Callable[[Line], float]:
    return lambda line: line.step.phases_ns[at] / MS


def _wait_ms(line: Line) -> float | None:
    if line.operation is None or line.transfer_ns is None:
        return None
    return (line.operation.exit_ns - line.operation.enter_ns - line.transfer_ns) / MS


# For each column, the path of its value from a Line, or a function. Scripts read these names: add, never rename.
CSV: dict[str, str | Callable[[Line], object]] = {
    "trial": "trial",
    "repeat": "repeat",
    "step": "step.step",
    "rank": "step.rank",
    "epoch": "step.epoch",
    "warmup": "step.warmup",
    "samples": "step.samples",
    "loss": lambda line: "nan" if line.step.loss is None and line.step.has_loss else line.step.loss,
    "begin_s": _at("step.begin_ns"),
    "end_s": _at("step.end_ns"),
    **{f"{phase}_ms": _phase_ms(at) for at, phase in enumerate(PHASES)},
    "number": "number",
    "operation": "operation.kind",
    "bytes": "operation.bytes",
    "before_s": _at("operation.called_ns"),
    "arrival_s": _at("operation.enter_ns"),
    "after_s": _at("operation.exit_ns"),
    "wait_ms": _wait_ms,
    "transfer_ms": lambda line: None if line.transfer_ns is None else line.transfer_ns / MS,
    "last": lambda line: None if line.last_rank is None else line.last_rank == line.step.rank,
    "clock_error_ms": "clock_error_ms",
}


def as_csv(journals: Mapping[tuple[str, int], Journal]) -> Iterator[str]:
    """The text, line by line. journals: by trial and number of the repeat."""
    lines = (line for repeat, journal in journals.items() for line in _of_repeat(*repeat, journal))
    return csv_lines([*CSV], (values_of(line, CSV) for line in lines))


def _of_repeat(trial: str, repeat: int, journal: Journal) -> Iterator[Line]:
    clocks, devices, pauses, counts, zero_ns = Clocks(), dict[int, str](), list[Pause](), Counter[int](), 0
    for message in journal():
        clocks.add(message)
        match message:
            case Launched():
                zero_ns = message.at_ns
            case Hello():
                devices[message.rank] = message.device
            case Pause():
                pauses.append(message)
            case Step():
                counts[message.rank] += 1
    pauses = [in_console_time(pause, clocks) for pause in pauses]
    for block in _blocks(journal, counts):
        spread = clock_spread(clocks, block)
        errors_ns = spread.errors_ns(block) if spread else {}
        steps = {rank: [in_console_time(step, clocks) for step in of_rank] for rank, of_rank in block.items()}
        comparable = drop_inconsistent(steps)[0] if max(errors_ns.values(), default=0.0) < inf else {}
        aligned = align_steps(comparable, pauses, spread, devices).steps
        waits: dict[tuple[int, int], list[tuple[int | None, int | None]]] = {  # for each operation of a rank's step
            (rank, together.number): [(ns, last.get(key)) for key, ns in own.transfers.items()]
            for together in aligned
            if not together.host_time
            for last in [together.last_arrivals]
            for rank, own in together.ranks.items()
        }
        for step in sorted((step for of_rank in steps.values() for step in of_rank), key=lambda s: (s.step, s.rank)):
            known = waits.get((step.rank, step.step)) or [(None, None)] * len(step.collectives)
            error_ms = errors_ns[step.rank] / MS if errors_ns else None
            for number, (operation, waited) in enumerate(zip(step.collectives, known, strict=True), start=1):
                yield Line(trial, repeat, zero_ns, step, number, operation, *waited, error_ms)
            if not step.collectives:
                yield Line(trial, repeat, zero_ns, step)


def _blocks(journal: Journal, counts: Mapping[int, int]) -> Iterator[StepsByRank]:
    """The steps of a repeat, BLOCK numbers at a time, once all ranks have made them. counts: how many steps each rank
    made."""
    left, reached = Counter(counts), dict.fromkeys(counts, (0.0, 0.0))
    lives = Counter[int]()  # a rank that was restarted says Hello again, and may number its steps from 0
    pending: dict[tuple[float, float], StepsByRank] = {}
    for step in journal():
        if isinstance(step, Hello):
            lives[step.rank] += 1
        if not isinstance(step, Step) or not left[step.rank]:  # the run may have gone on since they were counted
            continue
        number = (float(lives[step.rank]), float(step.step // BLOCK))
        pending.setdefault(number, {}).setdefault(step.rank, []).append(step)
        left[step.rank] -= 1
        now = number if left[step.rank] else (inf, inf)
        if now != reached[step.rank]:
            reached[step.rank] = now
            for over in sorted(block for block in pending if block < min(reached.values())):
                yield pending.pop(over)

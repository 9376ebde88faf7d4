"""Whether what ran on GPUs came out as expected: of results.json and the journals of a run. Pure."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from ddptui.analysis.gpu_work import rank_peak
from ddptui.analysis.results import RepeatResult, Results, TrialResult
from ddptui.text.words import US, S, count, digits, listed, percent, seconds, size
from ddptui.wire.messages import Ready, Step, Tied
from ddptui.wire.records import Message

LOSS_TOLERANCE = 0.01  # relative, of the first tenth of the steps: later, roundings have grown
MOST_TIE_ERROR_NS = 60_000
SETTLED_NS = S  # after which a GPU's clock is expected to be known so well
DELAY_TOLERANCE = 0.05  # relative
BEATS_S = 3.0  # a shorter training may have less than two heartbeats, by which clocks and energy are read
UNNAMED = {"mismatch", "lone-collective"}  # NCCL compares no calls: which rank is out of step may stay unknown
STALLED = {"stop", "hang", "skip"}


class Observed(NamedTuple):
    """What was observed, in words, and whether that is as expected."""

    ok: bool
    text: str


Expect = Callable[..., None]  # what it is given, each Observed, must be as expected


class Recorded(NamedTuple):
    """What a run has left: its results, and by trial the messages of its journal."""

    results: Results
    messages: Mapping[str, Sequence[Message]]

    @property
    def repeats(self) -> dict[str, RepeatResult]:
        """By trial its only repeat, if it has figures."""
        return {trial.name: trial.repeats[0] for trial in self.results.trials if trial.repeats}


def none_of(problems: Sequence[str], otherwise: str) -> Observed:
    """As expected if there are no such problems; in that case, what is said."""
    return Observed(not problems, listed(problems) or otherwise)


# Trainings


def trained(recorded: Recorded) -> Iterator[Observed]:
    """Whether all trials ended well, on GPUs, in sync, with the right mean."""
    repeats = recorded.repeats.items()
    devices = {(name, rank.device) for name, repeat in repeats for rank in repeat.ranks}
    yield ended_well(recorded)
    yield none_of(sorted(f"{name} on {at}" for name, at in devices if not at.startswith("cuda")), "all ranks on GPUs")
    apart = [name for name, repeat in repeats if False in (repeat.in_sync.parameters, repeat.in_sync.buffers)]
    yield none_of([f"{name} not in sync" for name in apart], "ranks in sync")
    wrong = [name for name, repeat in repeats if repeat.averaging and repeat.averaging.right is not True]
    yield none_of([f"average of {name} not right" for name in wrong], "averages right")


def trained_alike(recorded: Recorded, tolerance: float = LOSS_TOLERANCE) -> Iterator[Observed]:
    """As `trained`; and whether the loss over the first tenth of the steps is the same in all trials."""
    yield from trained(recorded)
    losses = [repeat.loss.first for repeat in recorded.repeats.values() if repeat.loss.first is not None]
    if not losses or len(losses) < len(recorded.repeats):
        yield Observed(False, "a loss is not finite")
        return
    low, high = min(losses), max(losses)
    span = " to ".join(dict.fromkeys((digits(low, 4), digits(high, 4))))
    yield Observed(high - low <= tolerance * abs(high), f"loss of the first steps {span}")


def ended_well(recorded: Recorded) -> Observed:
    """Whether every trial has ended well and has figures."""
    trials = recorded.results.trials
    failed = [f"{trial.name} {trial.status}: {reason(trial)}" for trial in trials if trial.status != "ok"]
    failed += [
        f"{trial.name} has no figures"
        for trial in trials
        if trial.status == "ok" and not (trial.repeats or trial.primitives)
    ]
    well = f"{len(trials) - len(failed)} of {count(len(trials), 'trial')} ended well"
    return Observed(not failed, "; ".join([well, *failed]))


def reason(trial: TrialResult) -> str:
    """Why a trial failed, in a line: what follows is from its logs."""
    return (trial.error or "").partition("\n")[0]


def over(recorded: Recorded, backends: str | Mapping[str, str]) -> Observed:
    """Whether all trials took this backend; or those that are named, their own."""
    expected = dict.fromkeys(recorded.repeats, backends) if isinstance(backends, str) else dict(backends)
    taken = {name: repeat.backend for name, repeat in recorded.repeats.items() if name in expected}
    wrong = [f"{name} over {backend or 'no group'}" for name, backend in taken.items() if backend != expected[name]]
    missing = [f"{name}: no figures" for name in expected if name not in taken]
    return none_of([*wrong, *missing], f"over {listed(sorted(set(expected.values())))}")


def nccl_named(recorded: Recorded, implementation: str) -> Iterator[Observed]:
    """Whether each trial over NCCL names its version and this class of torch around it; others name none."""
    for name, repeat in recorded.repeats.items():
        nccl, expects = repeat.nccl, repeat.backend == "nccl"
        right = bool(nccl.version) and nccl.implementation == implementation if nccl else True
        text = f"NCCL {nccl.version}, {nccl.implementation}" if nccl else "no NCCL named"
        yield Observed((nccl is not None) == expects and right, f"{name}: {text}")


def every_step_told(recorded: Recorded) -> Observed:
    """Whether a message about each step of each rank arrived, and none was lost."""
    lacking = []
    for trial, messages in recorded.messages.items():
        planned = {message.rank: message.steps for message in messages if isinstance(message, Ready)}
        told = Counter(rank for rank, _ in {(each.rank, each.step) for each in messages if isinstance(each, Step)})
        lacking += [
            f"{trial}, rank {rank}: {told[rank]} of {steps} steps"
            for rank, steps in planned.items()
            if told[rank] != steps
        ]
        lacking += [] if planned else [f"{trial}: no rank was ready"]
    return none_of(lacking, "a message for each step")


def clocks_tied(recorded: Recorded) -> Observed:
    """Whether, a second after its first message about that, each rank knew the time of its GPU well enough."""
    ties: dict[tuple[str, int], list[Tied]] = {}
    for trial, messages in recorded.messages.items():
        for message in messages:
            if isinstance(message, Tied):
                ties.setdefault((trial, message.rank), []).append(message)
    if not ties:
        return Observed(False, "no rank reported how exact the times of its GPU are")
    worst = max(map(_settled_error_ns, ties.values()))
    return Observed(worst <= MOST_TIE_ERROR_NS, f"times of GPUs off by ±{digits(worst / US)} µs at most")


def _settled_error_ns(ties: list[Tied]) -> int:
    """The largest error that was in force from SETTLED_NS after the first on."""
    settled_ns = min(tie.at_ns for tie in ties) + SETTLED_NS
    *_, before = sorted((tie for tie in ties if tie.at_ns <= settled_ns), key=lambda tie: tie.at_ns)
    return max([before.error_ns, *(tie.error_ns for tie in ties if tie.at_ns > settled_ns)])


def delay_found(recorded: Recorded, name: str, site: tuple[int, str] | None) -> Observed:
    """Whether the rank and the phase of this site were named, with a delay as long as the one injected there; without a
    site, no rank."""
    repeat = recorded.repeats.get(name)
    if repeat is None:
        return Observed(False, f"{name}: no figures")
    culprit = repeat.culprit
    if culprit is None or site is None:
        named = f"rank {culprit.rank} named in {culprit.phase}" if culprit else "no rank named"
        return Observed(culprit is None and site is None, f"{name}: {named}")
    injected = sum(delay.s for delay in repeat.injected if (delay.rank, delay.at) == site)
    found = culprit.excess_s.estimate
    right = (culprit.rank, culprit.phase) == site and abs(found - injected) <= DELAY_TOLERANCE * injected
    text = f"{name}: rank {culprit.rank} in {culprit.phase}, {seconds(found)} of {seconds(injected)} injected"
    return Observed(right and injected > 0, text)


def costs_at_most(recorded: Recorded, cheap: str, dear: str, factor: float) -> Observed:
    """Whether a step of one trial takes at most so many times as long as one of another."""
    times = {name: repeat.train_time_s / repeat.steps for name, repeat in recorded.repeats.items() if repeat.steps}
    if cheap not in times or dear not in times:
        return Observed(False, f"{cheap} or {dear}: no figures")
    ratio = times[dear] / times[cheap]
    return Observed(
        ratio <= factor,
        f"a step of {cheap} {seconds(times[cheap])}, of {dear} {seconds(times[dear])}: {ratio:.2f} × as long",
    )


def step_times(recorded: Recorded) -> Observed:
    """How long a step of each trial took. As expected as long as it is known."""
    times = {name: repeat.step_ms.median if repeat.step_ms else None for name, repeat in recorded.repeats.items()}
    return Observed(
        None not in times.values(), f"a step: {listed([f'{name} {digits(times[name])} ms' for name in times])}"
    )


def fault_named(trial: TrialResult, rank: int = 1) -> Observed:
    """Whether a faulty trial was stopped and names this rank, and one that stalled has left torch's flight record; the
    sound one ended well."""
    if trial.name == "sound":
        return Observed(trial.status == "ok", f"sound: {trial.status}")
    why = reason(trial)
    named = f"rank {rank}" in why or trial.name in UNNAMED
    kept = ".flight.json" in (trial.error or "") or trial.name not in STALLED
    text = f"{trial.name} {trial.status}: {why}" + ("" if kept else " (no flight record)")
    return Observed(trial.status == "failed" and named and kept, text)


# Figures that only GPUs have


def figures_told(recorded: Recorded) -> Iterator[Observed]:
    """For each trial what its GPUs did: TFLOP/s, MFU, energy, clocks and memory; each must be there, and possible."""
    for name, repeat in recorded.repeats.items():
        readies = [message for message in recorded.messages[name] if isinstance(message, Ready)]
        clocks = " and ".join(f"{digits(rank.sm_mhz)} MHz" for rank in repeat.ranks)
        memory = [f"{size(rank.peak_gpu_bytes)} of {size(rank.peak_gpu_reserved_bytes)}" for rank in repeat.ranks]
        rates = f"{digits(repeat.tflops)} TFLOP/s, MFU {percent(repeat.mfu)}, {digits(repeat.joules_a_step)} J a step"
        problems = list(dict.fromkeys([*_rates_wrong(repeat, readies), *_memory_wrong(repeat)]))
        found = none_of(problems, f"{rates}, {clocks}, {' and '.join(memory)} reserved")
        yield found._replace(text=f"{name}: {found.text}")


def _rates_wrong(repeat: RepeatResult, readies: Sequence[Ready]) -> Iterator[str]:
    """What is missing of TFLOP/s, MFU, clocks and energy, or cannot be. A GPU whose peak is not known has no MFU."""
    if not repeat.tflops:
        yield "no TFLOP/s"
    if not readies or not all(ready.gpus for ready in readies):
        yield "a rank names no GPU"
    elif repeat.mfu is None and all(rank_peak(ready) is not None for ready in readies):
        yield "no MFU, although the peak is known"
    elif repeat.mfu is not None and not 0 < repeat.mfu <= 1:
        yield f"MFU {percent(repeat.mfu)}"
    if repeat.train_time_s >= BEATS_S and not all(rank.sm_mhz for rank in repeat.ranks):
        yield "no clock of the GPU"
    if repeat.train_time_s >= BEATS_S and not repeat.joules_a_step:
        yield "no joules a step"


def _memory_wrong(repeat: RepeatResult) -> Iterator[str]:
    for rank in repeat.ranks:
        taken, reserved = rank.peak_gpu_bytes, rank.peak_gpu_reserved_bytes
        if taken is None or reserved is None:
            yield "no memory taken, or none reserved"
        elif taken > reserved:
            yield f"{size(taken)} taken of {size(reserved)} reserved"


# Primitives


def primitives_right(recorded: Recorded) -> Observed:
    """Whether each operation of each size gave the right values, and has a time."""
    cells = [cell for trial in recorded.results.trials for result in trial.primitives for cell in result.cells]
    problems = [
        f"{cell.operation} of {size(cell.bytes)}: {cell.error or f'no time, or wrong in {cell.wrong} elements'}"
        for cell in cells
        if cell.error or cell.wrong or not cell.time_us or not cell.time_us.median > 0
    ]
    operations = {cell.operation for cell in cells}
    right = f"{count(len(cells), 'size')} of {count(len(operations), 'operation')} right and timed"
    return none_of(problems if cells else ["nothing was measured"], right)

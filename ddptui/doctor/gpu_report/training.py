"""Whether trainings on GPUs came out as expected: of results.json and the journal of a run. Pure."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from ddptui.analysis.results import RepeatResult, Results, TrialResult
from ddptui.doctor.gpu_report.check import Observed, Recorded
from ddptui.text.units import US, S, digits, percent, seconds
from ddptui.text.words import count, listed
from ddptui.wire.messages import Ready, Step, Tied

LOSS_TOLERANCE = 0.01  # relative, of the first tenth of the steps: later, roundings have grown
MOST_TIE_ERROR_NS = 60_000
SETTLED_NS = S  # after which a GPU's clock is expected to be known so well
DELAY_TOLERANCE = 0.05  # relative


class Site(NamedTuple):
    """Where a delay was injected."""

    rank: int
    phase: str


def repeats(results: Results) -> Iterator[tuple[str, RepeatResult]]:
    """The repeats that have figures, each with its trial's name."""
    for trial in results.trials:
        for repeat in trial.repeats:
            yield trial.name, repeat


def ended_well(results: Results) -> Observed:
    """Whether every trial has ended well and has figures."""
    failed = [f"{trial.name} {trial.status}: {reason(trial)}" for trial in results.trials if trial.status != "ok"]
    failed += [f"{trial.name} has no figures" for trial in results.trials if trial.status == "ok" and not _has(trial)]
    well = f"{len(results.trials) - len(failed)} of {count(len(results.trials), 'trial')} ended well"
    return Observed(not failed, "; ".join([well, *failed]))


def _has(trial: TrialResult) -> bool:
    return bool(trial.repeats or trial.primitives)


def reason(trial: TrialResult) -> str:
    """Why a trial failed, in a line: what follows is from its logs."""
    return (trial.error or "").partition("\n")[0]


def on_gpus(results: Results) -> Observed:
    """Whether all ranks computed on GPUs."""
    devices = {(name, rank.device) for name, repeat in repeats(results) for rank in repeat.ranks}
    elsewhere = sorted(f"{name} on {device}" for name, device in devices if not device.startswith("cuda"))
    return Observed(not elsewhere, listed(elsewhere) or "all ranks on GPUs")


def losses_alike(results: Results, tolerance: float = LOSS_TOLERANCE) -> Observed:
    """Whether the loss over the first tenth of the steps is the same in all trials."""
    losses = [repeat.loss.first for _, repeat in repeats(results)]
    known = [loss for loss in losses if loss is not None]
    if not known or len(known) < len(losses):
        return Observed(False, "a loss is not finite")
    low, high = min(known), max(known)
    span = " to ".join(dict.fromkeys((digits(low, 4), digits(high, 4))))
    return Observed(high - low <= tolerance * abs(high), f"loss of the first steps {span}")


def in_sync(results: Results) -> Observed:
    """Whether all ranks of a trial ended with the same bits, where there are several copies of the model."""
    apart = [name for name, repeat in repeats(results) if False in (repeat.in_sync.parameters, repeat.in_sync.buffers)]
    return Observed(not apart, f"not in sync: {listed(apart)}" if apart else "ranks in sync")


def averages_right(results: Results) -> Observed:
    """Whether each strategy's result was the mean, where there is a group."""
    wrong = [name for name, repeat in repeats(results) if repeat.averaging and repeat.averaging.right is not True]
    return Observed(not wrong, f"average not right: {listed(wrong)}" if wrong else "averages right")


def backends_are(results: Results, expected: Mapping[str, str]) -> Observed:
    """Whether these trials took these backends."""
    taken = {name: repeat.backend for name, repeat in repeats(results) if name in expected}
    text = ", ".join(f"{name} over {backend or 'no group'}" for name, backend in taken.items())
    return Observed(taken == expected, text)


def every_step_told(recorded: Recorded) -> Observed:
    """Whether a message about each step of each rank arrived, and none was lost."""
    lacking = []
    for trial, messages in recorded.messages.items():
        planned = {message.rank: message.steps for message in messages if isinstance(message, Ready)}
        told: dict[int, set[int]] = {rank: set() for rank in planned}
        for message in messages:
            if isinstance(message, Step):
                told.setdefault(message.rank, set()).add(message.step)
        lacking += [f"{trial}, rank {rank}: {len(told[rank])} of {steps}" for rank, steps in planned.items()
                    if len(told[rank]) != steps]  # fmt: skip
        lacking += [] if planned else [f"{trial}: no rank was ready"]
    return Observed(not lacking, f"steps missing: {listed(lacking)}" if lacking else "a message for each step")


def clocks_tied(recorded: Recorded) -> Observed:
    """Whether, a second after its first message about that, each rank knew the time of its GPU well enough."""
    worst: list[int] = []
    for messages in recorded.messages.values():
        for rank in {message.rank for message in messages if isinstance(message, Tied)}:
            ties = [message for message in messages if isinstance(message, Tied) and message.rank == rank]
            worst.append(_settled_error_ns(ties))
    if not worst:
        return Observed(False, "no rank reported how exact the times of its GPU are")
    text = f"times of GPUs off by ±{digits(max(worst) / US)} µs at most"
    return Observed(max(worst) <= MOST_TIE_ERROR_NS, text)


def _settled_error_ns(ties: list[Tied]) -> int:
    """The largest error that was in force from SETTLED_NS after the first on."""
    settled_ns = min(tie.at_ns for tie in ties) + SETTLED_NS
    *_, before = sorted((tie for tie in ties if tie.at_ns <= settled_ns), key=lambda tie: tie.at_ns)
    return max([before.error_ns, *(tie.error_ns for tie in ties if tie.at_ns > settled_ns)])


def delays_found(results: Results, sites: Mapping[str, Site | None]) -> list[Observed]:
    """Of each of these trials, whether the delayed rank was named, with its phase and its delay; or, without a delay
    (None), no rank."""
    by_name = dict(repeats(results))
    return [
        delay_found(name, by_name[name], site) if name in by_name else Observed(False, f"{name}: no figures")
        for name, site in sites.items()
    ]


def delay_found(name: str, repeat: RepeatResult, site: Site | None) -> Observed:
    """Whether the right rank and phase were named in this repeat, with a delay as long as the one injected."""
    culprit = repeat.culprit
    if culprit is None or site is None:
        named = f"rank {culprit.rank} named in {culprit.phase}" if culprit else "no rank named"
        return Observed(culprit is None and site is None, f"{name}: {named}")
    injected = sum(delay.s for delay in repeat.injected if (delay.rank, delay.at) == site)
    found = culprit.excess_s.estimate
    right = (culprit.rank, culprit.phase) == site and abs(found - injected) <= DELAY_TOLERANCE * injected
    text = f"{name}: rank {culprit.rank} in {culprit.phase}, {seconds(found)} of {seconds(injected)} injected"
    return Observed(right and injected > 0, text)


def costs_at_most(results: Results, cheap: str, dear: str, factor: float) -> Observed:
    """Whether one trial's median step takes at most so many times as long as another's; without instruments, its time
    a step."""
    times = {name: repeat.train_time_s / repeat.steps for name, repeat in repeats(results) if repeat.steps}
    if cheap not in times or dear not in times:
        return Observed(False, f"{cheap} or {dear}: no figures")
    ratio = times[dear] / times[cheap]
    return Observed(
        ratio <= factor,
        f"a step of {cheap} {seconds(times[cheap])}, of {dear} {seconds(times[dear])}: {ratio:.2f} × as long",
    )


def step_times(results: Results) -> Observed:
    """How long a step of each trial took. As expected as long as it is known."""
    times = {name: repeat.step_ms.median if repeat.step_ms else None for name, repeat in repeats(results)}
    text = ", ".join(f"{name} {digits(ms)} ms" for name, ms in times.items())
    return Observed(None not in times.values(), f"a step: {text}" if text else "")


def overlaps(results: Results, hides: Mapping[str, bool], most: float) -> list[Observed]:
    """How much of its communication each of these trials hid behind backward: more than `most` if it hides, at most
    that if it does not. Names are without the variant `-seen`."""
    by_name = {name.removesuffix("-seen"): repeat.overlap for name, repeat in repeats(results)}
    return [_overlap(name, by_name.get(name), most, hides=it) for name, it in hides.items()]


def _overlap(name: str, overlap: float | None, most: float, *, hides: bool) -> Observed:
    right = overlap is not None and (overlap > most) == hides
    return Observed(right, f"{name} hid {percent(overlap)}")

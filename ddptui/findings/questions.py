"""Answers the question of a preset: rules that compare the trials of a run. Pure.

The question is derived from the fields in which the trials differ, so users' own presets are answered, too. To answer
another kind of question, add a rule and an entry in QUESTIONS.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations
from operator import attrgetter
from statistics import fmean, median
from typing import NamedTuple

from msgspec.structs import replace

from ddptui.analysis.breakdown import middle, slept_in_steps, wait_matrix
from ddptui.analysis.correctness import BUFFERS, diverged
from ddptui.analysis.effect import Effect, Effects, beside_baseline, effects
from ddptui.analysis.finding import Finding, Kind
from ddptui.analysis.policy import HIDES, WAITS_ALONG_A_CHAIN, Caution
from ddptui.analysis.repeats import all_changed, valid_repeats
from ddptui.analysis.results import Results, TrialResult
from ddptui.config.catalog import ONE_PROCESS
from ddptui.config.preset import Preset
from ddptui.config.trial import TRIAL_FIELDS, Trial
from ddptui.findings import primitive_answers
from ddptui.findings.grades import (
    are_in_doubt,
    checks,
    effect_of,
    faults,
    grades,
    has_own_strategy,
    losses,
    lossy_averages,
    too_noisy,
)
from ddptui.findings.trial import median_over
from ddptui.text.tables import grouped
from ddptui.text.words import MS, S

RUN_A = "run A"
SINGLE = "one repeat shows no difference between runs; increase `--repeats`"
FEW = 2  # trials beside the baseline: each gets a sentence of its own
STARTING = {"launch", "start_method", "start", "init_method", "gpus_per_rank"}  # fields that say how ranks are started


class QuestionRule(NamedTuple):
    """A kind of question. asks: whether a preset asks it; rule: finds the answer; compares: whether the rule needs a
    baseline with figures."""

    asks: Callable[[Results, Preset], bool]
    rule: Callable[[Results, Preset], Iterator[Finding]]
    compares: bool = True


def question_of(results: Results, preset: Preset) -> QuestionRule:
    """The first question that applies."""
    return next(question for question in QUESTIONS if question.asks(results, preset))


def answer_of(results: Results, preset: Preset) -> list[Finding]:
    """The findings that answer the preset's question, with those that limit or prevent an answer."""
    if not any(trial.summary or trial.primitives or trial.error for trial in results.trials):
        is_one = results.status == "interrupted" and not results.of_two_runs
        return [Finding(kind=Kind.NOTHING_YET, place=results.run)] if is_one else []
    if preset.kind == "command" and (failure := results.base.failure) and len(results.trials) == 1:
        # The first cause alone: no figure, and no advice on speed, stands beside a failure.
        place, action = failure.summary, failure.remedy or None
        trials = (results.baseline,)
        return [Finding(kind=Kind.FAILED, severity="critical", trials=trials, place=place, action=action)]
    question = question_of(results, preset)
    is_about_faults = question.rule is faults
    broken = [] if is_about_faults else [trial.name for trial in results.trials if diverged(trial)]
    broken = [] if preset.kind == "command" else broken  # its checks say more
    found = [Finding(kind=Kind.DIVERGED, severity="critical", trials=tuple(broken))] if broken else []
    if question.rule is not checks:  # buffers that differ do not put the comparison in doubt
        found += [finding for finding in checks(results, preset) if finding.place == BUFFERS]
    if question.compares and (doubt := why_none(results)):
        found.append(Finding(kind=Kind.NO_BASELINE, severity="warning", trials=(results.baseline,), doubt=doubt))
    else:
        found += question.rule(results, preset)
    failed = tuple(trial.name for trial in results.trials if trial.status == "failed")
    if failed and not is_about_faults:
        found.append(Finding(kind=Kind.FAILED, severity="critical", trials=failed))
    return [*found, *published_order(results, preset), *too_few_steps(results), *interrupted(results)]


def why_none(results: Results) -> str:
    """Why no trial can be compared with the baseline, as a clause; empty if they can be compared."""
    if results.of_two_runs:
        return "" if results.baselines else "the runs have no trial in common"
    base, who = results.base, f"{results.baseline}, the baseline,"
    if base.summary is None or base.is_cut_short:
        return f"{who} failed ({base.error.splitlines()[0]})" if base.error else f"{who} has no figures"
    return f"every repeat of {who} was changed by hand" if all_changed(base.repeats) else ""


# Times


def ranking(results: Results, preset: Preset) -> Iterator[Finding]:
    """Finds the fastest and the slowest trial beside the baseline, or compares each of a few; then the losses."""
    yield from _ranked_beside_baseline(results)
    yield from [*lossy_averages(results), *losses(results.trials)]


def twins(results: Results, preset: Preset) -> Iterator[Finding]:
    """For trials that combine the values of two fields: compares each trial with its twin, which has the baseline's
    value of the first field and the trial's value of the second."""
    kind, amount = axes_of(preset) or ("", "")
    known, own = effects(results), getattr(preset.base, kind)
    base = {getattr(trial, amount): trial for trial in preset.trials if getattr(trial, kind) == own}
    pairs = [(trial.name, base[getattr(trial, amount)].name) for trial in preset.trials]
    yield from _ranked([known[pair] for pair in pairs if pair in known], known)
    yield from losses(results.trials)


def _ranked_beside_baseline(results: Results) -> Iterator[Finding]:
    known = effects(results)
    yield from _ranked(beside_baseline(results, known), known)


def _ranked(compared: Sequence[Effect], known: Effects) -> Iterator[Finding]:
    if len(compared) <= FEW:
        yield from map(effect_of, compared)
        return
    decided = sorted((each for each in compared if each.outcome in ("faster", "slower")), key=_ratio)
    for kind, ends in (
        (Kind.FASTEST, [each for each in decided if each.outcome == "faster"]),
        (Kind.SLOWEST, [each for each in decided if each.outcome == "slower"][::-1]),
    ):
        for first, *others in [ends] * bool(ends):
            tied = [each.name for each in others if known[each.name, first.name].outcome in ("alike", "unclear")]
            yield replace(effect_of(first), kind=kind, trials=(first.name, *tied))
    rest = [each for each in compared if each not in decided]
    alike = [each for each in rest if each.outcome == "alike" and not each.rough]
    rough = sorted((each for each in rest if each.rough), key=_ratio)
    unclear = [each for each in rest if each.outcome == "unclear" and not each.rough]
    for group in (alike, unclear):
        if group:
            yield replace(effect_of(group[0]), trials=tuple(each.name for each in group))
    if len(rough) > 1:
        yield _from_to(rough)
    else:
        yield from map(effect_of, rough)


def between_runs(results: Results, preset: Preset) -> Iterator[Finding]:
    """Each trial of run B beside that of run A: the few that differ most, then the others; then what they learned."""
    if not results.baselines:
        yield Finding(kind=Kind.NO_PAIR, severity="warning", place="trial")
        return
    compared = beside_baseline(results)
    for outcome in ("slower", "faster"):
        ends = sorted((each for each in compared if each.outcome == outcome), key=_ratio, reverse=outcome == "slower")
        yield from map(effect_of, ends[:FEW])
        if others := ends[FEW:]:
            yield replace(_from_to(sorted(others, key=_ratio)), place=RUN_A)
    undecided = grouped((_why_undecided(each), each) for each in compared if each.outcome in ("alike", "unclear"))
    for doubt, several in undecided.items():
        found = replace(effect_of(several[0]), kind=Kind.UNCLEAR if doubt else Kind.ALIKE, doubt=doubt or None)
        place = found.place if len(several) == 1 else RUN_A
        yield replace(found, trials=tuple(each.name for each in several), place=place)
    yield from losses(results.trials)


def _why_undecided(effect: Effect) -> str:
    """What keeps a trial of run B from being called slower or faster; empty: it took as long as that of run A."""
    if effect.rough:
        return f"repeats were {effect.rough}"
    if effect.repeats < 2:
        return SINGLE
    return too_noisy(effect) if effect.outcome == "unclear" else ""


def _from_to(compared: Sequence[Effect]) -> Finding:
    """Several, the fastest first, by the ratios of the first and the last."""
    low, high = compared[0], compared[-1]
    numbers = {"low_times": low.ratio.median, "high_times": high.ratio.median, "repeats": float(low.repeats)}
    return replace(effect_of(low), trials=(low.name, high.name), numbers=numbers)


def _ratio(effect: Effect) -> float:
    return effect.ratio.median


# One trial


def alone(results: Results, preset: Preset) -> Iterator[Finding]:
    """Finds how long the only trial trained and, if the preset delays a rank, whether ddptui named it; otherwise adds
    the trial's own findings."""
    for trial in results.trials:
        if trial.summary:
            repeat = trial.repeats[-1]
            numbers = {"ranks": float(len(repeat.ranks)), "made": float(repeat.steps)}
            yield Finding(kind=Kind.TRAINED, numbers=numbers | {"train_s": trial.summary.train_time_s.median})
            if delays_some(preset.base):
                yield from blame(results, preset)
            else:
                yield from (finding for finding in trial.findings if finding.kind is not Kind.NOTHING)


# Delays


def delays(results: Results, preset: Preset) -> Iterator[Finding]:
    """Finds what injected delays cost, the costliest first. If they differ only in length, also from which length on
    the delayed rank was named."""
    trials = {trial.name: trial for trial in preset.trials}
    compared = [effect for effect in beside_baseline(results) if trials[effect.name].bottleneck]
    compared.sort(key=lambda effect: -effect.ratio.median)
    if _are_a_sweep([trials[effect.name] for effect in compared]):
        yield _found_from([(trials[effect.name], effect.trial) for effect in compared])
        compared = compared[:1]
    yield from map(_cost, compared)


def delays_some(trial: Trial) -> bool:
    """Whether a trial delays some of its ranks, but not all. A slow link does not count as a delay."""
    late = {rank for delay in trial.bottleneck for rank in delay.ranks}
    return any(delay.at != "link" for delay in trial.bottleneck) and len(late) < trial.world_size


def _cost(effect: Effect) -> Finding:
    found, slept_s = effect_of(effect), slept(effect.trial)
    if found.kind is not Kind.SLOWER or not slept_s:
        return found
    return replace(found, numbers=found.numbers | {"slept_s": slept_s, "longer_s": effect.difference.total})


def slept(trial: TrialResult) -> float:
    """The delays within the train time, of the rank with the most, in s; mean over the middle repeats."""
    totals = [max(slept_in_steps(repeat).values(), default=0.0) for repeat in middle(valid_repeats(trial.repeats))]
    return fmean(totals) if totals else 0.0


def _are_a_sweep(trials: Sequence[Trial]) -> bool:
    """Whether each trial has one delay, and the delays differ only in length."""
    places = {(delay.at, delay.ranks, delay.per, delay.every) for trial in trials for delay in trial.bottleneck}
    return len(trials) > 2 and len(places) == 1 and all(len(trial.bottleneck) == 1 for trial in trials)


def _found_from(trials: Sequence[tuple[Trial, TrialResult]]) -> Finding:
    found: list[float] = []
    missed: list[float] = []
    for trial, result in trials:
        culprit = result.summary.culprit if result.summary else None
        right = culprit is not None and culprit.rank in trial.bottleneck[0].ranks
        (found if right else missed).append(trial.bottleneck[0].sleep_ms)
    numbers = {"from_ms": min(found)} if found else {}
    numbers |= {"missed_ms": max(missed)} if missed else {}
    return Finding(kind=Kind.FOUND_FROM, rank=trials[0][0].bottleneck[0].ranks[0], numbers=numbers)


def blame(results: Results, preset: Preset) -> Iterator[Finding]:
    """Finds in which trials the rank that all of them delay was named, and where ranks waited for it through others."""
    late = {rank for delay in preset.trials[0].bottleneck for rank in delay.ranks}
    culprits = {trial.name: trial.summary.culprit for trial in results.trials if trial.summary}
    right = {name: culprit for name, culprit in culprits.items() if culprit and culprit.rank in late}
    steps = {trial.name: trial.repeats[-1].steps for trial in results.trials if trial.summary}
    if right:
        a_step = [culprit.excess_s.estimate / steps[name] * S / MS for name, culprit in right.items()]
        first = next(iter(right.values()))
        numbers = {"low_ms": min(a_step), "high_ms": max(a_step), "of_trials": float(len(culprits))}
        yield Finding(kind=Kind.DELAY_FOUND, trials=tuple(right), rank=first.rank, phase=first.phase, numbers=numbers)
    if missed := tuple(name for name in culprits if name not in right):
        yield Finding(kind=Kind.DELAY_MISSED, trials=missed, rank=min(late))
    for trial in results.trials:
        if trial.name in right:
            yield from _chain(trial, right[trial.name].rank)


def _chain(trial: TrialResult, culprit: int) -> Iterator[Finding]:
    """Finds a rank that waits mostly for a rank other than the culprit, which itself waits."""
    matrix = wait_matrix(trial)
    rows = matrix.waited_s if matrix else ()
    most = max(map(sum, rows), default=0.0)
    for rank, row in enumerate(rows):
        late = max(range(len(row)), key=lambda other: row[other])
        mostly = row[late] > WAITS_ALONG_A_CHAIN * sum(row) and sum(row) > WAITS_ALONG_A_CHAIN * most
        if rank != culprit and late != culprit and mostly:
            then = max(range(len(rows[late])), key=lambda other: rows[late][other])
            numbers = {"for_rank": float(late), "then_rank": float(then)}
            yield Finding(kind=Kind.CHAIN, trials=(trial.name,), rank=rank, numbers=numbers)
            return


# Batches, overlap, starts, ranks


def split(results: Results, preset: Preset) -> Iterator[Finding]:
    """Finds how DataParallel split each batch."""
    trials = {trial.name: trial for trial in preset.trials}
    for result in results.trials:
        ranks = [rank for repeat in result.repeats[-1:] for rank in repeat.ranks]
        parts = [str(rank.sub_batch) for rank in ranks if rank.sub_batch is not None]
        if len(parts) > 1:
            numbers = {"samples": float(trials[result.name].batch_size)}
            yield Finding(kind=Kind.SPLIT, trials=(result.name,), place="+".join(parts), numbers=numbers)


def overlap(results: Results, preset: Preset) -> Iterator[Finding]:
    """Finds how much of its communication each trial overlapped with backward, for trials with the baseline's link;
    then compares their times."""
    links = {trial.name: trial.bottleneck for trial in preset.trials}
    beside = [trial for trial in results.trials if links[trial.name] == links[preset.baseline]]
    hidden = {trial.name: share for trial in beside if (share := _overlap(trial)) is not None}
    some = sorted((name for name in hidden if hidden[name] >= HIDES), key=lambda name: -hidden[name])
    for name in some:
        yield Finding(kind=Kind.OVERLAP, trials=(name,), numbers={"share": hidden[name]})
    if none := tuple(name for name in hidden if name not in some):
        yield Finding(kind=Kind.OVERLAP, trials=none)
    known = effects(results)
    yield from _ranked([effect for effect in beside_baseline(results, known) if effect.name in hidden], known)


def _overlap(trial: TrialResult) -> float | None:
    repeats = [repeat for repeat in valid_repeats(trial.repeats) if len(repeat.ranks) > 1]
    return median_over(repeats, attrgetter("overlap"))


def launching(results: Results, preset: Preset) -> Iterator[Finding]:
    """Compares trials that differ in how ranks are started: their train times, then their startup times."""
    yield from _ranked_beside_baseline(results)
    measured = [trial for trial in results.trials if trial.summary]
    starts = {trial.name: median(repeat.startup_s for repeat in valid_repeats(trial.repeats)) for trial in measured}
    first, last = (choose(starts, key=lambda name: starts[name]) for choose in (min, max))
    yield Finding(kind=Kind.START, trials=(first, last), numbers={"low_s": starts[first], "high_s": starts[last]})


def scaling(results: Results, preset: Preset) -> Iterator[Finding]:
    """Finds the speedups of trials with the baseline's batch, then of trials whose batch grows with the ranks, and what
    slows down the trial with the most ranks."""
    trials, base = {trial.name: trial for trial in preset.trials}, preset.base
    scaled = {trial.name for trial in scaled_trials(preset) if trial.world_size != base.world_size}
    found = []
    for result in results.trials:
        trial, speedup = trials[result.name], result.summary.speedup if result.summary else None
        if result.name in scaled and speedup:
            kind = Kind.SPEEDUP if trial.batch_size == base.batch_size else Kind.WEAK_SPEEDUP
            numbers = {"speedup_times": speedup, "ideal_times": trial.world_size / base.world_size}
            numbers |= {"ranks": float(trial.world_size), "base_ranks": float(base.world_size)}
            found.append(Finding(kind=kind, trials=(result.name,), numbers=numbers))
    yield from sorted(found, key=lambda each: (each.kind.value, each.numbers["ranks"]))
    slower = [effect for effect in beside_baseline(results) if effect.outcome == "slower" and effect.name in scaled]
    if slower:
        yield effect_of(max(slower, key=lambda effect: trials[effect.name].world_size))
    if base.world_size > 1 and found:  # a single rank sends nothing, so its network is unknown
        sizes = sorted({base.world_size, *(int(each.numbers["ranks"]) for each in found)})
        command = f"ddptui project {results.run} --trial {base.name} --ranks {','.join(map(str, sizes))}"
        yield Finding(kind=Kind.PREDICTABLE, trials=(base.name,), place=command)


def scaled_trials(preset: Preset) -> list[Trial]:
    """The trials that scale the baseline: only the number of ranks grows, or the batch grows with it."""
    base = preset.base
    same = [trial for trial in preset.trials if (trial.launch, trial.strategy) == (base.launch, base.strategy)]
    of_rank = base.batch_size / base.world_size
    return [trial for trial in same if trial.batch_size in (base.batch_size, of_rank * trial.world_size)]


# Rules for any run


def published_order(results: Results, preset: Preset) -> Iterator[Finding]:
    """Finds whether published train times have the same order here."""
    trials = {trial.name: trial for trial in results.trials}
    measured = [each for each in preset.references if trials[each.trial].summary]
    known = sorted(measured, key=lambda each: each.train_time_s)
    pairs = [(a.trial, b.trial) for a, b in combinations(known, 2) if a.train_time_s < b.train_time_s]
    if not pairs:
        return
    found = effects(results)
    outcomes = {pair: found[pair[::-1]].outcome if pair[::-1] in found else "unclear" for pair in pairs}
    swapped = [pair for pair, outcome in outcomes.items() if outcome == "faster"]
    unclear = sum(outcome in ("alike", "unclear") for outcome in outcomes.values())
    kind = Kind.PUBLISHED_SWAPPED if swapped else Kind.PUBLISHED_UNCLEAR if unclear else Kind.PUBLISHED_HOLDS
    numbers = {"pairs": float(len(pairs)), "unclear_pairs": float(unclear)}
    doubt = ", ".join(f"{slow} before {fast}" for fast, slow in swapped) or None
    yield Finding(kind=kind, trials=tuple(each.trial for each in known), numbers=numbers, doubt=doubt)


def too_few_steps(results: Results) -> Iterator[Finding]:
    """Finds trials with too few steps for a verdict."""
    measured = [(trial, trial.summary.warnings) for trial in results.trials if trial.summary]
    short = [trial for trial, why in measured if Caution.TOO_FEW_STEPS in why]
    steps = [repeat.compared for trial in short for repeat in valid_repeats(trial.repeats)]
    if steps:
        names = () if len(short) == len(results.trials) else tuple(trial.name for trial in short)
        yield Finding(kind=Kind.TOO_FEW_STEPS, severity="warning", trials=names, numbers={"few": float(min(steps))})


def interrupted(results: Results) -> Iterator[Finding]:
    """Finds how many trials of an interrupted run have figures."""
    if results.status == "interrupted":
        done = sum(bool(trial.summary or trial.primitives) for trial in results.trials)
        yield Finding(kind=Kind.INTERRUPTED, numbers={"done": float(done), "of_trials": float(len(results.trials))})


def differing(preset: Preset, trials: Sequence[Trial] = ()) -> list[str]:
    """The fields in which the trials differ, without the name."""
    fields = [name for name in TRIAL_FIELDS if name != "name"]
    return [name for name in fields if len({repr(getattr(trial, name)) for trial in trials or preset.trials}) > 1]


def axes_of(preset: Preset) -> tuple[str, str] | None:
    """The two fields in which the trials differ, if the trials are all combinations of their values. A field that is
    not a number comes first. Otherwise None."""
    fields = differing(preset)
    if len(fields) != 2:
        return None
    kind, amount = sorted(fields, key=lambda field: isinstance(getattr(preset.base, field), int | float))
    kinds, amounts = ({repr(getattr(trial, field)) for trial in preset.trials} for field in (kind, amount))
    cells = {(repr(getattr(trial, kind)), repr(getattr(trial, amount))) for trial in preset.trials}
    return (kind, amount) if len(cells) == len(preset.trials) == len(kinds) * len(amounts) else None


def _starts(results: Results, preset: Preset) -> bool:
    measured = {trial.name for trial in results.trials if trial.summary}
    modes = [trial for trial in preset.trials if trial.launch not in ONE_PROCESS and trial.name in measured]
    apart = differing(preset, modes) if modes else []
    return "launch" in apart and STARTING.issuperset(apart)


def _scales(results: Results, preset: Preset) -> bool:
    scaled = scaled_trials(preset)
    sizes = {trial.world_size for trial in scaled}
    return len(sizes) > 2 or (len(sizes) == 2 and len(scaled) == len(preset.trials))


QUESTIONS = (  # the first that applies
    QuestionRule(
        lambda results, preset: results.of_two_runs and preset.kind == "primitives",
        primitive_answers.between_runs,
        compares=False,
    ),
    QuestionRule(lambda results, _: results.of_two_runs, between_runs, compares=False),
    QuestionRule(lambda _, preset: preset.kind == "primitives", primitive_answers.of_primitives, compares=False),
    QuestionRule(lambda _, preset: has_own_strategy(preset), grades, compares=False),
    QuestionRule(lambda _, preset: len(preset.trials) == 1, alone, compares=False),
    QuestionRule(lambda _, preset: any(trial.fault for trial in preset.trials), faults, compares=False),
    QuestionRule(are_in_doubt, checks),
    QuestionRule(
        lambda _, preset: (
            "world_size" in differing(preset)
            and all(trial.launch == "dp" for trial in preset.trials if trial.name != preset.baseline)
        ),
        split,
    ),
    QuestionRule(lambda _, preset: delays_some(preset.trials[0]) and "bottleneck" not in differing(preset), blame),
    QuestionRule(lambda _, preset: differing(preset) == ["bottleneck"] and not preset.base.bottleneck, delays),
    QuestionRule(
        lambda _, preset: "bucket_mb" in differing(preset) and all(trial.world_size > 1 for trial in preset.trials),
        overlap,
    ),
    QuestionRule(_starts, launching),
    QuestionRule(_scales, scaling),
    QuestionRule(lambda _, preset: axes_of(preset) is not None, twins),
    QuestionRule(lambda _, preset: True, ranking),
)

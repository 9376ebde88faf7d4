"""A run's answer to its preset's question, in a few sentences made from what was measured.

What the trials of a preset differ in says what it asks, so your own presets get an answer, too. To answer another kind
of question, add a file with a function like the others, and an entry in KINDS.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Literal, NamedTuple

import msgspec

from ddptui.analysis.cautions import Caution
from ddptui.analysis.correctness import diverged
from ddptui.analysis.counted import all_changed, counted, is_rough
from ddptui.analysis.disturbance import describe, is_disturbed
from ddptui.analysis.results import Results, TrialResult
from ddptui.config.launch_modes import ONE_PROCESS
from ddptui.config.preset import Preset
from ddptui.report.answers.alone import alone
from ddptui.report.answers.blame import blame
from ddptui.report.answers.checks import are_in_doubt, checks
from ddptui.report.answers.delays import delays, delays_some
from ddptui.report.answers.faults import faults
from ddptui.report.answers.fields import differ
from ddptui.report.answers.grid import axes_of, grid
from ddptui.report.answers.launching import launching
from ddptui.report.answers.overlap import overlap
from ddptui.report.answers.primitives import primitives
from ddptui.report.answers.published import published_order
from ddptui.report.answers.ranking import ranking
from ddptui.report.answers.scaling import alike, scaling
from ddptui.report.answers.split import split
from ddptui.report.rows import who
from ddptui.text.words import count, listed, sentence

MOST = 3  # sentences, before what was published
# Words that sentences begin with, although a trial may have their name.
OPENINGS = {"a", "against", "cannot", "each", "no", "of", "once", "the", "under", "what", "with"}


class Kind(NamedTuple):
    """A kind of question. asks: whether a preset asks it. sentences: answer it. needs: what the answer needs of the
    baseline; ratios: repeats that no hand has changed. of_times: whether it rests on times, which other programs may
    have disturbed."""

    asks: Callable[[Results, Preset], bool]
    sentences: Callable[[Results, Preset], Iterator[str]]
    needs: Literal["nothing", "figures", "ratios"] = "ratios"
    of_times: bool = True


def answer(results: Results, preset: Preset) -> list[str]:
    """The answer, a sentence each; empty if there is nothing to say."""
    names = [trial.name for trial in preset.trials]
    return [_sentence(words, names) for words in _gathered(results, preset)]


def _gathered(results: Results, preset: Preset) -> Iterator[str]:
    if not any(trial.summary or trial.primitives or trial.error for trial in results.trials):
        if results.status == "interrupted":
            yield f"the run was interrupted before a trial finished: `ddptui --resume {results.run}` goes on"
        return
    kind = next(kind for kind in KINDS if kind.asks(results, preset))
    baseline = results.base
    broken = [trial.name for trial in results.trials if diverged(trial)]
    if broken and kind.sentences is not faults:
        yield f"the loss of {listed(broken)} is not finite: training diverged"
    has_none = kind.needs != "nothing" and baseline.summary is None
    is_spoilt = kind.needs == "ratios" and all_changed(baseline.repeats)
    if has_none:
        why = f"failed: {baseline.error.splitlines()[0]}" if baseline.error else "has no figures yet"
        yield f"cannot tell: {baseline.name}, the baseline, {why}"
    elif is_spoilt:
        yield f"cannot tell with {baseline.name}, the baseline: every repeat was changed by hand"
    else:
        yield from islice(kind.sentences(results, preset), MOST)
    said = {baseline.name} if has_none or is_spoilt else set()
    failed = [trial.name for trial in results.trials if trial.status == "failed" and trial.name not in said]
    if failed and kind.sentences is not faults:  # whose trials are meant to fail
        yield f"{listed(failed)} failed: {'the reason is' if len(failed) == 1 else 'the reasons are'} below"
    yield from published_order(results, preset)
    rough = [trial for trial in results.trials if is_rough(trial.repeats) and trial.name not in said]
    if rough and kind.of_times and not has_none:
        yield f"the times of {who([trial.name for trial in rough], len(results.trials))} are rough: {_why_rough(rough)}"
    if kind.of_times:
        yield from _too_few_steps(results)
    if results.status == "interrupted":
        done = sum(bool(trial.summary or trial.primitives) for trial in results.trials)
        have = "has" if done == 1 else "have"
        yield f"the run was interrupted: {done} of {count(len(results.trials), 'trial')} {have} figures"


def _too_few_steps(results: Results) -> Iterator[str]:
    """Which trials are too short to tell anything of, if some are."""
    measured = [(trial, trial.summary.warnings) for trial in results.trials if trial.summary]
    short = [(trial.name, counted(trial.repeats)) for trial, why in measured if Caution.TOO_FEW_STEPS in why]
    few = {name: min(repeat.compared for repeat in repeats) for name, repeats in short if repeats}
    if few:
        where = "" if len(few) == len(results.trials) else f" in {listed([*few])}"
        steps = count(min(few.values()), "measured step")
        yield f"do not rely on these times: {steps}{where} are too few; raise `epochs` or `steps`"


def _why_rough(trials: Sequence[TrialResult]) -> str:
    """What disturbed the repeats that count, half a sentence."""
    repeats = [repeat for trial in trials for repeat in counted(trial.repeats)]
    loads = [repeat.other_load for repeat in repeats if is_disturbed(repeat) and repeat.other_load]
    why = [describe(max(loads, key=lambda load: load.cores))] if loads else []
    why += [f"every repeat of {trial.name} was changed by hand" for trial in trials if all_changed(trial.repeats)]
    return "; ".join(why)


def _sentence(words: str, names: list[str]) -> str:
    """The words as a sentence, with a capital unless they begin with the name of a trial."""
    first = words.split(" ", 1)[0].rstrip(":;,")
    is_name = (first in names and first not in OPENINGS) or words.split(" ", 2)[1:2] == ["="]  # or a field: every = 4
    return words[:1] + sentence(words)[1:] if is_name else sentence(words)


def _cuts(results: Results, preset: Preset) -> bool:
    others = [trial for trial in preset.trials if trial.name != preset.baseline]
    return "world_size" in differ(preset) and all(trial.launch == "dp" for trial in others)


def _buckets(results: Results, preset: Preset) -> bool:
    return "bucket_mb" in differ(preset) and all(trial.world_size > 1 for trial in preset.trials)


def _starts(results: Results, preset: Preset) -> bool:
    measured = {trial.name for trial in results.trials if trial.summary}
    modes = [trial for trial in preset.trials if trial.launch not in ONE_PROCESS and trial.name in measured]
    apart = differ(msgspec.structs.replace(preset, trials=tuple(modes)))
    return "launch" in apart and STARTING.issuperset(apart)


def _scales(results: Results, preset: Preset) -> bool:
    sizes = {trial.world_size for trial in alike(preset)}
    return len(sizes) > 2 or (len(sizes) == 2 and len(alike(preset)) == len(preset.trials))


KINDS = (  # the first that applies
    Kind(lambda _, preset: preset.kind == "primitives", primitives, "nothing", of_times=False),
    Kind(lambda _, preset: len(preset.trials) == 1, alone, "nothing"),
    Kind(lambda _, preset: any(trial.fault for trial in preset.trials), faults, "nothing", of_times=False),
    Kind(are_in_doubt, checks, "figures", of_times=False),
    Kind(_cuts, split, "figures", of_times=False),
    Kind(lambda _, preset: delays_some(preset.trials[0]) and "bottleneck" not in differ(preset), blame, "figures"),
    Kind(lambda _, preset: differ(preset) == ["bottleneck"] and not preset.base.bottleneck, delays),
    Kind(_buckets, overlap),
    Kind(_starts, launching, "figures"),
    Kind(_scales, scaling),
    Kind(lambda _, preset: axes_of(preset) is not None, grid, "figures"),
    Kind(lambda _, preset: True, ranking),
)
STARTING = {"launch", "start_method", "start", "init_method", "gpus_per_rank"}  # fields that say how ranks are started

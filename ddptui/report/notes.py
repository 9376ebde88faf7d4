"""The notes below a table: what it cannot show in a cell."""

import re
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

import msgspec

from ddptui.analysis.cautions import CLOSE_THEM, Caution
from ddptui.analysis.correctness import problems
from ddptui.analysis.counted import counted, why_left_out, why_not
from ddptui.analysis.disturbance import describe, disturbance_of, is_disturbed
from ddptui.analysis.effect import beside_baseline
from ddptui.analysis.extent import finished
from ddptui.analysis.results import Results, TrialResult
from ddptui.config.launch_modes import LAUNCH_MODES
from ddptui.config.preset import Preset, Reference
from ddptui.report import gpus, ranks, sentences
from ddptui.report.columns import IN_BACKWARD, IN_SOME_STEPS, aggregation
from ddptui.report.differences import as_sum, signed, why_none
from ddptui.report.rows import (
    OFF_BY,
    ROUGH,
    Row,
    grouped,
    is_marked,
    is_stand_in,
    loss_of,
    mark_of,
    median_figure,
    rows_of,
    step_ms,
    who,
)
from ddptui.report.sentences import BETWEEN_STEPS, what_became
from ddptui.text.units import MS_PER_S
from ddptui.text.words import count

# How to read the table; what came of a trial; why figures may deceive; what others have measured.
Kind = Literal["reading", "finding", "caution", "published"]
OF_LOSS = "loss: the mean over the last tenth of the steps"


class Note(msgspec.Struct, frozen=True):
    """A line below the table; a failure brings the end of its log, a line each."""

    kind: Kind
    text: str
    trials: tuple[str, ...] = ()  # the names of those that it is about; none: the table as a whole


def notes(results: Results, preset: Preset) -> list[Note]:
    """Damaged journals, how to read the table, what came of each trial, cautions, what was published: in this order."""
    rows = rows_of(results, preset)
    gathered = [Note("caution", line) for line in damage(results.unread or ())]
    gathered += [*_of_columns(rows, results, preset), *(note for row in rows for note in _of_trial(row, results))]
    gathered += [_of_trials("finding", names, why) for why, names in ranks.unexpected(results).items()]
    gathered += cautions(results.trials)
    # Kinds, not first words, tell notes apart: a trial may be called "published".
    gathered += [Note("published", f"published: {line}") for line in [*sources(preset), *steps_beside(results, preset)]]
    if results.status == "interrupted":
        gathered.append(Note("reading", "interrupted: the table shows what was finished"))
    return gathered


def damage(unread: Sequence[str]) -> list[str]:
    """A line for each damaged journal. unread: the notes that reading it left."""
    return [f"caution: {note}" for note in unread]


def note_lines(results: Results, preset: Preset) -> list[str]:
    """The texts of the notes."""
    return [note.text for note in notes(results, preset)]


def cautions(results: Sequence[TrialResult]) -> list[Note]:
    """Why figures may deceive, with the trials whose figures those are."""
    gathered: list[Note] = []
    warned: dict[Caution, list[str]] = {}
    for result in results:
        if result.summary is None:
            continue
        for caution in result.summary.warnings:
            if caution is not Caution.WIDE_SPREAD:
                warned.setdefault(caution, []).append(result.name)
                continue
            time = result.summary.train_time_s  # each trial's own figures
            spread = f"{count(len(counted(result.repeats)), 'repeat')}, {time.min:.2f} to {time.max:.2f} s"
            text = f"caution, {result.name}: {spread}: too noisy for small differences; take more `--repeats`"
            gathered.append(Note("caution", text, (result.name,)))
    for caution, names in warned.items():
        repeats = [repeat for result in results if result.name in names for repeat in counted(result.repeats)]
        loads = [repeat.other_load for repeat in repeats if repeat.other_load and caution is Caution.OTHER_LOAD]
        worst = max(loads, key=lambda load: load.cores, default=None)
        advice = f"{describe(worst)}: {CLOSE_THEM}" if worst else caution.advice
        gathered.append(Note("caution", f"caution, {who(names, len(results))}: {advice}", tuple(names)))
    return gathered


def _of_trials(kind: Kind, names: Sequence[str], words: str) -> Note:
    return Note(kind, f"{', '.join(names)}: {words}" if names else words, tuple(names))


def _of_columns(rows: Sequence[Row], results: Results, preset: Preset) -> Iterator[Note]:
    """What a header or a mark in a cell stands for."""
    if len(preset.trials) > 1:
        yield from _of_ratios(results)
    if any(len(counted(row.result.repeats)) > 1 for row in rows):
        yield Note("reading", f"{OFF_BY}: how far the repeats lie from their median at most")
    if any(is_marked(row.result) or row.is_rough for row in rows):
        yield Note("reading", f"{ROUGH}: a note on the trial names the cause")
    modes = {row.trial.launch: row for row in rows if row.result.repeats}
    if "dp" in modes and is_stand_in(modes["dp"]):
        yield Note("reading", "¹ threads, CPU stand-in for nn.DataParallel")
    if "launch" in modes:
        launched = modes["launch"].result
        # A torch without torch.distributed.launch has torch.distributed.run: the command says which it was.
        modules = (word for word in launched.command if word.startswith("torch.distributed."))
        launcher = next(modules, LAUNCH_MODES["launch"].label)
        warm = all(repeat.start == "warm" for repeat in launched.repeats)
        by = f"elastic_launch, which {launcher} calls" if warm else launcher
        yield _of_trials("reading", [launched.name], f"started by {by}")
    for why, names in ranks.backends([row.result for row in rows], preset).items():
        yield _of_trials("reading", names, why)
    if names := ranks.waiting_hooks([row.result for row in rows], preset):
        yield _of_trials("reading", names, ranks.HOOKS_WAIT)
    if machine := gpus.machine(results):
        yield Note("reading", machine)
    for why, names in _cold_starts(rows).items():
        yield _of_trials("reading", names, f"started cold: {why}")
    aggregations = {aggregation(row) for row in rows}
    if IN_BACKWARD in aggregations:
        yield Note("reading", f"{IN_BACKWARD} torch DDP aggregates while backward runs: its time is within that phase")
    if IN_SOME_STEPS in aggregations:
        yield Note("reading", f"{IN_SOME_STEPS} averages in some steps only: the median step has no aggregation")
    if any(loss_of(row.result) is not None for row in rows):
        yield Note("reading", OF_LOSS)
    repeats = [repeat for row in rows for repeat in row.result.repeats]
    if any(repeat.wait_error_ms is not None and repeat.wait_ms is not None for repeat in repeats):
        yield Note("reading", f"wait ms {OFF_BY}: the error from the ranks' clocks, which transfer ms has, too")


def _of_ratios(results: Results) -> Iterator[Note]:
    """What ratios are against; and why trials have none, if a repeat that does not count is the reason."""
    base = results.base
    if why := why_none(results):
        yield Note("caution", f"caution: no ratio, no speed-up: {why}")
        return
    own = "; ratio: the median of each repeat's own ratio" if len(counted(base.repeats)) > 1 else ""
    yield Note("reading", f"ratio, speed-up: against {base.name}{own}")
    compared = beside_baseline(results)
    for repeats, names in grouped((each.repeats, each.name) for each in compared if each.outcome == "alike").items():
        yield _of_trials("finding", names, f"no difference from {base.name} that {count(repeats, 'repeat')} can show")
    unpaired = [trial.name for trial in results.trials if trial.summary and not trial.summary.ratio]
    if unpaired and any(map(why_not, base.repeats)):
        yield _of_trials("caution", unpaired, f"no ratio: no repeat counts both here and in {base.name}")


def _cold_starts(rows: Sequence[Row]) -> dict[str, list[str]]:
    """The trials that were started cold without asking for it, by why."""
    starts = dict.fromkeys((repeat.start_why, row.result.name) for row in rows for repeat in row.result.repeats)
    return grouped((why, name) for why, name in starts if why)


def _of_trial(row: Row, results: Results) -> Iterator[Note]:
    """What came of one trial."""
    result, name = row.result, row.result.name
    lines = sentences.of_trial(result, row.trial)
    if row.difference and any(float(signed(part * MS_PER_S, 1)) for part in row.difference):
        lines.insert(0, as_sum(row.difference, result) + mark_of(result, results.base))
    lines += [*missing_repeats(result, results), *_disturbed_launches(result)]
    lines += [line for repeat in result.repeats[-1:] for line in problems(row.trial, repeat)]
    if dropped := sum(rank.dropped for repeat in result.repeats for rank in repeat.ranks):
        lines.append(f"{count(dropped, 'message')} lost to a full queue: its figures lack them")
    if looked_at := next((repeat.looked_at for repeat in result.repeats if repeat.looked_at), None):
        lines.append(f"phases, waiting and loss are of {looked_at:,} steps, spread over all of them")
    if refused := sum(repeat.refused for repeat in result.repeats):
        lines.append(f"{count(refused, 'message')} rejected and not recorded")
    yield from (_of_trials("finding", [name], line) for line in lines)
    if result.error:
        yield Note("finding", sentences.failure(result), (name,))


def _disturbed_launches(trial: TrialResult) -> Iterator[str]:
    """What other programs disturbed, and is in no figure."""
    for number, repeat in enumerate(trial.repeats, start=1):
        if is_disturbed(repeat) and why_left_out(repeat, trial.repeats):
            yield f"repeat {number} is in no median: {disturbance_of(repeat)}"


def missing_repeats(trial: TrialResult, results: Results) -> list[str]:
    """How many repeats there are of a trial that did not fail, if some are missing."""
    done, wanted = finished(trial), results.repeats or 0
    if trial.status != "ok" or not 0 < done < wanted:
        return []
    # In a run that went to its end, only a skip leaves out repeats.
    return [f"{done} of {wanted} repeats{': the others were skipped' * (results.status != 'interrupted')}"]


class TrialNotes(NamedTuple):
    """Lines of text; what was published is in none of them, since it stands beside the measured figures."""

    chosen: list[str]  # the verdict first
    others: list[str]  # of the other trials
    reading: list[str]  # how to read the table


def in_words(results: Results, preset: Preset, chosen: str | None) -> TrialNotes:
    """The notes of a run for a reader who looks at the trial named `chosen`."""
    of_run = notes(results, preset)
    of_chosen = [note for note in of_run if chosen in note.trials]
    findings = [note.text for note in of_chosen if note.kind == "finding"]
    trial = next((trial for trial in results.trials if trial.name == chosen), None)
    if trial is not None and not findings:
        findings = [_no_findings(trial, results.baseline)]
    return TrialNotes(
        chosen=findings + [note.text for note in of_chosen if note.kind == "caution"],
        others=[note.text for note in of_run if note.kind in ("finding", "caution") and note not in of_chosen],
        reading=[note.text for note in of_run if note.kind == "reading"],
    )


def _no_findings(trial: TrialResult, baseline: str) -> str:
    if trial.summary is None:
        return f"{trial.name} {what_became(trial)}"
    parts = ["the baseline"] if trial.name == baseline else []
    if all(len(repeat.ranks) == 1 for repeat in trial.repeats):
        parts.append("one process, so there is nobody to wait for")
    return f"{trial.name}: {'; '.join(parts) or 'nothing stands out'}"


def in_short(trial: TrialResult | None) -> str:
    """The verdict in a title's few words; empty if no rank is late."""
    culprit = trial.summary.culprit if trial and trial.summary else None
    if culprit is None:
        return ""
    where = culprit.phase if culprit.phase == BETWEEN_STEPS else f"in {culprit.phase}"
    # A matrix of waits beside it is of all steps.
    steps = f", in steps {culprit.steps[0]} to {culprit.steps[1]}" if culprit.steps else ""
    return f"rank {culprit.rank} is late, {where}{steps}"


def shown_first(results: Results, answer: Sequence[str]) -> str:
    """The name of the trial to look at first: of those with figures, the first beside the baseline that the answer
    names; else the one in which a rank cost the others most; else the baseline."""
    measured = {trial.name: trial.summary for trial in results.trials if trial.summary}
    names = sorted((name for name in measured if name != results.baseline), key=len, reverse=True)  # ddp is in ddp_bf16
    named = re.search(rf"(?<![\w.+-])(?:{'|'.join(map(re.escape, names))})(?![\w+-]|\.\w)", " ".join(answer))
    if names and named:
        return named[0]
    caused = {name: summary.culprit.wait_caused_s for name, summary in measured.items() if summary.culprit}
    return max(caused, key=lambda name: caused[name], default=results.baseline)


def published(results: Results, preset: Preset) -> list[str]:
    """A line a published figure, beside ours, and then their sources."""
    trials = {trial.name: trial for trial in results.trials}
    base = next((other.train_time_s for other in preset.references if other.trial == preset.baseline), None)
    lines = [_line(reference, trials[reference.trial], base) for reference in preset.references]
    return [*lines, *(f"source: {source}" for source in sources(preset))]


def sources(preset: Preset) -> list[str]:
    """The sources of the figures, each once."""
    return [*dict.fromkeys(reference.source for reference in preset.references if reference.source)]


def steps_beside(results: Results, preset: Preset) -> list[str]:
    """One line with the published and the measured step times, if any trial has both."""
    ours = {trial.name: median_figure(trial, step_ms) for trial in results.trials}
    pairs = [
        f"{reference.trial} {here:.2f} here, {reference.step_ms:g} there"
        for reference in preset.references
        if reference.step_ms is not None and (here := ours[reference.trial]) is not None
    ]
    return [f"step ms: {'; '.join(pairs)}"] if pairs else []


def _line(reference: Reference, trial: TrialResult, base: float | None) -> str:
    if trial.summary is None:
        return f"{trial.name}: {trial.status} here, {reference.train_time_s:.2f} s published"
    ours = trial.summary.train_time_s.median
    words = f"{trial.name}: {ours:.2f} s here, {reference.train_time_s:.2f} s published"
    words += f" (ours / published {ours / reference.train_time_s:.3g})"
    if base is not None and trial.summary.ratio is not None:  # machines differ in speed: ratios compare better
        words += f"; to the baseline {trial.summary.ratio.median:.2f} here, {reference.train_time_s / base:.2f} there"
    if reference.step_ms is not None and (here := median_figure(trial, step_ms)) is not None:
        words += f"; a step {here:.2f} ms here, {reference.step_ms:g} ms published"
    return words

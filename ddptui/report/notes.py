"""The notes below a table: findings, cautions and explanations. findings/words.py puts findings into words."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Literal, NamedTuple

import msgspec

from ddptui.analysis.correctness import problems
from ddptui.analysis.finding import Kind
from ddptui.analysis.policy import CLOSE_THEM, MATTERS, Caution
from ddptui.analysis.repeats import (
    describe,
    disturbance_of,
    exclusion_reason,
    finished,
    is_changed,
    is_disturbed,
    valid_repeats,
    why_left_out,
)
from ddptui.analysis.results import Change, RepeatResult, Results, TrialResult
from ddptui.config.catalog import LAUNCH_MODES
from ddptui.config.preset import Preset, Reference
from ddptui.config.trial import Bottleneck
from ddptui.config.values import describe_bottleneck
from ddptui.findings.phrases import where
from ddptui.findings.questions import why_none
from ddptui.findings.words import evidence, in_sentences, remedy, short
from ddptui.report import ranks
from ddptui.report.rows import (
    OFF_BY,
    ROUGH,
    Row,
    is_marked,
    is_stand_in,
    median_figure,
    rows_of,
    step_ms,
    what_became,
    who,
)
from ddptui.text.tables import grouped
from ddptui.text.words import MS, S, count, in_a_row, seconds

# How to read the table; what came of a trial; why figures may deceive; what others have measured; what else differs
# between two runs.
NoteKind = Literal["reading", "finding", "caution", "published", "difference"]
STATES = {  # of checks, in the order in which they are shown
    "wrong": "failed",
    "doubtful": "doubtful",
    "right": "passed",
    "unknown": "not seen",
    "does not apply": "not applicable",
}
MOST_SENTENCES = 3  # in an answer


class Note(msgspec.Struct, frozen=True):
    """A line below the table. The note of a failure has more lines: the end of the log."""

    kind: NoteKind
    text: str
    trials: tuple[str, ...] = ()  # names of the trials that the note is about; empty: the whole table


def answer(results: Results) -> list[str]:
    """The answer to the preset's question in sentences, as a rule at most three. Findings that are more severe than a
    note are never left out, such as those that put the answer in doubt."""
    groups = [[*alike] for _, alike in groupby(results.findings, key=lambda finding: finding.kind)]
    severe = [at for at, group in enumerate(groups) if any(finding.severity != "note" for finding in group)]
    others = [at for at in range(len(groups)) if at not in severe]
    kept = {*severe, *others[: max(0, MOST_SENTENCES - len(severe))]}
    return in_sentences(finding for at in sorted(kept) for finding in groups[at])


def notes(results: Results, preset: Preset) -> list[Note]:
    """Damaged journals, what was found in each trial, what differs between two runs, cautions, how to read the table,
    what was published: in this order."""
    rows = rows_of(results, preset)
    tried: set[str] = set()
    lines = [(line, row.result.name) for row in rows for line in _of_trial(row, results, tried)]
    lines += [(why, name) for why, names in ranks.unexpected(results).items() for name in names]
    about_columns = [*_of_columns(rows, results, preset)]
    # Each note has a kind, since its first word does not identify it: a trial may be called "published".
    return [
        *(Note("caution", line) for line in damage(results.unread or ())),
        *(_of_trials("finding", names, line) for line, names in grouped(lines).items()),
        *(Note("finding", line, (trial.name,)) for trial in results.trials if (line := failure(trial, results))),
        *(Note("difference", f"difference: {line}") for line in results.differences or ()),
        *(note for note in about_columns if note.kind == "caution"),
        *cautions(results.trials),
        *(note for note in about_columns if note.kind == "reading"),
        *(Note("published", f"published: {line}") for line in _published(results, preset)),
    ]


def damage(unread: Sequence[str]) -> list[str]:
    """A caution for each damaged journal. unread: the messages from reading the journals."""
    return [f"caution: {note}" for note in unread]


def note_lines(results: Results, preset: Preset) -> list[str]:
    """The texts of the notes."""
    return [note.text for note in notes(results, preset)]


def cautions(results: Sequence[TrialResult]) -> list[Note]:
    """The reasons why figures may mislead, each once, with the trials concerned."""
    raised = ((caution, trial) for trial in results if trial.summary for caution in trial.summary.warnings)
    return [
        Note(
            "caution",
            f"caution, {who([trial.name for trial in trials], len(results))}: {_advice(caution, trials)}",
            tuple(trial.name for trial in trials),
        )
        for caution, trials in grouped(raised).items()
    ]


def _advice(caution: Caution, trials: Sequence[TrialResult]) -> str:
    repeats = [repeat for trial in trials for repeat in valid_repeats(trial.repeats)]
    loads = [repeat.other_load for repeat in repeats if repeat.other_load]
    if caution is Caution.OTHER_LOAD and loads:
        worst = describe(max(loads, key=lambda load: load.cores))
        disturbed = [
            (max(rank.queued_s for rank in repeat.ranks), repeat) for repeat in repeats if is_disturbed(repeat)
        ]
        queued_s, repeat = max(disturbed, key=lambda each: each[0], default=(0.0, None))
        if repeat and queued_s >= MATTERS * repeat.train_time_s:
            worst += f", and a rank waited for a core for {queued_s:.2f} of the {repeat.train_time_s:.2f} s it trained"
        return f"{worst}: {CLOSE_THEM}"
    if caution is Caution.WIDE_SPREAD:
        times = [trial.summary.train_time_s for trial in trials if trial.summary]
        widest = max((time.max - time.min) / time.median for time in times)
        return f"repeats differ by up to {widest:.0%}: too noisy for small differences; increase `--repeats`"
    return caution.advice


def _of_trials(kind: NoteKind, names: Sequence[str], words: str) -> Note:
    return Note(kind, f"{', '.join(names)}: {words}" if names else words, tuple(names))


def _of_columns(rows: Sequence[Row], results: Results, preset: Preset) -> Iterator[Note]:
    """Notes that explain headers and marks in cells."""
    if len(preset.trials) > 1 and preset.kind != "primitives":
        yield from _of_ratios(results)
    if any(len(valid_repeats(row.result.repeats)) > 1 for row in rows):
        yield Note("reading", f"{OFF_BY}: the largest deviation of any repeat from the median")
    if any(is_marked(row.result) or row.is_rough for row in rows):
        yield Note("reading", f"{ROUGH}: a caution names the cause")
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
    if machine := ranks.gpus_of_machine(results):
        yield Note("reading", machine)
    starts = dict.fromkeys((repeat.start_why, row.result.name) for row in rows for repeat in row.result.repeats)
    for why, names in grouped((why, name) for why, name in starts if why).items():
        yield _of_trials("reading", names, f"started cold (each rank imports torch itself): {why}")
    repeats = [repeat for row in rows for repeat in row.result.repeats]
    if any(repeat.wait_error_ms is not None and repeat.wait_ms is not None for repeat in repeats):
        yield Note("reading", f"wait ms {OFF_BY}: the error of the ranks' clocks; transfer ms has the same error")


def _of_ratios(results: Results) -> Iterator[Note]:
    """Notes on the baseline of the ratios, and on trials without a ratio because repeats were excluded."""
    base = results.base
    if why := why_none(results):
        if all(finding.kind is not Kind.NO_BASELINE for finding in results.findings):  # else the answer says so
            yield Note("caution", f"caution: no ratio, no speed-up: {why}")
        return
    against = base.name + "; each repeat has its own ratio: the median is shown" * (
        len(valid_repeats(base.repeats)) > 1
    )
    if results.of_two_runs:
        against = "run A, each repeat with each, since the runs did not take turns"
    yield Note("reading", f"ratio, speed-up: relative to {against}")
    unpaired = [trial for trial in results.trials if trial.summary and not trial.summary.ratio]
    bases = ((results.base_of(trial), trial.name) for trial in unpaired)
    spoilt = grouped((base.name, name) for base, name in bases if base and any(map(exclusion_reason, base.repeats)))
    for name, names in spoilt.items():
        yield _of_trials("caution", names, f"no ratio: no repeat is valid both here and in {name}")


def _of_trial(row: Row, results: Results, tried: set[str]) -> list[str]:
    """The lines on one trial: the checks that fail, its findings in one line, then limits of its figures. tried: the
    advice given so far, which is not repeated."""
    wrong = problems(row.trial, row.last) if row.last else ()
    lines = [
        *wrong,
        lights(row.last) if row.last and row.result.kind == "command" else "",
        _in_one_line(row.result, results, tried),
        *_facts(row),
        *_missing_repeats(row.result, results),
    ]
    return [line for line in lines if line]


def lights(repeat: RepeatResult) -> str:
    """The checks of a watched training, by their state; empty if there are none."""
    by_state = {word: [light.name for light in repeat.checks if light.state == state] for state, word in STATES.items()}
    states = "; ".join(f"{word}: {', '.join(names)}" for word, names in by_state.items() if names)
    return states and f"checks {states}"


def _in_one_line(result: TrialResult, results: Results, tried: set[str]) -> str:
    """The findings of a trial in one line, the first with its evidence; the first advice follows what it is about.
    What the answer of the run says is not repeated."""
    if not result.findings:
        return ""
    first = result.findings[0]
    advised = next((finding for finding in result.findings if finding.action), first)
    action = "" if advised.action in tried else remedy(advised)
    tried.add(advised.action or "")
    parts: list[str] = []
    for finding in result.findings:
        found = "" if finding in results.findings else short(finding)
        parts += [found, evidence(finding) * (finding is first), action * (finding is advised)]
    return in_a_row(parts, ".")


def _facts(row: Row) -> Iterator[str]:
    repeats = row.result.repeats
    if not repeats:
        return
    yield from _hidden_waits(valid_repeats(repeats))
    yield from _mismatches(repeats)
    for number, repeat in enumerate(repeats, start=1):
        if repeat.changes:
            yield _changed_by_hand(number, repeat, repeats)
        elif is_disturbed(repeat) and why_left_out(repeat, repeats):
            yield f"repeat {number} is left out of medians: {disturbance_of(repeat)}"
    if row.trial.launch == "dp":
        yield ranks.output_device(repeats[-1].ranks)
    if row.trial.instruments == "off":
        yield "without instruments: only the trial's times are known"
    if dropped := sum(rank.dropped for repeat in repeats for rank in repeat.ranks):
        yield f"{count(dropped, 'message')} lost to a full queue; the figures lack them"
    if looked_at := next((repeat.looked_at for repeat in repeats if repeat.looked_at), None):
        yield f"phases, waiting and loss are from a sample of {looked_at:,} steps, spread over all steps"
    if refused := sum(repeat.refused for repeat in repeats):
        yield f"{count(refused, 'message')} rejected and not recorded"


def _hidden_waits(repeats: Sequence[RepeatResult]) -> Iterator[str]:
    """Why waits are not shown: times are from the host's clock, or the clocks of ranks or GPUs differ too much."""
    hidden = [repeat.clock_error_ms for repeat in repeats if repeat.wait_share is None]
    errors = [f"±{seconds(error_ms * MS / S)}" for error_ms in hidden if error_ms is not None]
    if len(repeats[-1].ranks) > 1 and Caution.HOST_TIME in repeats[-1].warnings:
        yield "waits are not known: times are from the host, and its devices may lag behind"
    elif errors:
        yield f"the clock error ({errors[-1]}) exceeds the measured waits, so they are hidden"


def _mismatches(repeats: Sequence[RepeatResult]) -> Iterator[str]:
    if steps := [mismatch for repeat in repeats for mismatch in repeat.mismatches]:
        in_all = all(repeat.overlap is None and len(repeat.ranks) > 1 for repeat in repeats)
        lost = "waits are unknown" if in_all else f"{count(len(steps), 'step')} left out"
        yield f"{lost}, since the ranks' reports do not match: {steps[0]}"


def _changed_by_hand(number: int, repeat: RepeatResult, repeats: Sequence[RepeatResult]) -> str:
    """When the user changed which delays of a repeat, what was measured then, and whether the figures include it."""
    who = f"repeat {number} of {len(repeats)} was " if len(repeats) > 1 else ""
    line = f"{who}changed by hand {'; '.join(map(_changed, repeat.changes))}"
    if not is_changed(repeat):
        return line
    is_left_out = why_left_out(repeat, repeats)
    return line + ("; it is left out of medians and ratios" if is_left_out else "; the figures include it")


def _changed(change: Change) -> str:
    when = f"from step {change.step} on" if change.step is not None else "too late for any step"
    if change.step is change.steps is None:  # without instruments, only the moment is known
        when = f"after {seconds(change.s)}"
    bottleneck = msgspec.convert(change.bottleneck, tuple[Bottleneck, ...])
    words = f"{when}: {describe_bottleneck(bottleneck) if bottleneck else 'no delay'}"
    if change.steps == 0 and change.step is not None:
        return f"{words} (in no measured step)"
    if not bottleneck or not change.steps:  # removed, too late, or without instruments
        return words
    if culprit := change.culprit:
        late = seconds(culprit.excess_s.estimate / change.steps)
        return f"{words} (measured: {late} a step on rank {culprit.rank}, {where(culprit.phase)})"
    return f"{words} (not attributed: too few steps, or too uncertain)"


def _missing_repeats(trial: TrialResult, results: Results) -> list[str]:
    """The number of repeats of a trial that did not fail but lacks some, in words; empty if none is missing."""
    done, wanted = finished(trial), results.repeats or 0
    if trial.status != "ok" or not 0 < done < wanted:
        return []
    # In a run that was not interrupted, repeats are missing only if they were skipped.
    return [f"finished {done} of {wanted} repeats{': the others were skipped' * (results.status != 'interrupted')}"]


def failure(result: TrialResult, results: Results) -> str:
    """Why a trial failed, with the evidence or the end of its log indented below; what the answer says is left out.
    Empty if it has not failed, or if the answer has said all."""
    headline, *log = (result.error or "").splitlines() or [""]
    if result.failure and any(finding.place == headline for finding in results.findings):
        details = result.failure.details
        return "\n  ".join(["what the ranks did:", *details]) if details else ""
    return "\n  ".join([f"trial {result.name} failed: {headline}", *log]) if headline else ""


class TrialNotes(NamedTuple):
    """The notes of a run as lines of text, for a view that shows one trial."""

    chosen: list[str]  # the verdict first; then what differs between two runs
    others: list[str]  # of the other trials
    published: list[str]  # figures, beside ours
    reading: list[str]  # how to read the table


def in_words(results: Results, preset: Preset, chosen: str | None) -> TrialNotes:
    """The notes of a run, sorted for a view of the trial named `chosen`."""
    of_run = notes(results, preset)
    of_chosen = [note for note in of_run if chosen in note.trials]
    findings = [note.text for note in of_chosen if note.kind == "finding"]
    trial = next((trial for trial in results.trials if trial.name == chosen), None)
    if trial is not None and not findings and not trial.findings:  # else the answer of the run gives them
        findings = [_no_findings(trial, results)]
    return TrialNotes(
        chosen=[
            *findings,
            *(note.text for note in of_run if note.kind == "difference"),
            *(note.text for note in of_chosen if note.kind == "caution"),
        ],
        others=[note.text for note in of_run if note.kind in ("finding", "caution") and note not in of_chosen],
        published=[note.text for note in of_run if note.kind == "published"],
        reading=[note.text for note in of_run if note.kind == "reading"],
    )


def _no_findings(trial: TrialResult, results: Results) -> str:
    if trial.summary is None or trial.is_cut_short:
        return f"{trial.name} {what_became(trial)}"
    parts = ["the baseline"] if results.base_of(trial) is trial else []
    if all(len(repeat.ranks) == 1 for repeat in trial.repeats):
        parts.append("one process, so there is nobody to wait for")
    return f"{trial.name}: {'; '.join(parts) or 'nothing stands out'}"


def in_short(trial: TrialResult | None) -> str:
    """The verdict in a few words, for a title; empty if no rank is late."""
    culprit = trial.summary.culprit if trial and trial.summary else None
    if culprit is None:
        return ""
    # The steps are named, since the wait matrix beside the title covers all steps.
    steps = f", in steps {culprit.steps[0]} to {culprit.steps[1]}" if culprit.steps else ""
    return f"rank {culprit.rank} is late, {where(culprit.phase)}{steps}"


def shown_first(results: Results) -> str:
    """The name of the trial to show first: the first trial with figures, except the baseline, that the answer is about;
    else the trial in which a rank caused the most waiting; else the baseline."""
    measured = {trial.name: trial.summary for trial in results.trials if trial.summary}
    others = {trial.name for trial in results.trials if trial.summary and results.base_of(trial) is not trial}
    about = [name for finding in results.findings for name in finding.trials if name in others]
    caused = {name: summary.culprit.wait_caused_s for name, summary in measured.items() if summary.culprit}
    costliest = max(caused, key=lambda name: caused[name], default=results.baseline)
    return next(iter(about), costliest)


def _published(results: Results, preset: Preset) -> list[str]:
    """The sources of the published figures, then each published figure beside the one of this run."""
    trials = {trial.name: trial for trial in results.trials}
    base = next((other.train_time_s for other in preset.references if other.trial == preset.baseline), None)
    sources = dict.fromkeys(reference.source for reference in preset.references if reference.source)
    return [*sources, *(_line(reference, trials[reference.trial], base) for reference in preset.references)]


def _line(reference: Reference, trial: TrialResult, base: float | None) -> str:
    if trial.summary is None:
        return f"{trial.name}: {trial.status} here, {reference.train_time_s:.2f} s published"
    ours = trial.summary.train_time_s.median
    words = f"{trial.name}: {ours:.2f} s here, {reference.train_time_s:.2f} s published"
    words += f" ({ours / reference.train_time_s:.3g} times as long)"
    if base is not None and trial.summary.ratio is not None:  # machines differ in speed: ratios compare better
        words += f"; ratio {trial.summary.ratio.median:.2f} here, {reference.train_time_s / base:.2f} published"
    if reference.step_ms is not None and (here := median_figure(trial, step_ms)) is not None:
        words += f"; a step {here:.2f} ms here, {reference.step_ms:g} ms published"
    return words

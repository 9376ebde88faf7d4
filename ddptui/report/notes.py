"""The notes below a table: what it cannot show in a cell."""

from collections.abc import Iterator, Sequence
from typing import Literal

import msgspec

from ddptui.analysis.cautions import Caution
from ddptui.analysis.correctness import problems
from ddptui.analysis.results import RepeatResult, Results, TrialResult
from ddptui.config.launch_modes import LAUNCH_MODES
from ddptui.config.preset import Preset
from ddptui.report import devices, sentences
from ddptui.report.columns import IN_BACKWARD, IN_SOME_STEPS, OFF_BY, Row, aggregation, is_stand_in, rows_of
from ddptui.report.references import sources, steps_beside
from ddptui.text.words import count

Kind = Literal["reading", "finding", "caution", "published"]


class Note(msgspec.Struct, frozen=True):
    """A line below the table; a failure brings the end of its log, a line each.

    kind    reading: how to read the table; finding: what came of a trial; caution: why figures may deceive; published:
            what others have measured
    trials  the names of the trials that it is about; none: the table as a whole
    """

    kind: Kind
    text: str
    trials: tuple[str, ...] = ()


def notes(results: Results, preset: Preset) -> list[Note]:
    """Damaged journals, how to read the table, what came of each trial, cautions, what was published: in this order."""
    rows = rows_of(results, preset)
    gathered = [Note("caution", f"caution: {line}") for line in results.unread or ()]
    gathered += [*_of_columns(rows, preset), *(note for row in rows for note in _of_trial(row))]
    gathered += [_of_trials("finding", names, why) for why, names in devices.unexpected(results).items()]
    gathered += cautions(results.trials)
    gathered += [Note("published", f"published: {line}") for line in [*sources(preset), *steps_beside(results, preset)]]
    if results.status == "interrupted":
        gathered.append(Note("reading", "interrupted: the table shows what was finished"))
    return gathered


def note_lines(results: Results, preset: Preset) -> list[str]:
    """The texts of the notes."""
    return [note.text for note in notes(results, preset)]


def cautions(results: Sequence[TrialResult]) -> list[Note]:
    """Why figures may deceive, with the trials whose figures those are."""
    trials: dict[Caution, list[TrialResult]] = {}
    for result in results:
        for caution in result.summary.warnings if result.summary else []:
            trials.setdefault(caution, []).append(result)
    spread = [_of_spread(result) for result in trials.pop(Caution.WIDE_SPREAD, [])]
    names = {caution: tuple(result.name for result in warned) for caution, warned in trials.items()}
    return spread + [
        Note("caution", f"caution, {_names(warned, len(results))}: {caution.advice}", warned)
        for caution, warned in names.items()
    ]


def _of_spread(result: TrialResult) -> Note:
    assert result.summary is not None
    time = result.summary.train_time_s
    repeats = f"{count(len(result.repeats), 'repeat')}, {time.min:.2f} to {time.max:.2f} s"
    text = f"caution, {result.name}: {repeats}: too noisy to compare; take more `--repeats`"
    return Note("caution", text, (result.name,))


def _names(names: Sequence[str], of: int) -> str:
    return "all trials" if len(names) == of > 1 else ", ".join(names)


def _of_trials(kind: Kind, names: Sequence[str], words: str) -> Note:
    return Note(kind, f"{', '.join(names)}: {words}" if names else words, tuple(names))


def _of_columns(rows: Sequence[Row], preset: Preset) -> Iterator[Note]:
    """What a header or a mark in a cell stands for."""
    if len(preset.trials) > 1:
        yield Note("reading", f"ratio, speed-up: against {preset.baseline}")
    modes = {row.trial.launch: row for row in rows if row.result.repeats}
    if "dp" in modes and is_stand_in(modes["dp"]):
        yield Note("reading", "¹ threads, CPU stand-in for nn.DataParallel")
    if "launch" in modes:
        yield _of_trials("reading", [modes["launch"].result.name], f"started by {_launcher(modes['launch'])}")
    for why, names in devices.backends([row.result for row in rows], preset).items():
        yield _of_trials("reading", names, why)
    aggregations = {aggregation(row) for row in rows}
    if IN_BACKWARD in aggregations:
        yield Note("reading", f"{IN_BACKWARD} torch DDP aggregates while backward runs: its time is within that phase")
    if IN_SOME_STEPS in aggregations:
        yield Note("reading", f"{IN_SOME_STEPS} averages in some steps only: the median step has no aggregation")
    if any(repeat.wait_error_ms is not None and repeat.wait_ms is not None for repeat in _repeats(rows)):
        yield Note("reading", f"wait ms {OFF_BY}: how far the ranks' clocks may put it off, and transfer ms with it")


def _of_trial(row: Row) -> Iterator[Note]:
    """What came of one trial."""
    result, name = row.result, row.result.name
    lines = sentences.of_trial(result, row.trial)
    lines += [line for repeat in result.repeats[-1:] for line in problems(row.trial, repeat)]
    if dropped := sum(rank.dropped for repeat in result.repeats for rank in repeat.ranks):
        lines.append(f"{count(dropped, 'message')} lost to a full queue: its figures lack them")
    if looked_at := next((repeat.looked_at for repeat in result.repeats if repeat.looked_at), None):
        lines.append(f"phases, waiting and loss are of {looked_at:,} steps, spread over all of them")
    if refused := sum(repeat.refused for repeat in result.repeats):
        lines.append(f"{count(refused, 'message')} rejected and not recorded")
    yield from (_of_trials("finding", [name], line) for line in lines)
    if result.error:
        headline, *log = result.error.splitlines()
        yield Note("finding", "\n  ".join([f"{name} failed: {headline}", *log]), (name,))


def _launcher(row: Row) -> str:
    """The module that started the ranks: a torch without torch.distributed.launch has torch.distributed.run."""
    modules = (word for word in row.result.command if word.startswith("torch.distributed."))
    return next(modules, LAUNCH_MODES["launch"].label)


def _repeats(rows: Sequence[Row]) -> list[RepeatResult]:
    return [repeat for row in rows for repeat in row.result.repeats]

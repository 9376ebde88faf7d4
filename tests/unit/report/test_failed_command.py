"""What is said of a watched training, or of a preset's command, that failed: the first cause first, and no advice on
speed."""

import json

import pytest
from msgspec.structs import replace

from ddptui.analysis.finding import Finding, Kind
from ddptui.analysis.results import Results
from ddptui.config.preset import Preset
from ddptui.report.notes import answer, note_lines
from ddptui.report.table import as_json, markdown, text
from ddptui.wire.messages import Hello
from ddptui.wire.records import Failure, Message, Restarted
from tests.support.builders import CAUSE, ended, hello, journal, launched, preset_of, results_for
from tests.support.traces import delayed, trace, works_of


def of_commands(*names: str, **fields: object) -> Preset:
    trials = [{"name": name, "launch": "command", "command": ["train.py"]} for name in names]
    return preset_of({"kind": "command", "title": "train.py", "trial": trials, **fields})


def died(name: str, *, of_late_rank: bool = True, cause: Failure | None = CAUSE) -> list[Message]:
    """A hundred steps in which rank 1 was late, then a failure."""
    works, _ = delayed(works_of(1, skew=0.0), 1, "forward", lambda _: 25.0 * of_late_rank)
    told = trace(works)
    start: list[Message] = [replace(launched(name), watched=True), *(hello(rank) for rank in (0, 1))]
    steps: list[Message] = [own for together in zip(*told.values(), strict=True) for own in together]
    return [*start, *steps, ended("failed", "no cause is known" if cause is None else None, cause)]


def test_the_first_cause_is_the_answer_alone_and_the_first_line() -> None:
    preset = of_commands("a")
    results = results_for(preset, died("a"))
    assert results.findings == [
        Finding(kind=Kind.FAILED, severity="critical", trials=("a",), place=CAUSE.summary, action=CAUSE.remedy)
    ]
    assert results.trials[0].findings == []
    shown = text(results, preset, 200)
    assert answer(results) == [f"R{CAUSE.summary[1:]}.", f"{CAUSE.remedy[:1].upper()}{CAUSE.remedy[1:]}."]
    assert shown.splitlines()[0] == " ".join(answer(results))
    assert shown.count(CAUSE.summary[1:]) == 1  # the notes do not repeat it
    assert f"what the ranks did:\n  {CAUSE.details[0]}" in shown
    assert not any(words in shown for words in ("holds everyone up", "waited for rank", "bucket", "Rank 1 is late"))
    assert CAUSE.summary[1:] in markdown(results, preset)


def test_after_a_failure_no_more_steps_are_asked_for_and_without_it_the_same_steps_have_findings() -> None:
    preset = of_commands("a")
    *messages, _ = died("a")
    assert results_for(preset, [*messages, ended()]).trials[0].findings
    few = results_for(preset, [*messages[:13], ended("failed", failure=CAUSE)])
    assert not any("few" in line for line in [*answer(few), *note_lines(few, preset)])


def test_its_parts_are_in_the_json() -> None:
    preset = of_commands("a", "b")
    a, b = json.loads(as_json(results_for(preset, journal("a"), died("b")), preset))["trials"]
    assert a["failure"] is None
    assert b["failure"] == {
        "summary": CAUSE.summary,
        "remedy": CAUSE.remedy,
        "rank": 1,
        "step": 59,
        "place": "train.py:30",
        "error": "KeyError: 'val/f1'",
        "details": [*CAUSE.details],
    }
    assert b["error"].splitlines() == [CAUSE.summary, CAUSE.remedy, *CAUSE.details]


def kinds(results: Results) -> list[Kind]:
    return [finding.kind for finding in results.findings if finding.kind is not Kind.TOO_FEW_STEPS]


@pytest.mark.parametrize("cause", [CAUSE, None])
def test_a_command_that_failed_is_not_compared(cause: Failure | None) -> None:
    preset = of_commands("a", "b")
    results = results_for(preset, journal("a"), died("b", cause=cause))
    assert kinds(results) == [Kind.FAILED]
    summary = results.trials[1].summary
    assert (summary.ratio, summary.speedup) == (None, None)
    shown = text(results, preset, 200)
    assert f"trial b failed: {CAUSE.summary if cause else 'no cause is known'}" in shown
    assert answer(results)[0] == "Trial b failed: see below."


def test_a_failure_leaves_nothing_to_compare() -> None:
    results = results_for(of_commands("a", "b"), died("a"), journal("b"))
    assert kinds(results) == [Kind.NO_BASELINE, Kind.FAILED]
    summary = results.trials[1].summary
    assert (summary.ratio, summary.speedup) == (None, None)


def test_the_restart_stays_beside_a_failure() -> None:
    preset = of_commands("a")
    *messages, end = died("a", of_late_rank=False)
    middle = len(messages) // 2 + 1
    again = [message for message in messages if isinstance(message, Hello)]
    first = replace(CAUSE, summary="rank 0 was killed by SIGKILL after step 48")
    restarted = [*again, Restarted(at_ns=1, failure=first)]
    results = results_for(preset, [*messages[:middle], *restarted, *messages[middle:], end])
    [finding] = results.trials[0].findings
    assert (finding.kind, finding.place, finding.action) == (Kind.RESTART, first.summary, None)
    assert any(first.summary in line for line in note_lines(results, preset))

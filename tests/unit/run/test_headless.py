"""What the narrator tells a reader of stderr."""

import io
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ddptui.config.preset import Preset
from ddptui.findings.compare import RunningResults
from ddptui.run import headless, runner
from ddptui.run.headless import CLEAR_LINE, EXIT_CODES, Narrator, notice_lines
from ddptui.run.runner import Session
from ddptui.store.journal import RunLost
from ddptui.store.runs import Run
from ddptui.text.drawing import cell_len
from ddptui.wire.records import Message, Notice, Refused, Restarted
from tests.support.builders import (
    CAUSE,
    LAUNCHED_MS,
    ended,
    failure,
    heartbeat,
    hello,
    journal,
    launched,
    preset_of,
    ready,
    step,
    two_trials,
)

ALONE = preset_of({"trial": [{"name": "a"}]})


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A clock that stands at `now` until it is set."""
    clock = SimpleNamespace(now=0.0)
    time = SimpleNamespace(monotonic=lambda: clock.now, monotonic_ns=lambda: int(clock.now * 1e9))
    monkeypatch.setattr(headless, "time", time)
    return clock


def told(output: io.StringIO, preset: Preset, messages: Iterable[Message], clock: SimpleNamespace) -> str:
    """Half a second passes before each message."""
    narrator = Narrator(preset, output)
    for message in messages:
        clock.now += 0.5
        narrator.add(message)
    return output.getvalue()


def test_a_pipe_gets_two_lines_a_launch(clock: SimpleNamespace) -> None:
    output = io.StringIO()
    lines = told(output, two_trials(), [*journal("a"), *journal("b")], clock).splitlines()
    assert [line.partition("  about")[0] for line in lines] == [
        "[1/4] a  repeat 1 of 2  mp.spawn",
        "[1/4] a  repeat 1 of 2  4 steps  last loss 0.667",
        "[2/4] b  repeat 1 of 2  mp.spawn",
        "[2/4] b  repeat 1 of 2  4 steps  last loss 0.667",
    ]
    assert not {"\x1b", "\r"} & {*output.getvalue()}
    Narrator(two_trials(), output).print("aside")
    assert output.getvalue().endswith("\naside\n")


SINGLE = preset_of({"trial": [{"name": "a", "launch": "single"}]})
STILL = Notice(at_ns=1, text="no step for 20 s: rank 0 is in step 3")
LEFT = Notice(at_ns=9_000_000_000, text="job 17 may be left")
FAILED = failure("a", error="rank 1 was killed by SIGKILL\nits log")


@pytest.mark.parametrize(
    ("preset", "messages", "lines"),
    [
        (SINGLE, journal("a", ranks=1), ["[1/1] a  one process, no group", "[1/1] a  4 steps  last loss 0.667"]),
        (ALONE, [launched(), hello(), ready(), step(loss=None), ended()], ["[1/1] a  1 step"]),  # not finite
        (ALONE, [launched(), LEFT, ended(), LEFT], [LEFT.text]),  # of no launch, now that the last is over
        (two_trials(), FAILED, ["[1/3] a  repeat 1 of 2  failed: rank 1 was killed by SIGKILL"]),
        (two_trials(), [launched(), ended("interrupted")], ["[1/3] a  repeat 1 of 2  interrupted: stopped"]),
        (two_trials(), [launched(), ended("failed")], ["[1/3] a  repeat 1 of 2  failed: stopped"]),
        (two_trials(), [launched(), STILL], [f"[1/4] a  repeat 1 of 2  {STILL.text}"]),
        (two_trials(), [*failure("a"), *journal("b", 1), *journal("b", 2)],
         ["[3/3] b  repeat 2 of 2  4 steps  last loss 0.667"]),  # a has spared one, and no time is left
    ],
)  # fmt: skip
def test_the_last_lines_of(preset: Preset, messages: list[Message], lines: list[str], clock: SimpleNamespace) -> None:
    assert told(io.StringIO(), preset, messages, clock).splitlines()[-len(lines) :] == lines


@pytest.mark.parametrize(
    ("message", "lines"),
    [
        (STILL, [STILL.text]),
        (Restarted(at_ns=1, failure=CAUSE), [f"the ranks were restarted: {CAUSE.summary}"]),
        (Refused(at_ns=1, count=3, why="a stranger"), ["3 messages rejected and not recorded: a stranger"]),
        (ended("failed", failure=CAUSE), []),  # the report says it
    ],
)
def test_problems_of_a_launch_are_said_as_they_come(message: Message, lines: list[str]) -> None:
    assert notice_lines(message) == lines


def test_the_time_left_is_what_launches_took_so_far(clock: SimpleNamespace) -> None:
    output = io.StringIO()
    narrator = Narrator(two_trials(), output)
    *most, last = journal("a")
    for message in most:
        narrator.add(message)
    clock.now = LAUNCHED_MS / 1000 + 30.0  # for one launch of four
    narrator.add(last)
    assert output.getvalue().splitlines()[-1].endswith("  about 1:30 left")


def frames(shown: str) -> list[str]:
    return shown.split(CLEAR_LINE)[1:]


def test_a_terminal_gets_a_line_that_redraws_itself(clock: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    messages = [
        launched(), hello(0), hello(1), ready(0), ready(1),
        step(0, 0, end_ms=1_000), step(1, 0, end_ms=1_000), step(0, 1, end_ms=1_500), step(1, 1, end_ms=1_500),
        ended(),
    ]  # fmt: skip
    shown = frames(told(Terminal(), ALONE, messages, clock))
    assert shown[:4] == [
        "[1/1] a  mp.spawn\n", "[1/1] a  starting: 1 of 2 ranks connected",
        "[1/1] a  starting: 2 of 2 ranks connected, 0 ready", "[1/1] a  starting: 2 of 2 ranks connected, 1 ready",
    ]  # fmt: skip
    assert shown[6].startswith("[1/1] a  step 1 of 4  last loss 1.000  ")
    assert shown[8].startswith("[1/1] a  step 2 of 4  last loss 1.000  ")
    assert shown[-1] == "[1/1] a  2 steps  last loss 1.000\n"
    assert all("\n" not in frame for frame in shown[1:-1])
    output = Terminal()
    Narrator(two_trials(), output).print("aside")
    assert output.getvalue() == f"{CLEAR_LINE}aside\n"
    monkeypatch.setenv("TERM", "dumb")  # for text alone
    assert CLEAR_LINE not in told(Terminal(), two_trials(), journal("a"), clock)


def test_a_terminal_is_not_redrawn_at_every_message(clock: SimpleNamespace) -> None:
    output = Terminal()
    narrator = Narrator(two_trials(), output)
    clock.now = 1
    narrator.add(launched())
    narrator.add(hello())
    drawn = len(frames(output.getvalue()))
    for _ in range(100):
        narrator.add(heartbeat())
    assert len(frames(output.getvalue())) == drawn
    clock.now += 1
    narrator.add(heartbeat())
    assert len(frames(output.getvalue())) == drawn + 1


def test_the_line_never_wraps(clock: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    shown = frames(told(Terminal(), two_trials(), journal("a")[:-1], clock))
    assert len(shown) > 5
    assert max(len(frame) for frame in shown[1:]) == 19
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setattr(Narrator, "_progress", lambda _: "拖慢了" * 10)
    shown = frames(told(Terminal(), two_trials(), journal("a")[:-1], clock))
    assert max(cell_len(frame) for frame in shown[1:]) in (38, 39)


@pytest.mark.parametrize(
    "error", [RunLost(Path("runs"), OSError("no room")), OSError("no more processes"), ValueError("a bug")]
)
def test_a_job_that_may_be_left_is_named_with_the_error_that_ended_the_run(
    error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run_preset(*_: object, **__: object) -> Iterator[Message]:  # the lab is the seam
        yield launched()
        raise error

    error.add_note("job 17 may be left")
    monkeypatch.setattr(runner, "run_preset", run_preset)
    with ThreadPoolExecutor(1) as threads:
        session = Session(two_trials(), Run.create(tmp_path, two_trials(), {}), threads)
        session.close()
    assert "; job 17 may be left" in str(session.error)
    if not isinstance(error, ValueError):  # whose traceback has the note
        assert headless.run(two_trials(), tmp_path, as_json=False) == 1
        assert f"{error}" in capsys.readouterr().err.partition("; job 17 may be left")[0]


@pytest.fixture
def told_by_the_lab(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four launches, the last one skipped, of which no process is started."""

    def run_preset(*_: object, results: RunningResults) -> Iterator[Message]:  # the lab is the seam
        for messages in (journal("a"), journal("b"), journal("a", 2), [*journal("b", 2)[:-3], ended("skipped")]):
            for message in messages:
                results.add(message)
                yield message

    monkeypatch.setattr(runner, "run_preset", run_preset)


@pytest.mark.usefixtures("told_by_the_lab")
def test_at_the_end_what_is_missing_is_counted_and_where_questions_are_is_said(tmp_path: Path, capsys: Any) -> None:
    assert headless.run(two_trials(), tmp_path / "runs", as_json=False) == 0
    assert EXIT_CODES == {"ok": 0, "failed": 1, "interrupted": 130}
    *_, missing, kept = capsys.readouterr().err.splitlines()
    assert missing == "3 of 4 repeats finished"
    assert kept.startswith("kept in ")
    lesson = tmp_path / "lesson"
    headless.run(two_trials(question=[{"text": "Why?"}]), lesson, as_json=False)
    shown, [run] = capsys.readouterr(), lesson.iterdir()
    assert f"1 question, which `ddptui show {run.name}` prints: answer with A" in shown.err
    assert shown.err.endswith(f"{run / 'answers.json'}\n")
    assert (run / "answers.json").exists()
    assert "Why?" not in shown.out  # the table is as it is without questions


@pytest.mark.usefixtures("told_by_the_lab")
@pytest.mark.parametrize(("pinned", "is_shown"), [((), False), (("startup",), True)])
def test_columns_of_the_users_settings_are_kept_longest(
    pinned: tuple[str, ...], is_shown: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    headless.run(two_trials(), tmp_path, as_json=False, pinned=pinned)
    assert ("start s" in capsys.readouterr().out) is is_shown

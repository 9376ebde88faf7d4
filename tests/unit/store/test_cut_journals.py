"""A journal that was cut off, or spoilt, is read as far as it goes: never an error."""

import json
import os

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ddptui.config.preset import Preset
from ddptui.live.monitor import RunMonitor
from ddptui.run.playback import Playback
from ddptui.store.journal import LONGEST_MESSAGE
from ddptui.store.overview import results_of
from ddptui.store.runs import Run, RunError
from ddptui.text.words import count
from ddptui.wire.records import Launched, Message, Offset
from tests.support.builders import journal, one_of_each, preset_of, write_run

JOURNAL = [*one_of_each()[:-1], *journal("a")]
LINES = b"".join(msgspec.json.encode(message) + b"\n" for message in JOURNAL)
PLACES = st.integers(0, len(LINES))
PRESET: Preset = preset_of({"title": "?", "trial": [{"name": "a"}]})


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return write_run(tmp_path_factory.mktemp("runs"), PRESET, journal("a"))


def reread(run: Run, content: bytes) -> list[Message]:
    """What is read of it, once everything that reads a journal has done so."""
    (run.repeat_folder("a", 1) / "messages.jsonl").write_bytes(content)
    assert run.outline()[1] == "ok"  # that is in results.json
    results_of(run, PRESET)
    now = [0]
    playback = Playback(run, PRESET, clock=lambda: now[0])
    monitor = RunMonitor()
    for by_s in (0.0, 5.0, -3.0, 1e6):
        playback.seek(by_s)
        if playback.restarted:
            monitor = RunMonitor()
        monitor.add(playback.drain())
        monitor.look(playback.now_ns())
    playback.step(1)
    playback.step(-1)
    return list(run.messages("a", 1))


def test_a_journal_comes_back_as_it_was_written(run: Run) -> None:
    assert reread(run, LINES) == JOURNAL


@settings(deadline=None, max_examples=100)
@given(PLACES)
def test_of_a_journal_that_was_cut_off_anywhere_the_whole_lines_come_back(run: Run, place: int) -> None:
    whole = LINES[:place].count(b"\n")
    told = reread(run, LINES[:place])
    assert told in (JOURNAL[:whole], JOURNAL[: whole + 1])  # of the last line nothing but its end may lack
    assert len(told) == whole or LINES[place : place + 1] == b"\n"


@settings(deadline=None, max_examples=150)
@given(PLACES, st.integers(0, 40), st.binary(max_size=40))
def test_bytes_that_changed_are_no_error(run: Run, place: int, gone: int, instead: bytes) -> None:
    told = reread(run, LINES[:place] + instead + LINES[place + gone :])
    untouched = LINES[:place].count(b"\n")
    assert told[:untouched] == JOURNAL[:untouched]


@settings(deadline=None, max_examples=150)
@given(st.lists(st.tuples(PLACES, st.sampled_from(b"0123456789")), min_size=1, max_size=5))
def test_figures_that_changed_are_no_error(run: Run, changes: list[tuple[int, int]]) -> None:
    """What can still be read, though it cannot have been."""
    spoilt = bytearray(LINES)
    for place, digit in changes:
        at = next((at for at in range(place, len(spoilt)) if chr(spoilt[at]).isdigit()), 0)
        spoilt[at] = digit if at else spoilt[at]
    reread(run, bytes(spoilt))


@pytest.mark.parametrize(
    ("line", "lost"),
    [
        (b'{"a":' + b"[" * 200_000, 0),
        (b'{"a":' + b"[" * 200_000 + b"\n", 1),
        (b"\0" * (LONGEST_MESSAGE + 1), 1),
        (b"\0" * (LONGEST_MESSAGE + 1) + b"\n{}\n{}\n", 3),
        (b"\0" * LONGEST_MESSAGE + b"\n{}\n", 2),
    ],
    ids=["nested and cut", "nested", "long and cut", "long", "as long as may be"],
)
def test_a_line_nested_or_long_without_end_is_damage_like_any_other(run: Run, line: bytes, lost: int) -> None:
    unread: list[str] = []
    assert reread(run, LINES + line) == JOURNAL
    assert list(run.messages("a", 1, unread)) == JOURNAL
    number = len(JOURNAL) + 1
    what = f"line {number} cannot be read; {count(lost, 'line is', 'lines are')} missing"
    assert [what in note for note in unread] == [True] * bool(lost)


@pytest.mark.parametrize("moment_ns", [-(10**400), 2**62 + 1], ids=["long ago", "just beyond"])
@pytest.mark.parametrize("of", [Launched, Offset])
def test_a_moment_beyond_all_clocks_is_damage(run: Run, of: type[Launched | Offset], moment_ns: int) -> None:
    place = next(place for place, message in enumerate(JOURNAL) if isinstance(message, of))
    before, spoilt, after = JOURNAL[:place], msgspec.to_builtins(JOURNAL[place]) | {"at_ns": moment_ns}, JOURNAL[place:]
    lines = [*map(msgspec.json.encode, before), json.dumps(spoilt).encode(), *map(msgspec.json.encode, after)]
    assert reread(run, b"".join(line + b"\n" for line in lines)) == before
    unread: list[str] = []
    assert list(run.messages("a", 1, unread)) == before
    assert [f"line {place + 1} cannot be read" in note for note in unread] == [True]


def test_a_journal_that_becomes_a_pipe_is_replayed_without_its_results(run: Run) -> None:
    path = run.repeat_folder("a", 1) / "messages.jsonl"
    path.write_bytes(LINES)
    playback = Playback(run, PRESET, clock=lambda: 0)
    path.unlink()
    os.mkfifo(path)
    try:
        playback.seek(1e6)
        assert len(playback.drain()) == len(JOURNAL)
        assert not any(trial.repeats for trial in playback.results.trials)
        with pytest.raises(RunError, match="not a regular file"):
            Playback(run, PRESET)
        with pytest.raises(RunError, match="not a regular file"):
            results_of(run, PRESET)
    finally:
        path.unlink()

"""The tables of places in the code, and of where each rank's time went."""

import re

import msgspec
import pytest

from ddptui.analysis.finding import Finding, Kind, Where
from ddptui.analysis.results import PlaceTime, Results
from ddptui.config.preset import Preset
from ddptui.report.ranks import UNREAD, place_columns
from ddptui.report.table import markdown, text
from ddptui.store.overview import results_of
from ddptui.store.runs import Run
from tests.recorded.net import RUNS
from tests.unit.report.edited import edited

WIDTH, WIDE = 80, 200
HEADING = "Where in the code each rank worked, in ms a step"


def place(number: int, ms: dict[int, float], **changes: object) -> PlaceTime:
    told = PlaceTime(
        phase="data",
        place=f"augment, train.py:{number}",
        by="collate, train.py:37",
        file="train.py",
        line=number,
        last=number,
        ms=ms,
    )
    return msgspec.structs.replace(told, **changes)


def source(file: str, line: int, host: str, started: str, is_lab: bool) -> str:
    return f"line {line} of {file} on {host}"


def as_recorded(run: str) -> tuple[Results, Preset]:
    preset = Run(RUNS / run).preset()
    return results_of(Run(RUNS / run), preset), preset


def read(run: str, places: list[PlaceTime], findings: list[Finding] | None = None) -> tuple[Results, Preset]:
    """A recorded run, with these places and findings in each repeat, and no late rank."""
    results, preset = as_recorded(run)
    told = {"places": places, "culprit": None, "findings": findings or []}
    return edited(results, repeat=lambda *_: told), preset


PLACES = [place(number, {0: 0.0, 1: 20.5 - number}) for number in range(1, 31)]
LATE = Finding(kind=Kind.LATE_RANK, severity="warning", rank=1, lines=(Where(place="a, b.py:1", ms=1.0),))


def cells(places: list[PlaceTime], late: int | None = None, width: int | None = None) -> dict[str, list[str]]:
    shown = place_columns(places, late, lambda file, line, rank: f"{file} {line} {rank}", width)
    return {column.header: list(column.cells) for column in shown}


def test_few_ranks_have_a_column_each_and_several_lines_show_the_first() -> None:
    assert cells([place(28, {0: 0.0, 1: 19.821, 2: 0.3})]) == {
        "where": ["augment, train.py:28"],
        "phase": ["data"],
        "rank 1 ms": ["19.82"],
        "rank 2 ms": ["0.30"],
        "called by": ["collate, train.py:37"],
        "source": ["train.py 28 1"],
    }
    assert cells([place(28, {0: 1.0}, last=30)])["source"] == ["train.py 28 0 …"]


@pytest.mark.parametrize(("late", "header"), [(2, "rank 2 ms"), (9, "rank 5 ms")])
def test_of_many_ranks_one_stands_beside_the_others(late: int | None, header: str) -> None:
    ms = {0: 1.0, 1: 2.0, 2: 3.0, 3: 3.5, 4: 4.0, 5: 50.0}
    shown = cells([place(28, ms)], late)
    assert [name for name in shown if name.endswith("ms")] == [header, "others ms"]
    assert (shown[header], shown["others ms"]) == ((["3.00"], ["3.50"]) if late == 2 else (["50.00"], ["3.00"]))


@pytest.mark.parametrize("late", [0, 1])
def test_where_there_is_little_room_the_late_rank_is_shown(late: int) -> None:
    shown = cells([place(28, {0: 1.0, 1: 2.0})], late, len("augment, train.py:28") + 13)
    assert [name for name in shown if name.endswith("ms")] == [f"rank {late} ms"]


def test_where_space_is_short_the_source_takes_what_is_left() -> None:
    places = [place(28, {0: 1.0, 1: 2.0})]
    assert "source" not in cells(places, width=WIDTH + 8)
    assert cells(places, width=WIDTH + 21)["source"] == ["train.py 28 1"]
    long = place_columns(places, None, lambda *_: "x" * 200, 120)
    assert sum(column.width + 2 for column in long) - 2 == 120
    assert "source" not in [column.header for column in place_columns(places, None, lambda *_: "", 120)]
    results, preset = read("watched", PLACES, [LATE])
    assert "line 1 of train.py" in text(results, preset, WIDE, source=source)
    assert "line 1 of train.py" not in text(results, preset, WIDTH, source=source)


def test_a_terminal_shows_five_places_that_explain_something_or_of_a_late_rank() -> None:
    results, preset = read("watched", PLACES, [LATE])
    shown = text(results, preset, WIDTH)
    at = shown.splitlines().index(HEADING)
    header, _, *rows = shown.splitlines()[at + 2 :]
    assert header.split() == ["where", "phase", "rank", "1", "ms", "called", "by"]
    assert rows[0].startswith("augment, train.py:1  ")
    assert rows.index("") == 5
    assert HEADING not in text(*read("watched", PLACES), WIDTH)
    assert HEADING not in text(*read("watched", [], [LATE]), WIDTH)
    assert "Where in the code" not in text(*read("quickstart", PLACES, [LATE]), WIDTH)  # the lab's own code
    recorded, preset = as_recorded("watched")
    late = edited(recorded, repeat=lambda *_: {"places": PLACES, "findings": []})
    assert HEADING in text(late, preset, WIDTH)


def test_markdown_has_twenty_places_with_their_source() -> None:
    results, preset = read("watched", PLACES)
    assert f"#### {HEADING}" in markdown(results, preset)
    rows = [line for line in markdown(results, preset, source).splitlines() if line.startswith("| augment")]
    assert len(rows) == 20
    [host] = {rank.host for rank in results.base.repeats[-1].ranks}
    assert rows[0] == f"| augment, train.py:1 | data | 19.50 | collate, train.py:37 | line 1 of train.py on {host} |"
    assert "source" not in markdown(results, preset, UNREAD)


def test_each_ranks_parts_make_its_train_time_in_a_watched_training_alone() -> None:
    results, preset = as_recorded("watched")
    lines = text(results, preset, WIDTH).splitlines()
    at = next(at for at, line in enumerate(lines) if line.startswith("Each rank's time in s, 61 steps"))
    heading, _, header, _, *rows = lines[at : at + 6]
    assert header.split() == ["rank", "data", "forward", "backward", "optimizer", "between", "wait", "transfer"]
    assert max(map(len, (heading, header, *rows))) <= WIDTH
    [repeat] = results.base.repeats
    for rank, row in enumerate(rows):
        number, *parts = row.split()
        assert int(number) == rank
        assert abs(sum(float(part) for part in parts if part != "–") - repeat.train_time_s) < 0.05
    assert "| rank | data | forward |" in markdown(results, preset)
    results, preset = as_recorded("quickstart")
    assert not re.search("Each rank's time", text(results, preset, WIDTH))

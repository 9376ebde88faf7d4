"""Tables of a page: their columns, the order of their rows, places in the code, and questions."""

import re

import msgspec
import pytest

from ddptui.analysis.results import PlaceTime
from ddptui.page import pages
from ddptui.page.pages import page, table_view
from ddptui.text.tables import Filled
from tests.support.builders import failure, journal, preset_of, results_for, two_trials
from tests.unit.page.pages import Found, Told, a_run
from tests.unit.report.edited import edited

NAMES = Filled("trial", ["a", "b", "c"], left=True, key="trial")
TIMES = Filled("train s", ["10.0", "9.0", "failed"], key="train")


def test_columns_that_say_the_same_in_all_rows_or_nothing_are_left_out() -> None:
    same = Filled("ranks", ["2", "2", "2"], key="ranks")
    view = table_view("All", [NAMES, same, TIMES], once=["ranks"])
    assert (view.shared, view.columns) == ([same], [NAMES, TIMES])
    assert len(table_view("All", [NAMES, same, TIMES]).columns) == 3
    view = table_view("All", [NAMES, Filled("strategy", ["a", "b", "c"]), Filled("fault", ["–"] * 3), TIMES])
    assert view.columns == [NAMES, TIMES]


def test_a_row_says_what_it_is_and_a_header_how_it_sorts() -> None:
    preset = two_trials(repeats=1)
    whole = page(Told(journal()), preset, results_for(preset, journal("a", step_ms=200), failure("b")))
    [rows] = re.findall(r"<tbody>(.*?)</tbody>", whole, re.DOTALL)[:1]
    assert re.findall(r'<tr class="(.*?)">', rows) == ["baseline", "failed"]
    assert re.findall(r'data-ascending="(.*?)" data-descending="(.*?)"><button type="button">trial<', whole) == [
        ("0 1", "1 0")
    ]


def test_of_one_row_what_was_set_is_said_above_and_nothing_is_sorted() -> None:
    preset = preset_of({"title": "One?", "repeats": 1, "trial": [{"name": "a"}]})
    [first, *_] = page(Told(journal()), preset, results_for(preset, journal("a"))).split("</section>")
    assert "The trial: launch" in Found(first).text
    assert '<table class="plain">' in first
    assert "data-ascending" not in first


def test_a_lessons_page_has_its_questions_with_cells_and_answers() -> None:
    preset = two_trials(repeats=1, question=[{"text": "Slower?", "columns": ["step"]}, {"text": "Why?"}])
    told = Told(journal())
    told.answers = lambda _: ["<b>, by far", ""]  # type: ignore[method-assign]
    whole = page(told, preset, results_for(preset, journal("a", step_ms=30), journal("b", step_ms=70)))
    section = whole[whole.index(">Questions</h2>") :].split("</section>")[0]
    assert all(words in section for words in ("<h3>1. Slower?</h3>", "70.00"))
    assert re.findall("<blockquote>(.*?)</blockquote>", section) == ["&lt;b&gt;, by far", "Not answered yet."]


HEADING, HOST = "Where in the code", "here"


def test_each_trial_with_places_has_a_table_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    run, preset, results = a_run()
    assert HEADING not in Found(pages.page(run, preset, results)).text
    asked = []

    def source(file: str, line: int, host: str, started: str, is_lab: bool) -> str:
        asked.append((file, line, host, started, is_lab))
        return f"x = {line} < <b>\x1b[31m"

    monkeypatch.setattr(pages, "source_line", source)
    place = PlaceTime(
        phase="data", place="augment, a.py", by="", file="a.py", line=0, last=0, ms={0: 0.0, 1: 2.5}
    )  # fmt: skip
    places = [msgspec.structs.replace(place, place=f"augment, a.py:{n}", line=n, last=n) for n in range(1, 31)]
    environment = {"started": "2026-01-01T00:00:00+00:00"}
    told = edited(results, repeat=lambda trial, _: {"places": places} if trial.name == "b" else {})
    changed = msgspec.structs.replace(told, environment=environment)
    page = pages.page(run, preset, changed)
    text = Found(page).text
    assert text.count("Where in the code the ranks of") == 1
    assert "augment, a.py:20" in text
    assert "augment, a.py:21" not in text
    assert "x = 1 < <b>\\x1b[31m" in text
    assert "<b>" not in page.partition("augment, a.py:1")[2].partition("</tr>")[0]
    assert asked[0] == ("a.py", 1, HOST, environment["started"], True)

"""The table of places in the code, in the panel of each trial."""

import msgspec
import pytest

from ddptui.analysis.results import PlaceTime
from ddptui.page import pages
from tests.unit.page.pages import Found, a_run

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
    first, last = results.trials
    repeats = [msgspec.structs.replace(last.repeats[0], places=places)]
    environment = {"started": "2026-01-01T00:00:00+00:00"}
    changed = msgspec.structs.replace(
        results, environment=environment, trials=[first, msgspec.structs.replace(last, repeats=repeats)]
    )
    page = pages.page(run, preset, changed)
    text = Found(page).text
    assert text.count("Where in the code the ranks of") == 1
    assert "augment, a.py:20" in text
    assert "augment, a.py:21" not in text
    assert "x = 1 < <b>\\x1b[31m" in text
    assert "<b>" not in page.partition("augment, a.py:1")[2].partition("</tr>")[0]
    assert asked[0] == ("a.py", 1, HOST, environment["started"], True)

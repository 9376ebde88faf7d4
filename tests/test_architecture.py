"""The house keeps its rules (tests/support/house.py), and each rule has been seen to fail."""

from pathlib import Path

import pytest

from tests.support.house import violations
from tests.support.lines import by_room, code_lines, over_budget

REPO = Path(__file__).parents[1]

# Code lines of each room. They go down, or the commit that raises one says what a user gets for it.
BUDGETS = {
    "text": 460,
    "config": 1462,
    "wire": 551,
    "host": 1011,
    "analysis": 2930,
    "findings": 2488,
    "diagnosis": 1179,
    "live": 775,
    "report": 1733,
    "store": 812,
    "engines": 2311,
    "run": 1204,
    "doctor": 442,
    "projection": 487,
    "page": 517,
    "tui": 3696,
    "cli": 809,
    "workers": 6962,
    "templates": 639,
}
MOST_PICTURES, MOST_PICTURE_BYTES = 24, 2_000_000


def test_the_house_keeps_its_rules() -> None:
    assert violations(REPO) == []


def test_no_room_outgrows_its_budget() -> None:
    assert over_budget(by_room(REPO), BUDGETS) == []


def test_a_room_beyond_its_budget_is_named(tmp_path: Path) -> None:
    (tmp_path / "ddptui" / "text").mkdir(parents=True)
    (tmp_path / "ddptui" / "text" / "words.py").write_text("a = 1\n" * 30)
    rooms = by_room(tmp_path)
    assert over_budget(rooms, {"text": 29}) == ["text: 30 code lines, 1 over its budget"]
    assert over_budget(rooms, {"text": 60}) == ["text: 30 code lines: lower its budget of 60"]
    assert over_budget(rooms, {}) == ["text: 30 code lines, and no budget"]
    assert over_budget(rooms, {"text": 30}) == []


def test_neither_prose_nor_imports_are_code_lines() -> None:
    source = '"""What.\n\nMore.\n"""\n\nimport a\nfrom b import (\n    c,\n)\n\n\ndef f():  # why\n    """It."""\n'
    assert code_lines(source) == 1
    assert code_lines(source + "    # so\n    return c(\n        a\n    )\n") == 4


def test_pictures_are_few_and_small() -> None:
    pictures = [*(REPO / "tests/tui/__snapshots__").rglob("*.*")]
    assert len(pictures) <= MOST_PICTURES
    assert sum(picture.stat().st_size for picture in pictures) <= MOST_PICTURE_BYTES


BROKEN = {
    "an import that points up": (
        {"ddptui/wire/a.py": "from ddptui.engines.b import x", "ddptui/engines/b.py": "x = 1"},
        "ddptui.wire.a imports ddptui.engines.b: imports point down only",
    ),
    "an import of a room beside it": (
        {"ddptui/live/a.py": "from ddptui.report import b", "ddptui/report/b.py": ""},
        "ddptui.live.a imports ddptui.report.b: imports point down only",
    ),
    "an import of the training loop by the instruments": (
        {"workers/instruments/a.py": "from workers.train import x", "workers/train.py": "x = 1"},
        "workers.instruments.a imports workers.train: imports point down only",
    ),
    "a circle": (
        {"ddptui/tui/a.py": "from ddptui.tui import b", "ddptui/tui/b.py": "def f():\n    from ddptui.tui.a import x"},
        "a circle: ddptui.tui.a <- ddptui.tui.b <- ddptui.tui.a",
    ),
    "a file in a pure room": (
        {"ddptui/report/a.py": "from pathlib import Path"},
        "ddptui.report.a imports pathlib: report is pure",
    ),
    "a clock in a pure room": (
        {"ddptui/analysis/a.py": "from datetime import date\n\nx = date.today()"},
        "ddptui.analysis.a calls today: analysis is pure",
    ),
    "impure through another room": (
        {"ddptui/live/a.py": "from ddptui.host.b import x", "ddptui/host/b.py": "x = 1"},
        "ddptui.live.a imports ddptui.host.b: live is pure, host is not",
    ),
    "torch in the console": (
        {"ddptui/host/a.py": "def f():\n    import torch"},
        "ddptui.host.a imports torch: a crash in native code would take the terminal with it",
    ),
    "arrays where nothing is judged": (
        {"ddptui/tui/a.py": "import numpy as np"},
        "ddptui.tui.a imports numpy: only judging a run takes arrays",
    ),
    "workers in the console": (
        {"ddptui/run/a.py": "from workers.b import x", "workers/b.py": "x = 1"},
        "ddptui.run.a imports workers, which import torch",
    ),
    "textual outside tui": (
        {"ddptui/run/a.py": "from textual.app import App"},
        "ddptui.run.a imports textual: only ddptui/tui does",
    ),
    "the console's engines in a rank": (
        {"workers/rank/a.py": "from ddptui.engines.b import x", "ddptui/engines/b.py": "x = 1"},
        "workers.rank.a imports ddptui.engines.b: workers share config, host, text, wire only",
    ),
    "a private name": (
        {"ddptui/text/a.py": "from ddptui.text.b import _x", "ddptui/text/b.py": "_x = 1"},
        "ddptui.text.a imports ddptui.text.b._x: what begins with _ is private",
    ),
    "a file outside the rooms": ({"ddptui/helpers.py": ""}, "ddptui.helpers stands in no room"),
}


@pytest.mark.parametrize(("files", "violation"), BROKEN.values(), ids=BROKEN.keys())
def test_a_broken_rule_is_named(files: dict[str, str], violation: str, tmp_path: Path) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert violation in violations(tmp_path)

"""A table of where each rank's time went, in a training that is watched."""

import re

from ddptui.analysis.results import Results
from ddptui.config.preset import Preset
from ddptui.report.table import markdown, text
from ddptui.store.outcomes import results_of
from ddptui.store.runs import Run
from tests.recorded.net import RUNS

WIDTH = 80


def read(run: str) -> tuple[Results, Preset]:
    preset = Run(RUNS / run).preset()
    return results_of(Run(RUNS / run), preset), preset


def test_each_ranks_parts_make_its_train_time() -> None:
    results, preset = read("watched")
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


def test_the_labs_own_trials_have_columns_for_that() -> None:
    results, preset = read("quickstart")
    assert not re.search("Each rank's time", text(results, preset, WIDTH))

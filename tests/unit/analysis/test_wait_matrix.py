"""Who waited for whom, rank by rank and in blocks of ranks."""

import pytest

from ddptui.analysis.breakdown import wait_matrix
from ddptui.analysis.results import Results
from ddptui.wire.records import Message
from tests.support.builders import journal, preset_of, results_for
from tests.support.launches import late_launch
from tests.support.traces import gather_scatter
from tests.unit.report.edited import edited


def results_of(messages: list[Message]) -> Results:
    return results_for(preset_of({"trial": [{"name": "a"}]}), messages)


def test_under_gather_scatter_the_others_wait_for_rank_0_and_rank_0_for_the_late_rank() -> None:
    matrix = wait_matrix(results_of(late_launch(ms=20.0, rank=2, ranks=3, shape=gather_scatter)).base)
    waited = matrix.waited_s
    assert waited[0][2] == pytest.approx(40 * 0.02, rel=0.1)
    assert waited[1][0] == pytest.approx(40 * 0.02, rel=0.1)
    assert waited[1][2] == 0.0
    assert matrix.most_s == max(waited[0][2], waited[1][0])


def test_many_ranks_are_shown_in_blocks_whose_sums_are_the_same() -> None:
    trial = results_of(late_launch(ms=5.0, rank=3, ranks=10, steps=20)).base
    whole, blocks = wait_matrix(trial), wait_matrix(trial, most=4)
    assert blocks.ranks == (range(3), range(3, 6), range(6, 9), range(9, 10))
    assert sum(map(sum, blocks.waited_s)) == pytest.approx(sum(map(sum, whole.waited_s)))
    assert blocks.waited_s[0][1] == pytest.approx(sum(sum(row[3:6]) for row in whole.waited_s[:3]))


def test_there_is_none_of_one_rank_nor_of_waits_that_clocks_hide() -> None:
    assert wait_matrix(results_of(journal(ranks=1)).base) is None
    hidden = edited(results_of(late_launch(ms=5.0)), rank=lambda *_: {"wait_s": None})
    assert wait_matrix(hidden.base) is None

"""What the ranks told of primitives, put together: each figure worked out by hand here."""

import pytest
from msgspec.structs import replace

from ddptui.analysis.primitive_results import NcclUse, PrimitivesLog, cell_of
from ddptui.config.catalog import OPERATIONS
from ddptui.findings.repeat import outcome_of_messages
from ddptui.wire.messages import Nccl, Ready
from tests.support.builders import done, ended, hello, launched, preset_of, ready, results_for, shown, timed

MEASURE = preset_of({"kind": "primitives", "trial": [{"name": "a", "primitives": "measure"}]})


def test_where_nothing_moves_there_is_no_bandwidth() -> None:
    found = cell_of([timed(rank, operation="barrier", bytes=0) for rank in (0, 1)])
    assert (found.algbw_gb_s, found.busbw_gb_s) == (None, None)
    assert not OPERATIONS["barrier"].has_bytes


def test_what_is_wrong_on_any_rank_is_wrong_and_a_refusal_is_in_the_backends_words() -> None:
    assert cell_of([timed(0, wrong=2), timed(1, wrong=3)]).wrong == 5
    refused = cell_of([timed(0, us=(), error="not supported"), timed(1, us=(), error="not supported")])
    assert (refused.time_us, refused.calls, refused.error) == (None, 0, "not supported")
    without_part = cell_of([timed(0, us=(10, 30)), timed(1, us=(20, 40)), timed(2, us=())])
    assert (without_part.calls, without_part.time_us.mean) == (2, 25)


def test_of_calls_in_flight_together_each_counts_and_their_cadence_is_kept() -> None:
    heard = PrimitivesLog()
    for rank in (0, 1):
        heard.add(timed(rank, us=(10, 20, 30), cadence="pipelined", in_flight=8))
    found = heard.result(hello(0))
    assert found.cadence == "pipelined"
    assert [(cell.calls, cell.in_flight, cell.time_us and cell.time_us.median) for cell in found.cells] == [(24, 8, 20)]
    assert cell_of([timed(0)]).in_flight == 1


def test_only_what_all_ranks_have_told_of_is_there() -> None:
    heard = PrimitivesLog()
    for message in (timed(0, 0), timed(1, 0), timed(0, 1), shown(0, 2), timed(1, 2)):
        heard.add(message)
    found = heard.result(hello(0))
    assert (len(found.cells), len(found.views)) == (1, 0)


@pytest.mark.parametrize(
    "words", [{"operation": "nothing"}, {"reduce_op": "most"}, {"place": 10**6}, {"cadence": "at once"}]
)
def test_what_nobody_would_say_is_not_kept(words: dict[str, object]) -> None:
    heard = PrimitivesLog()
    heard.add(timed(**words))  # type: ignore[arg-type]
    assert heard.places == {}


@pytest.mark.parametrize("status", ["failed", "interrupted", "skipped"])
def test_what_was_measured_before_a_launch_ended_too_soon_is_kept(status: str) -> None:
    told = [launched(), hello(0), hello(1), ready(0), ready(1), timed(0), timed(1), timed(0, 1), ended(status)]
    found = outcome_of_messages(told)
    assert (found.status, len(found.primitives.cells), found.primitives.took_s) == (status, 1, None)
    [trial] = results_for(MEASURE, told).trials
    assert trial.status != "ok"
    assert len(trial.primitives[0].cells) == 1


def test_a_launch_that_ended_well_is_ok_and_tells_the_nccl_of_its_ranks() -> None:
    over_gloo = [message(rank) for message in (hello, ready, timed, done) for rank in (0, 1)]
    nccl = Nccl("2.28.9", "ProcessGroupNCCL")
    over_nccl = [replace(each, nccl=nccl) if isinstance(each, Ready) else each for each in over_gloo]
    expected = NcclUse(version=nccl.version, implementation=nccl.implementation)
    for told, use in ((over_gloo, None), (over_nccl, expected)):
        [trial] = results_for(MEASURE, [launched(), *told, ended()]).trials
        assert (trial.status, trial.repeats, len(trial.primitives)) == ("ok", [], 1)
        assert trial.primitives[0].nccl == use

"""A projection as text, Markdown and JSON, from figures made by hand."""

import json
from typing import Any

import pytest
from msgspec.structs import replace

from ddptui.page.pages import projection_page
from ddptui.projection import NetworkUsed, Point, Projection
from ddptui.projection.model import Costs, MeasuredTrial, Work
from ddptui.projection.report import FORMATS, findings, in_full, markdown, notes, side_by_side, text

RANKS = (2, 4, 8, 16)
NETWORK = Costs(alpha=2e-6, beta=1e-10, source="two's transfers", ranks=2, worst=0.12, remedy="measure it", cores=2)
MEASURED = [[[Work(1.0, 0.0, 0.0, 0.0)] * 400] * 2]
TRIAL = MeasuredTrial("flat", 2, MEASURED, [], tensors=1, bytes=1, itemsize=4, batch_size=128)


def point(ranks: int, wait: float, exposed: float, *, strategy: str = "flat", measured: float | None = None) -> Point:
    step = 10 + wait + exposed
    return Point(
        strategy=strategy,
        ranks=ranks,
        step_ms=step,
        work_ms=10,
        wait_ms=wait,
        transfer_ms=exposed,
        exposed_ms=exposed,
        efficiency=10 / step,
        measured_ms=measured,
        error=step / measured - 1 if measured else None,
    )


OWN = [point(ranks, ranks, 1, measured=20.0 if ranks in (2, 8) else None) for ranks in RANKS]
RING = [point(ranks, ranks, 2 * ranks, strategy="ring", measured=15.0 if ranks == 2 else None) for ranks in RANKS]


def projected(points: list[Point]) -> Projection:
    return Projection(
        run="run",
        trial="two",
        strategy="flat",
        measured_ranks=2,
        scaling="weak",
        cores=2,
        network=NetworkUsed(source="two's transfers", alpha_us=2.0, gb_s=10.0, worst=0.12),
        points=points,
        said=findings(points, 2, NETWORK),
        notes=notes(NETWORK, TRIAL, 16, False),
    )


def test_the_text() -> None:
    assert text(projected([*OWN, *RING]), 80) == (
        """\
two of run, measured on 2 ranks, projected: weak scaling

Predicted and measured step: flat on 8 ranks 19.0 ms against 20.0 ms (-5.0%);
ring on 2 ranks 16.0 ms against 15.0 ms (+6.7%). On 16 ranks a step loses 16.0
ms waiting for the slowest and 1.00 ms in exposed communication: efficiency is
37.0%. Fastest there: flat, 27.0 ms a step.

flat
ranks  step ms  work  wait  transfer  exposed  efficiency  measured   error
    2     13.0  10.0  2.00      1.00     1.00       76.9%      20.0  -35.0%
    4     15.0  10.0  4.00      1.00     1.00       66.7%         –       –
    8     19.0  10.0  8.00      1.00     1.00       52.6%      20.0   -5.0%
   16     27.0  10.0  16.0      1.00     1.00       37.0%         –       –

ring
ranks  step ms  work  wait  transfer  exposed  efficiency  measured  error
    2     16.0  10.0  2.00      4.00     4.00       62.5%      15.0  +6.7%
    4     22.0  10.0  4.00      8.00     8.00       45.5%         –      –
    8     34.0  10.0  8.00      16.0     16.0       29.4%         –      –
   16     58.0  10.0  16.0      32.0     32.0       17.2%         –      –

step ms by strategy and ranks
         2     4     8    16
flat  13.0  15.0  19.0  27.0
ring  16.0  22.0  34.0  58.0

weak scaling: each rank keeps its batch, and works as long as a measured rank
network: two's transfers: latency 2.00 µs, 10.0 GB/s (worst error of the fit 12%)
all ranks share 2 cores: only computing and copying take longer there
assumed: ranks are slow at random and independently, as in the measured steps
"""
    )


def test_in_little_space_columns_go_and_the_most_ranks_stay() -> None:
    narrow = text(projected([*OWN, *RING]), 24).splitlines()
    at = narrow.index("step ms by strategy and ranks")
    assert narrow[at + 1].split() == ["4", "16"]
    assert "step ms" in narrow[narrow.index("flat") + 1]
    assert "by strategy" not in text(projected(OWN), 80)
    third = [point(ranks, ranks, 3, strategy="ddp") for ranks in RANKS]
    assert text(projected([*OWN, *RING, *third]), 80).count("exposed  efficiency") == 1  # of three, one is in full


def test_markdown_and_json_have_all_points_and_the_page_a_curve_and_a_table_a_strategy() -> None:
    found = projected([*OWN, *RING])
    assert markdown(found).startswith("## two of run, measured on 2 ranks")
    assert markdown(found).count("\n| ") == 1 + 8 + 1
    assert "\n- network: two's transfers" in markdown(found)
    printed = json.loads(FORMATS["json"](found))
    assert printed["points"][2] == {
        "strategy": "flat", "ranks": 8, "step_ms": 19.0, "work_ms": 10.0, "wait_ms": 8.0, "transfer_ms": 1.0,
        "exposed_ms": 1.0, "efficiency": 10 / 19, "measured_ms": 20.0, "error": -0.050000000000000044,
        "disturbed": None,
    }  # fmt: skip
    assert printed["network"] == {"source": "two's transfers", "alpha_us": 2.0, "gb_s": 10.0, "worst": 0.12}


@pytest.mark.usefixtures("in_chinese")
def test_the_page_has_a_chart_of_each_strategy_and_says_that_it_is_english_whatever_language_is_chosen() -> None:
    page = projection_page(projected([*OWN, *RING]))
    assert '<html lang="en">' in page
    assert page.count("<section") == 3
    assert page.count("Step time over ranks") == 4
    assert "circles show measured ones" in page


def test_several_fastest_strategies_are_named_and_a_disturbed_measurement_marked() -> None:
    near = [point(ranks, ranks, 1.5, strategy="ddp") for ranks in RANKS]
    assert findings([*OWN, *near, *RING], 2, NETWORK)[-1] == "fastest there: flat and ddp (within 10%), 27.0 ms a step"
    assert len(findings(OWN, 2, NETWORK)) == 2
    disturbed = replace(point(8, 8, 1, measured=20.0), disturbed=True)
    assert findings([*OWN[:2], disturbed], 2, NETWORK)[0].endswith("against 20.0 ms (-5.0%, disturbed)")


OFF_BY = "do not rely on these predictions: the fit of the network is off by up to"


@pytest.mark.parametrize(
    ("network", "doubt", "costs"),
    [
        ({"worst": 0.8}, f"{OFF_BY} 80%", "latency 2.00 µs, 10.0 GB/s"),
        (
            {"beta": 0.0, "unknown": "bandwidth"},
            "the bandwidth does not follow from these transfers",
            "latency 2.00 µs, bandwidth unknown",
        ),
        (
            {"alpha": 0.0, "unknown": "latency", "worst": 12.0},
            f"the latency does not follow from these transfers; {OFF_BY} 1,200%",
            "latency unknown, 10.0 GB/s",
        ),
    ],
)
def test_predictions_with_a_network_hardly_known_are_doubted(network: dict[str, Any], doubt: str, costs: str) -> None:
    known = NETWORK._replace(**network)
    doubts, *others = findings([*OWN, *RING], 2, known)
    assert doubts == f"{doubt}; measure it"
    assert not any("fastest" in words for words in others)
    assert notes(known, TRIAL, 16, False)[1].startswith(f"network: two's transfers: {costs} (worst error of the fit ")


def test_very_small_and_large_figures() -> None:
    tiny, large = point(2, 1e-12, 0), point(4096, 0, 2e6)
    assert findings([tiny], 2, NETWORK) == ["on 2 ranks efficiency is 100.0%"]
    assert findings([large], 2, NETWORK) == [
        "on 4,096 ranks a step loses 33 min in exposed communication: efficiency is < 0.1%"
    ]
    cells = {column.header: column.cells for column in in_full([tiny, large]).columns}
    assert (cells["ranks"], cells["step ms"]) == (["2", "4,096"], ["10.0", "2,000,010"])
    assert (cells["wait"], cells["efficiency"]) == (["< 0.001", "0"], ["100.0%", "< 0.1%"])
    assert side_by_side([tiny, large], 80).columns[2].header == "4,096"


def test_what_is_assumed() -> None:
    strong = notes(NETWORK._replace(cores=None), TRIAL, 4096, True)
    assert strong[0] == (
        "strong scaling: data, forward and backward shrink by 2 / ranks; the rest of the work stays; "
        "past 128 ranks there is less than a sample for each"
    )
    assert strong[2] == "every rank has the cores and the network of a measured rank"
    assert strong[3].endswith(
        "4,096 ranks are more than the 400 measured steps, so they may wait longer than predicted"
    )

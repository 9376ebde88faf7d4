"""Each pane of a recorded run as a picture alone: well-formed, with title, figures, marks and source."""

from xml.etree import ElementTree

import pytest

from ddptui.page.formats import PictureError, picture
from ddptui.store.overview import results_of
from ddptui.store.runs import Run
from tests.recorded.net import RUNS

SVG = "{http://www.w3.org/2000/svg}"
ROUGH = "⚠ disturbed, so inexact"


def texts(run: str, pane: str, trial: str = "") -> list[str]:
    """The texts of a picture, in the order in which they stand there."""
    recorded = Run(RUNS / run)
    preset = recorded.preset()
    root = ElementTree.fromstring(picture(recorded, preset, results_of(recorded, preset), pane, trial))
    assert root.findtext(f"{SVG}title") == preset.title
    return [text.text or "" for text in root.iter(f"{SVG}text")]


@pytest.mark.parametrize(
    ("pane", "figures"),
    [
        ("times", ["all_reduce, baseline", "1.47 s ⚠  × 1.00 ⚠", "2.17 s ⚠  × 1.48 ⚠", "waiting"]),
        ("differences", ["reduce_broadcast", "+0.15 s ⚠", "ring", "+0.70 s ⚠", "transfer"]),
        ("curves", ["loss", "2.20", "step", "ring: 2.175"]),
        ("matrix", ["for rank", "51.2 ms", "667 ms", "126 ms", "652 ms", "96.5 ms", "25.7 ms"]),
        ("arrivals", ["rank 2", "last in 27 of 27", "injected delays"]),
        ("timeline", ["rank", "step 8", "ms", "delay", "Step 15, the longest wait, with its neighbors.", "step 15"]),
    ],
)  # fmt: skip
def test_a_pane_has_its_title_figures_marks_and_source(pane: str, figures: list[str]) -> None:
    title, finding, *others = texts("who-waits", pane)
    assert title == "Who waits for whom?"
    of_trial = pane in ("matrix", "arrivals", "timeline")
    assert finding.startswith(
        "reduce_broadcast: rank 2 is late, in backward" if of_trial else "The others wait for rank 2"
    )
    missing = iter(others)
    assert [figure for figure in figures if figure not in missing] == []  # all, in this order
    *_, caveat, source = others
    assert caveat == ROUGH
    assert source == "Run who-waits · 2026-11-27 18:59 · ok: 4 trials, 1 repeat each · ddptui"


def test_a_trial_can_be_named_and_primitives_have_a_picture_of_their_times_alone() -> None:
    assert texts("who-waits", "matrix", "ring")[1].startswith("ring: rank 2 is late")
    assert texts("who-waits", "matrix", "ring") != texts("who-waits", "matrix", "all_reduce")
    with pytest.raises(PictureError, match="who-waits: no trial 'x'; its trials: all_reduce, reduce_broadcast, "):
        texts("who-waits", "matrix", "x")
    shown = texts("primitives-measure", "times")
    assert [text for text in shown if text.startswith("Time over size on ")] != []
    assert {"64 KB", "1 ms", "all_reduce"} <= set(shown)
    with pytest.raises(PictureError, match="primitives has one of its times"):
        texts("primitives-measure", "matrix")


@pytest.mark.parametrize(
    ("run", "pane", "why"),
    [
        ("faults", "differences", "only the baseline has figures"),
        ("primitives-see", "times", "a run of primitives has one of its times, if"),
    ],
)
def test_a_run_with_nothing_to_draw_says_why(run: str, pane: str, why: str) -> None:
    with pytest.raises(PictureError, match=f"{run}: no picture of {pane}: {why}"):
        texts(run, pane)

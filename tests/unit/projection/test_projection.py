"""A measured trial on more ranks: what is foretold of a small world in which all is known, and what is refused."""

import csv
import io
import json
from collections.abc import Sequence
from functools import cache
from math import log
from pathlib import Path

import pytest
from msgspec.structs import replace

from ddptui.analysis.primitives.results import Cell, PrimitivesResult, TimeUs
from ddptui.projection import Point, Projection, ProjectionError
from ddptui.projection.command import ProjectOptions, projection, run
from ddptui.projection.report import markdown, text
from ddptui.store.runs import Run
from ddptui.wire.records import Injection
from tests.support.builders import beside, failure, preset_of, results_for, write_run
from tests.support.projected import ALPHA_NS, BETA_NS, FIXED_MS, TENSORS, made, ring_ns
from tests.support.projected import journal as launch

MS = 1e6  # ns
EULER = 0.5772156649
RANKS = "2,4,64,4096"
FEW = 40  # steps, where the figures do not matter: as many as make a band, and some


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One run: on two ranks, and, with chances of their own, on four."""
    folder = tmp_path_factory.mktemp("runs")
    made(folder, launch("two", 2, seed=1), launch("four", 4, seed=2))
    return folder


@cache
def asked(runs: Path, **question: object) -> Projection:
    """The same question is answered once for all tests."""
    return projection(runs, "last", ProjectOptions(**{"ranks": RANKS, **question}))  # type: ignore[arg-type]


def at(found: Projection, ranks: int, strategy: str = "all_reduce") -> Point:
    return next(point for point in found.points if (point.strategy, point.ranks) == (strategy, ranks))


def transfers_ms(ranks: int) -> float:
    return sum(ring_ns(size, ranks) for size in TENSORS) / MS


def test_from_two_ranks_it_foretells_four(runs: Path) -> None:
    found = asked(runs)
    assert (found.trial, found.strategy, found.measured_ranks) == ("two", "all_reduce", 2)
    two, four = at(found, 2), at(found, 4)
    assert two.error == pytest.approx(0, abs=0.02)
    assert four.error == pytest.approx(0, abs=0.04)
    assert four.measured_ms is not None
    assert four.measured_ms > 1.1 * two.step_ms


def test_its_network_is_the_one_that_there_was(runs: Path) -> None:
    network = asked(runs).network
    assert network.alpha_us == pytest.approx(ALPHA_NS / 1e3, rel=0.01)
    assert network.gb_s == pytest.approx(1 / BETA_NS, rel=0.01)
    assert network.source == "two's transfers"


@pytest.mark.parametrize("ranks", [2, 4, 64, 4096])
def test_work_wait_and_transfer_are_what_they_would_be(runs: Path, ranks: int) -> None:
    found = at(asked(runs), ranks)
    assert found.work_ms == pytest.approx(2 * FIXED_MS, rel=0.05)
    wait = FIXED_MS * (log(ranks) + EULER + 1 / (2 * ranks) - 1)
    assert found.wait_ms == pytest.approx(wait, rel=0.2)
    assert found.transfer_ms == found.exposed_ms == pytest.approx(transfers_ms(ranks), rel=0.02)
    assert found.step_ms == pytest.approx(found.work_ms + found.wait_ms + found.exposed_ms)
    assert found.efficiency == pytest.approx(found.work_ms / found.step_ms)
    assert found.low_ms is not None
    assert found.high_ms is not None
    assert found.low_ms < found.step_ms < found.high_ms


def test_the_band_holds_the_truth_and_is_the_same_again(runs: Path) -> None:
    first, again = asked(runs), projection(runs, "last", ProjectOptions(ranks=RANKS))
    assert first == again
    four = at(first, 4)
    assert four.high_ms is not None
    assert four.low_ms is not None
    assert four.high_ms - four.low_ms < 0.2 * four.step_ms


def test_with_strong_scaling_the_batch_is_shared_out_and_other_trials_count(runs: Path) -> None:
    weak, strong = asked(runs), asked(runs, scaling="strong")
    assert at(strong, 64).work_ms == pytest.approx(at(weak, 64).work_ms / 32, rel=0.01)
    assert at(strong, 2) == at(weak, 2)
    few = at(strong, 64)
    assert few.efficiency == pytest.approx(2 * at(weak, 2).work_ms / (64 * few.step_ms))
    assert at(strong, 4).measured_ms is None  # it had the same batch a rank
    assert any(note.startswith("strong scaling") for note in strong.notes)


def test_on_shared_cores_work_and_transfers_take_turns(runs: Path) -> None:
    alone, shared = asked(runs), asked(runs, cores=2)
    assert at(shared, 2) == at(alone, 2)
    assert at(shared, 4).work_ms == pytest.approx(2 * at(alone, 4).work_ms)  # nothing is slept
    assert at(shared, 4).exposed_ms == pytest.approx(2 * at(alone, 4).exposed_ms)
    assert at(shared, 4).efficiency == pytest.approx(at(alone, 2).work_ms / at(shared, 4).step_ms)


def test_one_rank_waits_for_nobody_and_sends_nothing(runs: Path) -> None:
    one = at(asked(runs, ranks="1,2"), 1)
    assert (one.wait_ms, one.transfer_ms, one.exposed_ms) == (0, 0, 0)
    assert one.step_ms == one.work_ms


def test_few_steps_have_no_band(tmp_path: Path) -> None:
    made(tmp_path, launch("two", 2, seed=1, steps=12), failure("four"))
    found = asked(tmp_path)
    assert {(point.low_ms, point.high_ms) for point in found.points} == {(None, None)}
    assert any(note.startswith("no band: 12 steps") for note in found.notes)
    assert "the band:" not in text(found, 80)
    assert "chance between" not in markdown(found)


def test_more_ranks_than_steps_rest_on_the_tail(runs: Path) -> None:
    assert any("4096 ranks are more than the 400 measured steps" in note for note in asked(runs).notes)
    assert not any("rests on the tail" in note for note in asked(runs, ranks="2..256").notes)


def test_measured_trials_that_shared_a_host_are_said_to(runs: Path, tmp_path: Path) -> None:
    host = made(tmp_path, launch("two", 2, seed=1, steps=FEW), launch("four", 4, seed=2, steps=FEW))
    (host.folder / "environment.json").write_text('{"cores": 3}')
    assert any("shared 3 cores" in note and "--cores 3" in note for note in asked(tmp_path).notes)
    assert not any("shared 3 cores" in note for note in asked(tmp_path, cores=3).notes)
    assert not any("cores, the predictions" in note for note in asked(runs).notes)
    assert not any("shared 3 cores" in note for note in asked(tmp_path, scaling="strong").notes)


def test_a_stated_network_is_another_one_and_that_is_said(runs: Path) -> None:
    found = asked(runs, alpha=2.0, gbps=80.0)
    expected = 2 * 63 * sum(2e-3 + size / 64 / 10e9 * 1e3 for size in TENSORS)
    assert at(found, 64).transfer_ms == pytest.approx(expected)
    assert any("for that network against measured on the run's own" in sentence for sentence in found.said)


def test_a_run_of_primitives_gives_a_network(runs: Path, tmp_path: Path) -> None:
    """In µs: a call 30, a message 50, a thousand bytes 1, and 0.2 to add them."""
    lines = {"all_reduce": (130.0, 1.1e-3), "broadcast": (80.0, 1e-3), "local_sum": (1.0, 0.2e-3)}
    cells = [
        cell(name, size, start + size * slope) for name, (start, slope) in lines.items() for size in (1000, 100_000)
    ]
    primitives = primitives_run(tmp_path, cells)
    found = asked(runs, network=str(primitives.folder), ranks="2")
    assert (found.network.alpha_us, found.network.call_us) == pytest.approx((50, 30))
    assert (found.network.gb_s, found.network.gamma_gb_s) == pytest.approx((1, 5))
    assert found.network.source == f"{primitives.name}, on 2 ranks"
    assert not any("lacks" in note for note in found.notes)
    with pytest.raises(ProjectionError, match="its ranks trained nothing"):
        asked(tmp_path)


def test_a_run_of_primitives_that_lacks_something_is_said_to(runs: Path, tmp_path: Path) -> None:
    primitives = primitives_run(tmp_path, [cell("all_reduce", size, 100.0 + size / 1e3) for size in (1000, 100_000)])
    path = primitives.folder / "results.json"
    path.write_text(path.read_text().replace('"status": "failed"', '"status": "interrupted"', 1))
    notes = asked(runs, network=str(primitives.folder), ranks="2").notes
    assert any("lacks broadcast, local_sum" in note for note in notes)
    assert any("was interrupted" in note for note in notes)


def test_pipelined_calls_are_no_measure_of_a_network(runs: Path, tmp_path: Path) -> None:
    """Their latencies overlap. Where other calls were measured, too, only those count."""
    alone, pipelined = ([cell("all_reduce", size, us) for size in (1000, 100_000)] for us in (100.0, 20.0))
    both = primitives_run(tmp_path / "both", alone, pipelined=pipelined)
    only = primitives_run(tmp_path / "only", alone)
    one, other = (asked(runs, network=str(run.folder), ranks="2") for run in (both, only))
    assert one.network.alpha_us == other.network.alpha_us
    assert any("cadence = back_to_back count, not pipelined" in note for note in one.notes)
    assert not any("cadence" in note for note in other.notes)
    run = primitives_run(tmp_path / "none", [], pipelined=pipelined)
    with pytest.raises(ProjectionError, match=r"its calls were pipelined.*cadence = 'back_to_back'"):
        asked(runs, network=str(run.folder), ranks="2")


def primitives_run(folder: Path, cells: list[Cell], *, pipelined: Sequence[Cell] = ()) -> Run:
    preset = preset_of({"kind": "primitives", "repeats": 1, "trial": [{"name": "p", "primitives": "measure"}]})
    made_of = write_run(folder, preset)
    results = results_for(preset)
    measured = PrimitivesResult(ranks=2, cadence="back_to_back", backend="gloo", cells=cells)
    others = replace(measured, cadence="pipelined", cells=[*pipelined])
    trial = replace(results.trials[0], primitives=[others, measured])
    made_of.write_results(replace(results, trials=[trial]))
    return made_of


def cell(operation: str, size: int, us: float) -> Cell:
    return Cell(
        operation=operation, composite=False, reduce_op=None, bytes=size, calls=9, cv=0.0, algbw_gb_s=None,
        busbw_gb_s=None, wrong=0, time_us=TimeUs(min=us, median=us, mean=us, p90=us, p99=us),
    )  # fmt: skip


def test_a_rank_that_is_always_slower_is_told_apart_from_chance(tmp_path: Path) -> None:
    made(tmp_path, launch("two", 2, seed=1, slower=8.0), launch("four", 4, seed=2))
    found = asked(tmp_path, ranks="2")
    assert at(found, 2).error == pytest.approx(0, abs=0.02)
    assert any(note.startswith("rank 1 worked") and "more than chance" in note for note in found.notes)
    assert not any("more than chance" in note for note in asked(tmp_path, trial="four", ranks="4").notes)


def test_what_launches_differ_by_is_nothing_to_wait_for(runs: Path, tmp_path: Path) -> None:
    """In a second one, all ranks work 20 ms longer in each step: half of that is in a step, and nobody waits for it."""
    second = launch("two", 2, seed=5, repeat=2, longer=20.0)
    made(tmp_path, launch("two", 2, seed=1), second, failure("four"), repeats=2)
    once, twice = at(asked(runs), 64), at(asked(tmp_path, ranks="64"), 64)
    assert twice.work_ms - once.work_ms == pytest.approx(10, abs=0.5)
    assert twice.wait_ms == pytest.approx(once.wait_ms, rel=0.1)


def test_strategies_that_are_asked_for_come_after_its_own(runs: Path) -> None:
    found = asked(runs, strategies=("ring", "flat"))
    assert list(dict.fromkeys(point.strategy for point in found.points)) == ["all_reduce", "ring", "flat"]
    assert at(found, 4096, "flat").step_ms < at(found, 4096).step_ms


def test_the_sentence_that_matters(runs: Path) -> None:
    """α = 100 µs: soon the messages cost more than the slowest."""
    said = asked(runs, ranks="2..4096", strategies=("all_reduce",)).said
    assert said[0].startswith("predicted against measured")
    assert said[1].startswith("past ")
    assert "exposed communication costs more than waiting for the slowest rank" in said[1]
    fast = asked(runs, ranks="2..1024", alpha=0.1, gbps=1000.0, strategies=("all_reduce",)).said
    assert fast[0].startswith("on any number of ranks waiting for the slowest rank costs more")


def test_what_a_projection_rests_on_is_said_before_its_figures(tmp_path: Path) -> None:
    """Of an interrupted run, of disturbed launches, and of a run under way."""
    trials = [{"name": "two"}]
    first = beside(launch("two", 2, seed=1, steps=FEW))
    run = made(tmp_path, first, launch("two", 2, seed=2, repeat=2, steps=FEW), trials=trials, repeats=3)
    interrupted, disturbed, *_ = asked(tmp_path).said
    assert interrupted == "the run was interrupted: the projection rests on 2 of 3 repeats of two"
    assert disturbed == ("do not rely on these figures: other programs disturbed 1 of the 2 repeats that they rest on")
    with run.held():
        said = projection(tmp_path, "last", ProjectOptions(ranks=RANKS)).said
    assert said[0] == "the run is under way: the projection rests on 2 of 3 repeats of two"


def test_a_launch_that_failed_is_missed(tmp_path: Path) -> None:
    made(tmp_path, launch("two", 2, seed=1, steps=FEW), failure("two", 2), trials=[{"name": "two"}], repeats=2)
    assert asked(tmp_path).said[0] == (
        "the projection rests on 1 of 2 repeats of two: the others did not end well, or were changed by hand"
    )


def test_the_formats(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made(tmp_path, launch("two", 2, seed=1, steps=FEW), failure("four"))
    question = ProjectOptions(ranks="2..64")
    printed = {}
    for form in ("table", "markdown", "csv", "json"):
        assert run(tmp_path, "last", question, form) == 0
        printed[form] = capsys.readouterr().out
    assert "× measured" not in printed["csv"]
    assert max(map(len, printed["table"].split("step ms by strategy")[1].split("\n\n")[0].splitlines())) <= 80
    rows = list(csv.DictReader(io.StringIO(printed["csv"])))
    points = json.loads(printed["json"])["points"]
    assert len(rows) == len(points) == 6 * 12
    assert float(rows[0]["step_ms"]) == points[0]["step_ms"]
    assert set(points[0]) >= {"step_ms", "low_ms", "high_ms", "work_ms", "wait_ms", "transfer_ms", "exposed_ms"}
    for form in ("table", "markdown"):
        assert "chance between steps only, without the network's error" in printed[form]
        assert "efficiency: the measured work of a step, over the step" in printed[form]
    assert printed["markdown"].count("\n| ") == 1 + 6 * 12 + 1


@pytest.mark.parametrize(
    ("question", "why"),
    [
        ({"trial": "three"}, "--trial three: not in .*two, four"),
        ({"ranks": "4..2"}, "--ranks 4..2: from 4 down to 2: the smaller"),
        ({"ranks": "many"}, "--ranks many: neither a range"),
        ({"ranks": "0"}, "--ranks 0: must be 1 at least"),
        ({"ranks": "0..4"}, "--ranks 0..4: must be 1 at least"),
        ({"ranks": "2..99999999"}, "--ranks 2..99999999: at most"),
        ({"ranks": "2..4..8"}, "--ranks 2..4..8: neither"),
        ({"alpha": 2.0}, "--gbps is missing"),
        ({"gbps": 2.0}, "--alpha is missing"),
        ({"alpha": -1.0, "gbps": 1.0}, "--alpha -1: must be"),
        ({"alpha": 1.0, "gbps": 0.0}, "--gbps 0: must be"),
        ({"alpha": float("inf"), "gbps": 1.0}, "--alpha inf: must be"),
        ({"alpha": 1.0, "gbps": float("nan")}, "--gbps nan: must be"),
        ({"alpha": 1.0, "gbps": 1.0, "network": "last"}, "leave the one or the others out"),
        ({"network": "last"}, "no primitives were measured in it"),
        ({"network": "nothing"}, "no run 'nothing'"),
        ({"cores": 0}, "--cores 0"),
        ({"strategies": ("all_reduc",)}, "--strategy all_reduc: .*did you mean 'all_reduce'"),
        ({"strategies": ("ddp_powersgd",)}, "--strategy ddp_powersgd: what it sends"),
    ],
)
def test_what_cannot_be_asked_is_said_in_one_line(runs: Path, question: dict[str, object], why: str) -> None:
    with pytest.raises(ProjectionError, match=why) as refusal:
        asked(runs, **question)
    assert len(str(refusal.value).splitlines()) == 1


def test_a_run_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ProjectionError, match="no run 'last'"):
        asked(tmp_path)


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"launch": "single"}, "one rank sends nothing and waits for no other"),
        ({"launch": "dp"}, "threads of one process"),
        ({"world_size": 1}, "one rank sends nothing and waits for no other"),
        ({"instruments": "off"}, "without instruments"),
        ({"every": 2}, "averages in some steps only"),
        ({"strategy": "none"}, "averages nothing"),
        ({"mistake": "group_of_one"}, "made with a mistake .group_of_one"),
        ({"strategy": "ddp_powersgd"}, "depends on the shapes"),
        ({}, "none of its launches ended well with the delays that it began with"),
    ],
)
def test_a_trial_that_says_nothing_of_more_ranks_is_refused(
    tmp_path: Path, fields: dict[str, object], why: str
) -> None:
    write_run(tmp_path, preset_of({"repeats": 1, "trial": [{"name": "a", **fields}]}), failure("a"))
    with pytest.raises(ProjectionError, match=f"a: .*{why}"):
        asked(tmp_path)


def test_if_the_baseline_says_nothing_the_next_trial_does(tmp_path: Path) -> None:
    made(tmp_path, failure("two"), launch("four", 4, seed=2, steps=FEW))
    assert asked(tmp_path).trial == "four"


def test_launches_whose_delays_were_changed_by_hand_are_not_projected(tmp_path: Path) -> None:
    *begun, last = launch("two", 2, seed=1, steps=FEW)
    made(tmp_path, [*begun, Injection(at_ns=0, bottleneck=()), last], launch("four", 4, seed=2, steps=FEW))
    assert asked(tmp_path).trial == "four"


def test_one_size_cannot_be_projected_but_on_a_stated_network(tmp_path: Path) -> None:
    sizes = (1000, 1000)
    made(tmp_path, launch("two", 2, seed=1, sizes=sizes, steps=FEW), launch("four", 4, seed=2, steps=FEW))
    with pytest.raises(ProjectionError, match=r"two's transfers: transfers of one size cannot"):
        asked(tmp_path)
    assert at(asked(tmp_path, alpha=1.0, gbps=1.0), 64).transfer_ms > 0

"""A measured trial on more ranks: what is predicted of a small world in which all is known, and what is refused."""

from functools import cache
from math import log
from pathlib import Path

import pytest
from msgspec.structs import replace

from ddptui.analysis.primitive_results import Cell, PrimitivesResult, TimeUs
from ddptui.projection import Point, Projection, ProjectionError, command
from ddptui.projection.command import ProjectOptions, projection
from ddptui.store.runs import Run
from ddptui.wire.records import Injection
from tests.support.builders import beside, failure, preset_of, results_for, write_run
from tests.support.projected import ALPHA_NS, BETA_NS, FIXED_MS, TENSORS, made, overlapping, ring_ns
from tests.support.projected import journal as launch

MS = 1e6  # ns
EULER = 0.5772156649
RANKS = "2,4,64,4096"
TOGETHER = r"--alpha .µs per message. and --gbps .* go together: one of them is missing"
POSITIVE = "expected finite numbers above 0"
FEW = 40  # steps, where the figures do not matter
BUCKETS = (4_000_000, 1_000_000)  # bytes


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


def test_from_two_ranks_and_the_network_that_there_was_it_predicts_four(runs: Path) -> None:
    found = asked(runs)
    assert (found.trial, found.strategy, found.measured_ranks) == ("two", "all_reduce", 2)
    two, four = at(found, 2), at(found, 4)
    assert two.error == pytest.approx(0, abs=0.02)
    assert four.error == pytest.approx(0, abs=0.04)
    assert four.measured_ms is not None
    assert four.measured_ms > 1.1 * two.step_ms
    network = asked(runs).network
    assert network.alpha_us == pytest.approx(ALPHA_NS / 1e3, rel=0.01)
    assert network.gb_s == pytest.approx(1 / BETA_NS, rel=0.01)
    assert network.source == "two's transfers"


@pytest.mark.parametrize("ranks", [2, 64])
def test_work_wait_and_transfer_are_what_they_would_be(runs: Path, ranks: int) -> None:
    found = at(asked(runs), ranks)
    assert found.work_ms == pytest.approx(2 * FIXED_MS, rel=0.05)
    wait = FIXED_MS * (log(ranks) + EULER + 1 / (2 * ranks) - 1)
    assert found.wait_ms == pytest.approx(wait, rel=0.2)
    assert found.transfer_ms == found.exposed_ms == pytest.approx(transfers_ms(ranks), rel=0.02)
    assert found.step_ms == pytest.approx(found.work_ms + found.wait_ms + found.exposed_ms)
    assert found.efficiency == pytest.approx(found.work_ms / found.step_ms)


def test_with_strong_scaling_the_batch_is_shared_out_and_other_trials_count(runs: Path) -> None:
    weak, strong = asked(runs), asked(runs, scaling="strong")
    assert at(strong, 64).work_ms == pytest.approx(at(weak, 64).work_ms / 32, rel=0.01)
    assert at(strong, 2) == at(weak, 2)
    few = at(strong, 64)
    assert few.efficiency == pytest.approx(2 * at(weak, 2).work_ms / (64 * few.step_ms))
    assert at(strong, 4).measured_ms is None  # it had the same batch a rank
    assert any(note.startswith("strong scaling") for note in strong.notes)


def test_one_rank_waits_for_nobody_and_other_strategies_come_after_its_own(runs: Path) -> None:
    one = at(asked(runs, ranks="1,2"), 1)
    assert (one.wait_ms, one.transfer_ms, one.exposed_ms) == (0, 0, 0)
    assert one.step_ms == one.work_ms
    found = asked(runs, strategies=("ring", "flat"))
    assert list(dict.fromkeys(point.strategy for point in found.points)) == ["all_reduce", "ring", "flat"]
    assert at(found, 4096, "flat").step_ms < at(found, 4096).step_ms


def test_a_stated_network_is_another_one_and_no_trial_stands_beside(runs: Path) -> None:
    found = asked(runs, alpha=2.0, gbps=80.0)
    expected = 2 * 63 * sum(2e-3 + size / 64 / 10e9 * 1e3 for size in TENSORS)
    assert at(found, 64).transfer_ms == pytest.approx(expected)
    assert {point.measured_ms for point in found.points} == {None}
    assert found.network.source == "stated: α 2 µs, 80 Gbit/s"


def test_a_run_of_primitives_gives_a_network(runs: Path, tmp_path: Path) -> None:
    """In µs: a message 50, a thousand bytes 1. Latencies of pipelined calls overlap, so they do not count."""
    lines = {"all_reduce": 100.0, "broadcast": 50.0}
    cells = [cell(name, size, start + size / 1e3) for name, start in lines.items() for size in (1000, 100_000)]
    primitives = primitives_run(tmp_path, back_to_back=cells, pipelined=[cell("all_reduce", 1000, 9.0)])
    found = asked(runs, network=str(primitives.folder), ranks="2,4")
    assert (found.network.alpha_us, found.network.gb_s) == pytest.approx((50, 1))
    assert found.network.source == f"{primitives.name}, on 2 ranks"
    assert at(found, 4).measured_ms is not None
    with pytest.raises(ProjectionError, match="it has no training"):
        asked(tmp_path)


def test_pipelined_calls_or_a_poor_fit_are_no_measure_of_a_network(runs: Path, tmp_path: Path) -> None:
    primitives = primitives_run(tmp_path, pipelined=[cell("all_reduce", size, 20.0) for size in (1000, 100_000)])
    with pytest.raises(ProjectionError, match="it measured no all_reduce, reduce or broadcast, one at a time"):
        asked(runs, network=str(primitives.folder), ranks="2")
    rough = [cell("all_reduce", size, us) for size, us in ((1000, 100.0), (2000, 900.0), (100_000, 300.0))]
    shrinking = [cell("all_reduce", size, us) for size, us in ((1000, 100.0), (100_000, 90.0))]
    far_off, unknown = (
        asked(runs, network=str(primitives_run(tmp_path / name, back_to_back=cells).folder), ranks="2,4")
        for name, cells in (("rough", rough), ("shrinking", shrinking))
    )
    assert far_off.said[0].startswith("do not rely on these predictions: the fit of the network is off by up to ")
    assert far_off.said[0].endswith("; state the network (--alpha, --gbps)")
    assert unknown.said[0] == "the bandwidth does not follow from these transfers; state the network (--alpha, --gbps)"
    assert unknown.network.gb_s is None
    assert not any(words.startswith("fastest") for found in (far_off, unknown) for words in found.said)


def primitives_run(folder: Path, **by_cadence: list[Cell]) -> Run:
    preset = preset_of({"kind": "primitives", "repeats": 1, "trial": [{"name": "p", "primitives": "measure"}]})
    written, results = write_run(folder, preset), results_for(preset)
    measured = [
        PrimitivesResult(ranks=2, cadence=cadence, backend="gloo", cells=cells)  # type: ignore[arg-type]
        for cadence, cells in by_cadence.items()
    ]
    written.write_results(replace(results, trials=[replace(results.trials[0], primitives=measured)]))
    return written


def cell(operation: str, size: int, us: float) -> Cell:
    return Cell(
        operation=operation, composite=False, reduce_op=None, bytes=size, calls=9, cv=0.0, algbw_gb_s=None,
        busbw_gb_s=None, wrong=0, time_us=TimeUs(min=us, median=us, mean=us, p90=us, p99=us),
    )  # fmt: skip


def test_with_overlap_more_ranks_hide_as_large_a_part_while_backward_lasts(tmp_path: Path) -> None:
    made(
        tmp_path,
        launch("two", 2, seed=3, sizes=BUCKETS, shape=overlapping),
        trials=[{"name": "two", "strategy": "ddp"}],
    )
    found = asked(tmp_path)
    two, four, many = (at(found, ranks, "ddp") for ranks in (2, 4, 64))
    assert two.transfer_ms == pytest.approx(sum(ring_ns(size, 2) for size in BUCKETS) / MS, rel=0.01)
    assert two.exposed_ms < 0.9 * two.transfer_ms
    assert two.error == pytest.approx(0, abs=0.1)
    assert four.exposed_ms / four.transfer_ms == pytest.approx(two.exposed_ms / two.transfer_ms)
    assert many.transfer_ms - many.exposed_ms == pytest.approx(0.6 * two.work_ms, rel=0.01)  # all of backward


def test_transfers_of_one_size_are_told_apart_by_other_trials_on_as_many_ranks(tmp_path: Path) -> None:
    flat, mistaken = {"name": "flat", "strategy": "flat"}, {"name": "alone", "mistake": "group_of_one"}
    one_size = [launch(name, 2, seed=1, sizes=(1000,), steps=FEW) for name in ("flat", "alone")]
    made(tmp_path / "alone", *one_size, trials=[flat, mistaken])
    with pytest.raises(ProjectionError, match=r"flat's transfers: .*one size cannot .*: measure the network"):
        asked(tmp_path / "alone")
    assert at(asked(tmp_path / "alone", alpha=1.0, gbps=1.0), 64, "flat").transfer_ms > 0
    made(tmp_path / "beside", *one_size, launch("two", 2, seed=2, steps=FEW), trials=[flat, mistaken, {"name": "two"}])
    assert asked(tmp_path / "beside").network.alpha_us == pytest.approx(ALPHA_NS / 1e3, rel=0.01)


REST = "the others are not over, did not end well, or were changed by hand"


def test_what_a_projection_rests_on_comes_before_its_figures(tmp_path: Path) -> None:
    journals = [beside(launch("two", 2, seed=1, steps=FEW)), launch("two", 2, seed=2, repeat=2, steps=FEW)]
    made(tmp_path, *journals, trials=[{"name": "two"}], repeats=3)
    interrupted, disturbed, *_ = asked(tmp_path).said
    assert interrupted == f"the projection rests on 2 of 3 repeats of two: {REST}"
    assert disturbed == "do not rely on these figures: other programs disturbed 1 of 2 repeats"


def test_a_measured_trial_that_was_disturbed_is_marked(tmp_path: Path) -> None:
    made(tmp_path, launch("two", 2, seed=1, steps=FEW), beside(launch("four", 4, seed=2, steps=FEW)))
    found = asked(tmp_path)
    assert (at(found, 2).disturbed, at(found, 4).disturbed, at(found, 64).disturbed) == (False, True, None)
    assert any(words.startswith("predicted and measured step") and "%, disturbed)" in words for words in found.said)
    assert not any("do not rely" in words for words in found.said)


@pytest.mark.parametrize(
    ("form", "begins", "holds"), [("table", "two of ", "\nranks  step ms "), ("json", "{\n", '"measured_ranks": 2,')]
)
def test_each_format_is_printed(
    runs: Path, capsys: pytest.CaptureFixture[str], form: str, begins: str, holds: str
) -> None:
    assert command.run(runs, "last", ProjectOptions(ranks="2,4"), form) == 0
    printed = capsys.readouterr().out
    assert printed.startswith(begins)
    assert holds in printed
    assert printed.endswith("}\n" if form == "json" else "measured steps\n")


def test_launches_that_failed_or_were_changed_by_hand_are_missed(tmp_path: Path) -> None:
    made(tmp_path, launch("two", 2, seed=1, steps=FEW), failure("two", 2), trials=[{"name": "two"}], repeats=2)
    assert asked(tmp_path).said[0] == f"the projection rests on 1 of 2 repeats of two: {REST}"
    *begun, last = launch("two", 2, seed=1, steps=FEW)
    made(tmp_path / "changed", [*begun, Injection(at_ns=0, bottleneck=()), last], launch("four", 4, seed=2, steps=FEW))
    assert asked(tmp_path / "changed").trial == "four"


@pytest.mark.parametrize(
    ("question", "why"),
    [
        ({"trial": "three"}, "--trial three: not in .*two, four"),
        ({"ranks": "many"}, "--ranks many: neither a range"),
        ({"ranks": "0..4"}, "--ranks 0..4: expected numbers from 1 to"),
        ({"ranks": "2..99999999"}, "--ranks 2..99999999: expected numbers from 1 to 1,048,576"),
        ({"alpha": 2.0}, TOGETHER),
        ({"alpha": 1.0, "gbps": 0.0}, f"--alpha 1 --gbps 0: {POSITIVE}"),
        ({"alpha": 1.0, "gbps": float("nan")}, POSITIVE),
        ({"alpha": 1.0, "gbps": 1.0, "network": "last"}, "cannot be combined with --alpha and --gbps"),
        ({"network": "last"}, "it measured no all_reduce, reduce or broadcast"),
        ({"network": "nothing"}, "no run 'nothing'"),
        ({"strategies": ("all_reduc",)}, "--strategy all_reduc: .*did you mean 'all_reduce'"),
        ({"strategies": ("ddp_powersgd",)}, "--strategy ddp_powersgd: what it sends"),
    ],
)
def test_what_cannot_be_asked_is_said_in_one_line(runs: Path, question: dict[str, object], why: str) -> None:
    with pytest.raises(ProjectionError, match=why) as refusal:
        asked(runs, **question)
    assert len(str(refusal.value).splitlines()) == 1


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"launch": "single"}, "a single rank does not communicate"),
        ({"launch": "dp"}, "threads of one process"),
        ({"instruments": "off"}, "without instruments"),
        ({"every": 2}, "averages in some steps only"),
        ({"strategy": "none"}, "averages nothing"),
        ({"mistake": "group_of_one"}, "a deliberate mistake .group_of_one"),
        ({"strategy": "ddp_powersgd"}, "depends on the shapes"),
        ({}, "no launch ended well with unchanged delays"),
    ],
)
def test_a_trial_that_tells_nothing_is_refused(tmp_path: Path, fields: dict[str, object], why: str) -> None:
    write_run(tmp_path, preset_of({"repeats": 1, "trial": [{"name": "a", **fields}]}), failure("a"))
    with pytest.raises(ProjectionError, match=f"a: .*{why}"):
        asked(tmp_path)

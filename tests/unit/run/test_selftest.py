"""The selftest's grid, and how it judges what is attributed: on simulated steps, with what was put in told right or
wrong."""

import itertools

import msgspec
import pytest

from ddptui.analysis.results import ConfidenceInterval
from ddptui.cli.machine import SELFTEST_MODES
from ddptui.config.catalog import AGGREGATING, STRATEGIES
from ddptui.config.fields import FIELDS
from ddptui.config.trial import Bottleneck, Site, Trial
from ddptui.run import verify
from ddptui.run.verify import REST, STEPS, WARMUP, delays_of
from ddptui.wire.messages import Slept, Step
from ddptui.wire.phases import PHASES
from tests.support.traces import MS, delayed, trace, works_of

RANK = 1
SITES: tuple[Site, ...] = ("start", "data", "forward", "backward", "aggregate")


@pytest.mark.parametrize("mode", SELFTEST_MODES)
def test_windows_are_apart_the_first_is_silent_and_every_site_has_one(mode: str) -> None:
    at_start, *delays = delays_of(mode)
    assert (at_start.at, at_start.ranks) == ("start", (1,))
    assert [delay.at for delay in delays] == [site for site in SITES[1:] if (mode, site) != ("dp", "backward")]
    assert {delay.ranks for delay in delays} == {(0,), (1,)}
    assert delays[0].from_step == WARMUP + STEPS + REST
    for delay in delays:
        assert delay.to_step == delay.from_step + STEPS - 1
    for before, after in itertools.pairwise(delays):
        assert after.from_step == (before.to_step or 0) + 1 + REST


def test_the_grid_has_each_strategy_in_each_mode_and_dp_once() -> None:
    preset = verify._preset(SELFTEST_MODES, AGGREGATING)
    names = [trial.name for trial in preset.trials]
    assert len(set(names)) == len(names) == (len(SELFTEST_MODES) - 1) * (len(STRATEGIES) - 1) + 1
    assert "dp" in FIELDS["strategy"].modes
    for trial in preset.trials:
        without = {"backward"} if trial.launch == "dp" else set()
        assert {bottleneck.at for bottleneck in trial.bottleneck} == {*SITES} - without


def late(at: str | None, ms: float = 25.0, rank: int = RANK, told_ms: float | None = None) -> dict[int, list[Step]]:
    """Steps of a window with a delay in it; told_ms: what the rank says that it slept."""
    works = works_of(1, steps=STEPS)
    if at:
        works, _ = delayed(works, rank, at, lambda _: ms)
    steps = trace(works)
    if at:
        long = round((ms if told_ms is None else told_ms) * MS)
        steps[rank] = [
            msgspec.structs.replace(step, slept=(Slept(PHASES[PHASES.index(at)], step.begin_ns, step.begin_ns + long),))  # type: ignore[arg-type]
            for step in steps[rank]
        ]
    return steps


def found(site: Site | None, steps: dict[int, list[Step]], rank: int = RANK, *, root_averages: bool = False) -> str:
    delay = Bottleneck(at=site, ranks=(rank,)) if site else None
    return verify._found_in_window(delay, steps, Trial(strategy="gather_scatter" if root_averages else "all_reduce"))


@pytest.mark.parametrize("site", SITES[1:])
def test_what_is_attributed_rightly_is_right(site: Site) -> None:
    attributed, injected = found(site, late(site)).split("/")
    assert injected == "1000"
    assert float(attributed) == pytest.approx(1000, rel=0.05)


@pytest.mark.parametrize(
    ("site", "steps", "rank", "cell"),
    [
        (None, late(None), RANK, "silent"),
        (None, late("forward"), RANK, "!rank 1 forward"),
        ("forward", late("forward", ms=0.01, told_ms=25.0), RANK, "!silent"),
        ("forward", late("forward"), 0, "!rank 1 forward"),
        ("data", late("forward"), RANK, "!rank 1 forward"),
    ],
)
def test_silence_or_others_are_wrong(site: Site | None, steps: dict[int, list[Step]], rank: int, cell: str) -> None:
    assert found(site, steps, rank) == cell


def test_a_root_that_averages_for_all_is_rightly_named_in_aggregate_and_nowhere_else() -> None:
    of_the_root = late("aggregate", rank=0)
    assert found(None, of_the_root, root_averages=True) == "root"
    assert found(None, of_the_root) == "!rank 0 aggregate"
    assert found(None, late(None), root_averages=True) == "silent"
    for elsewhere in (late("aggregate"), late("forward", rank=0)):
        assert found(None, elsewhere, root_averages=True).startswith("!")
    assert [name for name, facts in STRATEGIES.items() if facts.root_averages] == ["gather_scatter"]


@pytest.mark.parametrize(
    ("attributed", "low", "high", "right"),
    [
        (0.100, 0.099, 0.101, True),
        (0.104, 0.103, 0.105, True),  # within a twentieth
        (0.120, 0.095, 0.145, True),  # within the interval
        (0.106, 0.105, 0.107, False),
    ],
)
def test_an_amount_may_be_off_by_a_twentieth(attributed: float, low: float, high: float, right: bool) -> None:
    slept = (Slept("forward", 0, 100 * MS),)
    steps = {RANK: [msgspec.structs.replace(step, slept=slept) for step in trace(works_of(1, steps=1))[RANK]]}
    cell = verify._amounts(steps, ConfidenceInterval(estimate=attributed, low=low, high=high), 0.05)
    assert cell == f"{'' if right else '!'}{attributed * 1000:.0f}/100"

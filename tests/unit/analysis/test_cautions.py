"""Each caution is raised by what it warns of, not by a hair less, and comes with its advice."""

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from ddptui.analysis.figures import other_load
from ddptui.analysis.policy import (
    FEWEST_STEPS,
    MOST_HELD_BACK,
    MOST_OTHER_LOAD,
    SPARE,
    WIDE,
    Caution,
    Facts,
    cautions_for,
)
from ddptui.analysis.repeats import valid_repeats
from ddptui.analysis.results import RepeatResult, Spread
from ddptui.config.trial import Trial
from ddptui.findings.compare import cautions_of_trial
from ddptui.report.notes import note_lines
from ddptui.wire.records import Load, Message
from tests.support.builders import FIRST_STEP_MS, journal, load, preset_of, result_of, results_for, trained

FEW, WIDE_SPREAD, OVER, OTHER = (Caution.TOO_FEW_STEPS, Caution.WIDE_SPREAD, Caution.OVERSUBSCRIBED, Caution.OTHER_LOAD)


SPAN = trained(0, begin_ns=0, end_ns=10**12, steps=100)


def repeat(*warnings: Caution, device: str = "cpu") -> RepeatResult:
    return msgspec.structs.replace(result_of(journal(device=device)), warnings=[*warnings])


def of_trial(
    *repeats: RepeatResult, low: float = 1.0, high: float = 1.0, cores: int | None = 2, **fields: Any
) -> list[Caution]:
    spread = Spread(median=1.0, min=low, max=high)
    return cautions_of_trial(Trial(**{"threads": 1, **fields}), repeats or [repeat()], spread, cores)


@pytest.mark.parametrize(
    ("others", "raised"),
    [
        ([], []),
        ([MOST_OTHER_LOAD], []),
        ([MOST_OTHER_LOAD + 0.01], [OTHER]),
        ([0.0, 0.6], [OTHER]),
        ([1.0, 0.0, 0.0, 0.0, 0.0], []),  # a moment does not count
    ],
)
def test_another_load_on_the_machine(others: Sequence[float], raised: list[Caution]) -> None:
    other = other_load([load(busy=1.75 + other, own=1.75) for other in others], [SPAN])
    assert (other is None) == (not others)
    assert cautions_for(Facts(other_load=other.cores if other else 0.0)) == raised


@pytest.mark.parametrize(("low", "raised"), [(1.0, []), (1 - 0.99 * WIDE, []), (1 - 1.01 * WIDE, [WIDE_SPREAD])])
def test_a_wide_spread_of_the_repeats(low: float, raised: list[Caution]) -> None:
    assert of_trial(low=low) == raised


@pytest.mark.parametrize(
    ("ranks", "threads", "cores", "device", "raised"),
    [
        (2, 2, 4, "cpu", []),
        (3, 1, 2, "cpu (thread, CPU stand-in)", [OVER]),
        (2, 2, 3, "cpu", [OVER]),
        (2, None, 2, "cpu", []),  # each has one at least
        (3, None, 2, "cpu", [OVER]),
        (8, 1, None, "cpu", []),  # nobody knows
        (8, 1, 2, "cuda:0", []),
    ],
)
def test_more_threads_than_cores(
    ranks: int, threads: int | None, cores: int | None, device: str, raised: list[Caution]
) -> None:
    assert of_trial(repeat(device=device), world_size=ranks, threads=threads, cores=cores) == raised


@pytest.mark.parametrize(
    ("part", "is_raised"), [(None, False), (0.0, False), (MOST_HELD_BACK, False), (MOST_HELD_BACK + 0.01, True)]
)
def test_a_gpu_that_heat_or_the_power_supply_holds_back(part: float | None, is_raised: bool) -> None:
    calm, slowed = repeat(), repeat()
    rank = msgspec.structs.replace(slowed.ranks[0], held_back_part=part)
    raised = of_trial(calm, msgspec.structs.replace(slowed, ranks=[rank]))
    assert (Caution.HELD_BACK in raised) is is_raised


def test_what_any_repeat_shows_is_the_trials_and_each_is_said_once() -> None:
    assert of_trial(repeat(), repeat(OTHER), repeat(OTHER, FEW)) == [FEW, OTHER]


def test_each_caution_is_raised_by_evidence_of_its_own_and_has_its_advice() -> None:
    raising = {
        Caution.TOO_FEW_STEPS: Facts(steps=FEWEST_STEPS - 1),
        Caution.WIDE_SPREAD: Facts(spread=2 * WIDE),
        Caution.OVERSUBSCRIBED: Facts(threads_a_core=1.5),
        Caution.OTHER_LOAD: Facts(other_load=2 * MOST_OTHER_LOAD, idle=SPARE / 2),
        Caution.HELD_BACK: Facts(held_back=2 * MOST_HELD_BACK),
        Caution.HOST_TIME: Facts(host_time=True, waits_hidden=True),
        Caution.CLOCKS_APART: Facts(waits_hidden=True),
        Caution.CLOCKS_UNKNOWN: Facts(clocks_known=False, waits_hidden=True),
    }
    assert {caution: cautions_for(evidence) for caution, evidence in raising.items()} == {c: [c] for c in Caution}
    assert cautions_for(Facts()) == cautions_for(Facts(other_load=1.0, idle=SPARE)) == []
    assert len({caution.advice for caution in Caution} - {""}) == len(Caution)


def with_loads(messages: list[Message], *loads: Load) -> list[Message]:
    return [*messages[:-1], *loads, messages[-1]]


def said(*journals: list[Message], trials: str = "a") -> list[str]:
    names = [{"name": name} for name in trials]
    preset = preset_of({"repeats": len(journals) if trials == "a" else 1, "trial": names})
    lines = note_lines(results_for(preset, *journals), preset)
    return [note for note in lines if note.startswith("caution")]


def long(repeat: int = 1, step_ms: float = 1000) -> list[Message]:
    """Steps are few, but what is said of them without instruments is what counts."""
    told = journal(repeat=repeat, step_ms=step_ms)
    begin = FIRST_STEP_MS + 100
    words = [
        trained(rank, begin_ns=begin * 10**6, end_ns=round((begin + 30 * step_ms) * 10**6), steps=30)
        for rank in range(2)
    ]
    return [*told[:-3], *words, *told[-3:]]


def test_the_foot_says_what_to_do() -> None:
    assert said(journal()) == [f"caution, a: {FEW.advice}"]
    assert said(long()) == []
    assert said(long(), long(2, step_ms=1200)) == [
        "caution, a: repeats differ by up to 18%: too noisy for small differences; increase `--repeats`"
    ]


def test_the_load_counts_while_all_ranks_train_and_at_no_other_time() -> None:
    begin = FIRST_STEP_MS + 100
    moments = (begin - 500, begin + 400, begin + 5000, begin + 30_600)  # of the second before each
    busy = {at: load(busy=2.0, own=1.0, at_ms=at) for at in moments}
    assert said(with_loads(long(), busy[begin - 500], busy[begin + 400], busy[begin + 30_600])) == []
    assert said(with_loads(long(), *busy.values())) == [
        "caution, a: other programs kept 1.0 cores busy: close those programs and run again"
    ]


def test_a_caution_that_is_true_of_many_trials_is_said_once() -> None:
    assert said(journal("a"), journal("b"), trials="ab") == [f"caution, all trials: {FEW.advice}"]
    assert said(journal("a"), journal("b"), trials="abc") == [f"caution, a, b: {FEW.advice}"]


@pytest.mark.parametrize(("calm", "disturbed", "count"), [(2, 2, 2), (1, 2, 3), (0, 2, 2), (2, 0, 2)])
def test_disturbed_repeats_are_left_out_unless_most_are(calm: int, disturbed: int, count: int) -> None:
    repeats = [repeat()] * calm + [repeat(OTHER)] * disturbed
    assert len(valid_repeats(repeats)) == count

"""Where the time went, beside which rank is late: what each rule finds, and that it finds nothing in what is sound."""

import random
from collections.abc import Callable, Mapping, Sequence

import pytest
from msgspec.structs import replace

from ddptui.analysis.finding import Finding, Kind
from ddptui.analysis.late import Window
from ddptui.analysis.waits import align_steps
from ddptui.findings.repeat import outcome_of_messages
from ddptui.findings.time import nothing, of_time
from ddptui.findings.trial import of_repeats, scaled
from ddptui.findings.words import short
from ddptui.wire.messages import GATHER_OUTPUTS
from ddptui.wire.records import shift_times
from tests.support.builders import journal
from tests.support.printed import long
from tests.support.traces import MS, Await, Call, Program, Shape, Told, Work, all_reduce, trace, works_of

PARTS = ("data", "forward", "backward", "aggregate", "optimizer", "between steps")
Delay = Callable[[int, int], float]  # of a rank in a step, ms


def window_of(told: Told, **fields: object) -> Window:
    return Window(align_steps(told).steps, **fields)


def delayed(at: str, ms: Delay, *, ranks: int = 2, steps: int = 120, queued: bool = False) -> Window:
    """Ranks that take longer in this part, some of them in some steps. queued: since they had no core."""
    works = works_of(1, ranks=ranks, steps=steps)
    for number, step in enumerate(works):
        for rank, work in step.items():
            work[PARTS.index(at)] += round(ms(rank, number) * MS)
    told = trace(works, transfer=MS // 20)
    if queued:
        told = {
            rank: [replace(step, queued_ns=round(ms(rank, step.step) * MS)) for step in own]
            for rank, own in told.items()
        }
    return window_of(told)


def kinds(window: Window) -> set[Kind]:
    return {finding.kind for finding in of_time(window)}


def the(kind: Kind, window: Window) -> Finding:
    [finding] = [finding for finding in of_time(window) if finding.kind is kind]
    return finding


@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
@pytest.mark.parametrize("seed", range(5))
def test_in_a_sound_training_no_rule_finds_anything(seed: int, ranks: int) -> None:
    window = window_of(trace(works_of(seed, ranks=ranks), transfer=MS // 20))
    assert of_time(window) == []
    [finding] = nothing(window)
    assert short(finding).startswith("Nothing to worry about: ")


@pytest.mark.parametrize("seed", range(4))
def test_pauses_for_want_of_a_core_are_none(seed: int) -> None:
    draw = random.Random(seed)
    lengths = {(rank, number): draw.choice([0.0] * 9 + [30.0]) for rank in (0, 1) for number in range(120)}
    window = delayed("backward", lambda rank, number: lengths[rank, number], queued=True)
    assert kinds(window) <= {Kind.WAITING}


def some(of_rank: int, ms: float | dict[int, float], *numbers: int) -> Delay:
    """A delay of one rank in these steps."""
    each = dict.fromkeys(numbers, ms) if not isinstance(ms, dict) else ms
    return lambda rank, number: each.get(number, 0.0) * (rank == of_rank)


def test_steps_in_which_one_rank_evaluates_are_named_with_it() -> None:
    evaluates = some(0, 250.0, 30, 60, 90)
    assert short(the(Kind.RARE_WAITS, delayed("between steps", evaluates))) == (
        "In steps 30, 60 and 90, rank 1 waited 749 ms for rank 0 (between steps)"
    )
    finding = the(Kind.RARE_WAITS, delayed("forward", some(2, 300.0, 40, 80), ranks=3))
    assert (finding.rank, finding.phase, finding.steps) == (2, "forward", (40, 80))
    assert "In steps 40 and 80, each of the other ranks waited " in short(finding)
    # the length of a pause shows that its rank queued for a core
    assert the(Kind.RARE_WAITS, delayed("between steps", evaluates, queued=True)).steps == (30, 60, 90)
    differing = delayed("between steps", some(0, {30: 160.0, 60: 250.0, 90: 330.0}), queued=True)
    assert kinds(differing) <= {Kind.WAITING}


def test_a_single_pause_is_named_only_if_no_scheduler_makes_it() -> None:
    assert the(Kind.RARE_WAITS, delayed("forward", some(1, 400.0, 50))).steps == (50,)
    assert kinds(delayed("forward", some(1, 100.0, 50))) <= {Kind.WAITING}


def test_pauses_in_every_tenth_step_are_bursts() -> None:
    finding = the(Kind.BURSTS, delayed("between steps", lambda rank, number: 150.0 * (rank == 0 and number % 10 == 9)))
    assert short(finding) == "Rank 0 is late in 1 step of 10, by 150 ms, between steps (12 times)"


@pytest.mark.parametrize("ranks", [2, 3])
def test_ranks_that_pause_by_turns_are_named_together(ranks: int) -> None:
    def pause(rank: int, number: int) -> float:
        return 150.0 if number % 37 == 5 + 10 * rank else 0.0

    finding = the(Kind.BY_TURNS, delayed("forward", pause, ranks=ranks, steps=300))
    assert short(finding) == f"Late by turns: {8 * ranks} pauses of 150 ms in forward, 8 on each rank"
    half = delayed("forward", lambda rank, number: pause(rank, number) * (rank == 0 or number < 150), steps=300)
    assert short(the(Kind.BY_TURNS, half)).endswith("8 on rank 0 and 4 on rank 1")


def test_pauses_that_fall_into_any_phase_are_counted_together() -> None:
    parts = (1, 2, 4, 5)
    told = trace_of(lambda rank, number: {parts[number // 30]: 120.0} if number % 30 == 3 + 10 * rank else {})
    window = window_of(told, disturbed=True)
    assert short(the(Kind.BY_TURNS, window)) == "Late by turns: 8 pauses of 120 ms in several phases, 4 on each rank"


def test_steps_that_are_long_on_all_ranks_are_named() -> None:
    window = delayed("between steps", lambda _, number: 400.0 * (number in (50, 100)))
    assert short(the(Kind.LONG_STEPS, window)) == (
        "2 steps took 800 ms longer than usual on all ranks, between steps: steps 50 and 100"
    )


def uneven(ranks: int, lengths: Callable[[random.Random], float], *, alike: bool = False) -> Window:
    draw, works = random.Random(3), works_of(3, ranks=ranks)
    for step in works:
        for work in step.values():
            first, second = lengths(draw), lengths(draw)
            work[1] = round(work[1] * first)
            work[2] = round(work[2] * (first if alike else second))
    return window_of(trace(works, transfer=MS // 20))


@pytest.mark.parametrize("ranks", [2, 3])
def test_batches_that_differ_are_told_from_noise(ranks: int) -> None:
    finding = the(Kind.UNEVEN_WORK, uneven(ranks, lambda draw: draw.choice([1, 2, 4, 8]), alike=True))
    assert finding.rank is None
    assert 0.1 < finding.numbers["share"] < 0.5
    assert "Equal work in each step would save about " in long(finding)
    assert Kind.UNEVEN_WORK not in kinds(uneven(ranks, lambda draw: draw.choice([1, 2, 4, 8])))
    assert Kind.UNEVEN_WORK not in kinds(uneven(ranks, lambda draw: draw.uniform(1, 1.1), alike=True))


def test_a_rank_that_grows_late_is_told_from_one_that_is_late_from_some_step_on() -> None:
    grows = the(Kind.TREND, delayed("forward", lambda rank, number: number / 10 * (rank == 1)))
    assert (grows.rank, grows.steps) == (1, ())
    assert short(grows).startswith("Rank 1 grows late over the run: from ")
    jumps = the(Kind.TREND, delayed("forward", lambda rank, number: 10.0 * (rank == 0 and number >= 71)))
    assert short(jumps).startswith("Rank 0 is late from step 7")
    assert abs(jumps.steps[0] - 71) <= 1
    assert Kind.TREND not in kinds(delayed("forward", lambda rank, _: 10.0 * (rank == 0)))


def with_epochs(told: Told, steps: int) -> Told:
    return {rank: [replace(step, epoch=step.step // steps) for step in own] for rank, own in told.items()}


def test_a_training_bound_by_its_loaders_is_told_whichever_rank_is_last() -> None:
    """Each rank's loader is as slow, but a rank that has waited for the other finds its batch ready."""
    draw = random.Random(5)
    works = works_of(5)
    for number, step in enumerate(works):
        for rank, work in step.items():
            work[0] += round((60 if rank or number % 16 == 1 else 5) * draw.uniform(1, 2) * MS) if number % 2 else 0
    finding = the(Kind.DATA, window_of(with_epochs(trace(works), 50)))
    assert finding.rank is None
    assert finding.numbers["every_steps"] == 2
    assert "`num_workers`" in long(finding)
    for step in works:
        step[0][0] = 300_000  # its batches are always ready: now rank 1 is late
    assert Kind.DATA not in kinds(window_of(trace(works)))


def test_workers_that_are_started_anew_are_seen_in_the_first_batch_of_each_epoch() -> None:
    window = window_of(with_epochs(trace_of(lambda _, number: {0: 1000.0 * (number % 30 == 0)}), 30))
    finding = the(Kind.FIRST_BATCH, window)
    assert short(finding).endswith(
        "% of the time, most of it in the first batch of each epoch (about 1 s each, 4 epochs)"
    )
    assert "persistent_workers=True" in long(finding)
    assert Kind.LONG_STEPS not in kinds(window)  # it is said once


def trace_of(
    longer: Callable[[int, int], Mapping[int, float]], shape: Shape = all_reduce, transfer: float = 0.05
) -> Told:
    """Ranks whose parts take longer, in ms, by rank and number of the step."""
    works = works_of(2, steps=120)
    for number, step in enumerate(works):
        for rank, work in step.items():
            for part, ms in longer(rank, number).items():
                work[part] += round(ms * MS)
    return trace(works, shape, round(transfer * MS))


def test_work_between_all_steps_is_told() -> None:
    finding = the(Kind.BETWEEN_STEPS, window_of(trace_of(lambda *_: {5: 6.0})))
    assert short(finding) == "Work between steps takes 46% of the time on all ranks"


def test_a_restart_is_told_with_what_it_took() -> None:
    later = {
        rank: [*own[:60], *(replace(shift_times(step, 12_000 * MS), step=step.step + 1) for step in own[60:])]
        for rank, own in trace_of(lambda *_: {}).items()
    }
    finding = the(Kind.RESTART, window_of(later, restarts={59: ""}))
    assert long(finding).startswith("The ranks were restarted before step 61. It took 12 s until all trained again, 9")
    died = the(Kind.RESTART, window_of(later, restarts={59: "rank 1 died after step 59"}))
    assert long(died).startswith(
        "The ranks were restarted before step 61: rank 1 died after step 59. It took 12 s until"
    )
    assert of_time(window_of(later)) == []


def gathers(number: int, size: int, kind: str = "all_gather") -> Shape:
    """Small calls in forward, and a bucket of gradients in aggregate."""

    def shape(rank: int, work: Sequence[int], transfer: int) -> Program:
        calls = [Call(f"m{at}", kind, transfer, bytes=size) for at in range(number)]
        bucket = Call("b", "all_reduce", transfer, bytes=1 << 20, background=True)
        return [
            ("forward", [Work(work[1]), *calls]),
            ("backward", [Work(work[2])]),
            ("aggregate", [Work(1), bucket, Await("b")]),
            ("optimizer", [Work(work[4])]),
        ]

    return shape


def test_many_small_calls_are_told_from_gradients() -> None:
    told = trace_of(lambda *_: {}, gathers(10, 8), 1.0)
    finding = the(Kind.SMALL_CALLS, window_of(told, watched=True))
    assert short(finding) == "Most of the communication is 10 all_gathers of 8 bytes a step, in forward"
    assert finding.action == "Gather metrics less often, or in one call"
    network = the(Kind.NETWORK, window_of(told, watched=True))
    assert network.action is None  # advice on gradients would be on the smaller part
    barriers = the(Kind.SMALL_CALLS, window_of(trace_of(lambda *_: {}, gathers(4, 0, "barrier"), 1.0), watched=True))
    assert short(barriers) == "Most of the communication is 4 barriers a step, in forward"
    large = window_of(trace_of(lambda *_: {}, gathers(10, 1 << 20), 1.0), watched=True)
    assert Kind.SMALL_CALLS not in kinds(large)
    assert "reshard_after_forward" in long(the(Kind.NETWORK, large))


def test_idle_time_is_told_with_its_larger_part_first() -> None:
    much = the(Kind.NETWORK, window_of(trace_of(lambda *_: {}, transfer=4.0)))
    assert short(much).startswith("Mostly the network: ranks stood idle 5")
    assert much.action
    little = the(Kind.NETWORK, window_of(trace_of(lambda *_: {}, transfer=0.5)))
    assert short(little).startswith("Ranks stood idle 1")
    assert "% of the time in transfers, " in short(little)
    assert little.action is None


def test_one_rank_and_threads_have_no_network() -> None:
    told = trace_of(lambda *_: {}, transfer=4.0)
    assert of_time(window_of({0: told[0]})) == []
    threads = {
        rank: [
            replace(step, collectives=tuple(replace(call, kind=GATHER_OUTPUTS) for call in step.collectives))
            for step in own
        ]
        for rank, own in told.items()
    }
    finding = the(Kind.NETWORK, window_of(threads))
    assert "network" not in long(finding)
    assert "to hand over outputs" in short(finding)


def test_where_waits_are_hidden_no_rule_speaks_of_them() -> None:
    window = delayed("forward", lambda rank, number: 150.0 * (rank == 0 and number % 10 == 9))
    hidden = Window([step._replace(host_time=True) for step in window.steps])
    assert (of_time(hidden), [*nothing(hidden)]) == ([], [])


def test_findings_of_more_than_half_of_the_repeats_are_said_with_medians() -> None:
    result = outcome_of_messages(journal()).result

    def together(*of_each: list[Finding]) -> list[Finding]:
        return of_repeats([replace(result, findings=found) for found in of_each])

    pause = Finding(kind=Kind.RARE_WAITS, rank=0, phase="forward", steps=(3, 9), numbers={"share": 0.1, "times": 2.0})
    later = replace(pause, steps=(3, 11), numbers={"share": 0.3, "times": 2.0})
    other = replace(pause, rank=1)
    assert together([pause], [later, other], []) == [replace(pause, steps=(3,), numbers={"share": 0.2, "times": 2.0})]
    assert together([later, other], []) == []
    idle = Finding(kind=Kind.WAITING, numbers={"share": 0.3, "wait_share": 0.2, "transfer_share": 0.1}, action="cores")
    network = replace(idle, kind=Kind.NETWORK, numbers=idle.numbers | {"transfer_share": 0.5}, action="bytes")
    assert [(found.kind, found.action) for found in together([idle], [network])] == [(Kind.NETWORK, "bytes")]
    assert scaled(pause, 4).numbers == {"share": 0.1, "times": 8.0}

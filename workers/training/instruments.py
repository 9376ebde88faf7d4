"""The instruments that a trial asks for."""

from torch import nn

from ddptui.config.strategies import STRATEGIES
from ddptui.config.trial import Trial, is_own_model
from workers.instruments.clock import Clock
from workers.instruments.nvtx import RangedTap, RangedTimer, phases_of_step
from workers.instruments.progress import Progress, SummaryProgress
from workers.instruments.records import PhaseTimer
from workers.instruments.tap import Tap
from workers.rank.process import Rank


def make_progress(me: Rank) -> Progress:
    """Reports every step, or without instruments only when the training began and ended."""
    kind = Progress if me.trial.instruments == "on" else SummaryProgress
    return kind(me.rank, me.trial.warmup_steps, me.reporter)


def make_timer(trial: Trial, clock: Clock, step: int, *, averages: bool, updates: bool) -> PhaseTimer:
    """The timer of a step, which begins now. averages: whether the ranks average in it; updates: whether the optimizer
    makes a step."""
    if not trial.nvtx:
        return PhaseTimer(clock, step)
    return RangedTimer(clock, step, phases_of_step(average=trial.average, averages=averages, updates=updates))


def make_tap(me: Rank, network: nn.Module, clock: Clock) -> Tap:
    """The tap of a rank. Without instruments it stays detached, unless a delay must go in before a collective, or each
    collective gets a range. Raises RuntimeError if this torch has no NVTX for that."""
    delayed = any(bottleneck.at == "aggregate" for bottleneck in me.trial.bottleneck)
    facts = STRATEGIES[me.trial.strategy or "none"]
    kind = RangedTap if me.trial.nvtx else Tap
    return kind(
        clock,
        network,
        buckets=facts.buckets,
        overlaps=facts.overlaps,
        before_collective=me.delays.before_collective,
        is_asleep=lambda: me.delays.asleep,
        attached=me.trial.instruments == "on" or delayed or me.trial.nvtx,
        compiles=me.trial.compile or is_own_model(me.trial.model),
        fail=end_trial,
    )


def end_trial(error: Exception) -> None:
    """Raise what has failed in the tap: the figures of a trial that it does not see to its end would be wrong."""
    raise error

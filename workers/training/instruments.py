"""The instruments that a trial asks for."""

from torch import nn

from ddptui.config.strategies import STRATEGIES
from ddptui.config.trial import is_own_model
from workers.instruments.clock import Clock
from workers.instruments.progress import Progress, SummaryProgress
from workers.instruments.tap import Tap
from workers.rank.process import Rank


def make_progress(me: Rank) -> Progress:
    """Reports every step, or without instruments only when the training began and ended."""
    kind = Progress if me.trial.instruments == "on" else SummaryProgress
    return kind(me.rank, me.trial.warmup_steps, me.reporter)


def make_tap(me: Rank, network: nn.Module, clock: Clock) -> Tap:
    """The tap of a rank. Without instruments it stays detached, unless a delay must go in before a collective."""
    delayed = any(bottleneck.at == "aggregate" for bottleneck in me.trial.bottleneck)
    facts = STRATEGIES[me.trial.strategy or "none"]
    return Tap(
        clock,
        network,
        buckets=facts.buckets,
        overlaps=facts.overlaps,
        before_collective=me.delays.before_collective,
        is_asleep=lambda: me.delays.asleep,
        attached=me.trial.instruments == "on" or delayed,
        compiles=me.trial.compile or is_own_model(me.trial.model),
        fail=end_trial,
    )


def end_trial(error: Exception) -> None:
    """Raise what has failed in the tap: the figures of a trial that it does not see to its end would be wrong."""
    raise error

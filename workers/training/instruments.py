"""Makes the instruments that a trial requests."""

from torch import nn

from ddptui.config.strategies import STRATEGIES
from ddptui.config.trial import is_own_model
from workers.instruments.clock import Clock
from workers.instruments.progress import Progress, SummaryProgress
from workers.instruments.tap import Tap
from workers.rank.process import Rank


def make_progress(me: Rank) -> Progress:
    """The reporting of every step, or, without instruments, only of the training's begin and end."""
    kind = Progress if me.trial.instruments == "on" else SummaryProgress
    return kind(me.rank, me.trial.warmup_steps, me.reporter)


def make_tap(me: Rank, network: nn.Module, clock: Clock) -> Tap:
    """The tap of a rank. Without instruments it is not attached, unless delays are injected before collectives."""
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
    """Raise an error of the tap: a trial that the tap does not observe to its end would have wrong figures."""
    raise error

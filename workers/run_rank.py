"""The life of one rank in a process group: join, train, leave. Every launch mode that has a group ends up here."""

from ddptui.config.trial import Trial
from workers.rank.group import Rendezvous, join_group, leave_group
from workers.rank.process import Rank, rank_process


def run_rank(trial: Trial, rank: int, local_ranks: range, rendezvous: Rendezvous, *, has_parent: bool = True) -> None:
    """Run one rank in this process.

    local_ranks: the ranks of this host, which share its cores and GPUs. rendezvous: where all ranks meet. has_parent: a
    launcher started this process, which must not outlive it.
    """
    with rank_process(trial, rank, local_ranks, has_parent=has_parent) as me:
        join_group(me, rendezvous)
        train_or_measure(me)
        leave_group()


def train_or_measure(me: Rank) -> None:
    """Train the trial's model, or try the primitives that training is made of."""
    # Imported here because the launchers import this file, too. They start sooner without torchvision.
    if me.trial.primitives is None:
        from workers.aggregate import strategy_of
        from workers.train import train

        train(me, strategy_of(me.trial))
    else:
        from workers.primitives.rounds import measure, show

        show(me) if me.trial.primitives == "see" else measure(me)

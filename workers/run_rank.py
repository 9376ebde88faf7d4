"""Runs one rank in a process group: join, train, leave. Every launch mode with a process group calls this."""

from ddptui.config.trial import Trial
from workers.rank import forked
from workers.rank.group import Rendezvous, join_group, leave_group
from workers.rank.process import rank_process


def run_rank(trial: Trial, rank: int, local_ranks: range, rendezvous: Rendezvous, *, has_parent: bool = True) -> None:
    """Run one rank in this process: train the trial's model, or show or measure the communication primitives.

    local_ranks: the ranks on this host, which share its cores and GPUs. has_parent: the rank must not outlive its
    launcher.
    """
    forked.call_at_exit_functions()
    with rank_process(trial, rank, local_ranks, has_parent=has_parent) as me:
        join_group(me, rendezvous)
        # Imported here because the launchers also import this file, and start sooner without the model.
        if trial.primitives is None:
            from workers.aggregate import strategy_of
            from workers.train import train

            train(me, strategy_of(trial))
        else:
            from workers.primitives.rounds import measure, show

            show(me) if trial.primitives == "see" else measure(me)
        leave_group()

"""nn.DataParallel: one process splits each batch, runs a replica of the model on each device, and gathers the outputs
on the first device, which computes the loss. Without GPUs, a substitute does the same with threads on the CPU.

python -m workers.dp world_size=2 epochs=3
"""

import sys
import time

import torch
from torch import nn

from ddptui.config.trial import Trial
from workers.aggregate.none import NoAggregation
from workers.instruments.reporter import Reporter
from workers.rank.device import DeviceChoice
from workers.rank.process import Rank, hello, make_delays, pin_threads, rank_process, read_trial
from workers.replicas import (
    GpuDataParallel,
    Replica,
    ReplicaDelays,
    ReplicaProgress,
    ReplicaState,
    ThreadedDataParallel,
)
from workers.train import train


class DataParallel(NoAggregation):
    """Needs no aggregation: one backward goes through the gather and all replicas, whose gradients add up."""

    def __init__(self, trial: Trial, states: list[ReplicaState]) -> None:
        super().__init__(trial)
        self._states = states

    def prepare(self, model: nn.Module) -> nn.Module:
        if next(model.parameters()).is_cuda:
            return GpuDataParallel(Replica(model, self._states), list(range(self.trial.world_size)))
        return ThreadedDataParallel(model, self._states, pin_threads(self.trial, range(self.trial.world_size)))


def main() -> None:
    """Train in this process with one replica per device, each with its own connection to the console."""
    trial = read_trial(["launch=dp", *sys.argv[1:]])
    with rank_process(trial, 0, range(trial.world_size), has_parent=False) as me:
        states = [make_replica_state(me, rank) for rank in range(trial.world_size)]
        process = Rank(trial, 0, 1, me.device, me.reporter, ReplicaDelays(states))
        progress = ReplicaProgress(states, trial.warmup_steps)
        # Reuse the clock of replica 0: a second clock of the same device would have an error that no message reports.
        train(process, DataParallel(trial, states), progress, states[0].clock)
        for state in states:
            state.reporter.close()


def make_replica_state(me: Rank, rank: int) -> ReplicaState:
    """The state of one replica, with its own connection to the console."""
    trial = me.trial
    if rank == 0:  # the process itself
        return ReplicaState(me.reporter, me.delays, me.device, me.start_ns)
    device = torch.device("cuda", rank) if me.device.type == "cuda" else me.device
    reporter = Reporter(rank)
    reporter.send(hello(trial, rank, DeviceChoice(device), pin_threads(trial, range(trial.world_size))))
    reporter.set_device(device)
    delays = make_delays(trial, rank, device)
    begin = time.monotonic_ns()
    delays.start()
    reporter.position = lambda: me.reporter.position()  # looked up at each call: the loop replaces it
    return ReplicaState(reporter, delays, device, time.monotonic_ns() - begin)


if __name__ == "__main__":
    main()

"""Reports each replica in a process as if it were a rank."""

from collections.abc import Sequence
from functools import partial

import msgspec

from ddptui.wire.messages import GATHER_OUTPUTS, Collective, Done, RankMessage, Ready, Step
from workers.instruments.clock import Clock
from workers.instruments.gpu import peak_bytes, peak_reserved_bytes
from workers.instruments.progress import Progress, clock_accuracy, read_loss
from workers.instruments.records import StepRecord
from workers.rank.device import gpus_of
from workers.replicas.replicas import ReplicaState, ReplicaStep


class ReplicaProgress(Progress):
    """Reports each replica as a rank: its own sub-batch and forward, then the gather, then the backward that all
    replicas share. The clock of the replica's device times its own part; the first device's clock times the rest."""

    def __init__(self, states: Sequence[ReplicaState], warmup_steps: int) -> None:
        super().__init__(0, warmup_steps, states[0].reporter)
        self._states = states

    def ready(self, ready: Ready) -> None:
        for rank, state in enumerate(self._states):
            message = msgspec.structs.replace(ready, rank=rank, start_ns=state.start_ns, gpus=gpus_of(state.device))
            Progress(rank, 0, state.reporter).ready(message)

    def step(self, record: StepRecord, clock: Clock) -> None:
        for rank, state in enumerate(self._states):
            own = state.step._replace(slept=state.delays.taken())
            state.reporter.send(partial(self._replica_messages, rank, own, record, clock))

    def _replica_messages(
        self, rank: int, own: ReplicaStep, record: StepRecord, clock: Clock
    ) -> Sequence[RankMessage] | None:
        own_clock = self._states[rank].clock
        own_times = own_clock.resolve(own.moments) if own.moments else []
        times = clock.resolve(record.moments())
        if own_times is None or times is None:
            return None
        loss = read_loss(record.loss, clock)
        if rank == 0:
            self.log(record, loss)
        step = msgspec.structs.replace(
            self.step_message(record, times, loss), rank=rank, samples=own.samples, slept=own.slept
        )
        if own_times:
            step = replica_step(step, own.sent_bytes, own_times)
        return [*clock_accuracy(rank, own_clock), step]

    def done(self, done: Done) -> None:
        """Report the end of each replica. Only replica 0 reports on the model, since there is only one."""
        for rank, state in enumerate(self._states):
            if rank > 0:
                done = msgspec.structs.replace(
                    done, correct=0, evaluated=0, parameters={}, buffers={}, checkpoint=None,
                    peak_gpu_bytes=peak_bytes(state.device), peak_gpu_reserved_bytes=peak_reserved_bytes(state.device),
                )  # fmt: skip
            message = msgspec.structs.replace(
                done,
                rank=rank,
                bottleneck_fired=state.delays.fired,
                bottleneck_ns=state.delays.slept_ns,
                sub_batch=state.sub_batch,
                dropped=state.reporter.dropped,
            )
            state.reporter.send(message)


def replica_step(step: Step, sent_bytes: int, own_times: Sequence[int]) -> Step:
    """The common step with a replica's own data, forward and gather. own_times: the three ReplicaStep.moments, in
    ns."""
    data, forward, backward, average, optimizer = step.phases_ns
    gathered = step.begin_ns + data + forward
    # All three lie between the step's begin and `gathered`. Another device's clock has measured them, with some error.
    fetched, computed, arrived = (min(max(moment, step.begin_ns), gathered) for moment in own_times)
    phases = (fetched - step.begin_ns, computed - fetched, backward, average + gathered - computed, optimizer)
    gather = Collective(GATHER_OUTPUTS, 0, sent_bytes, computed, arrived, arrived, gathered)
    return msgspec.structs.replace(step, phases_ns=phases, order=(0, 1, 3, 2, 4), collectives=(gather,))

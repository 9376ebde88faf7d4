"""What is told of replicas in one process: of each as if it were a rank of its own."""

from collections.abc import Sequence
from functools import partial

import msgspec

from ddptui.wire.messages import GATHER_OUTPUTS, Collective, Done, RankMessage, Step
from workers.instruments.clock import Clock
from workers.instruments.heartbeat import peak_bytes
from workers.instruments.progress import Progress, clock_accuracy
from workers.instruments.records import StepRecord
from workers.replicas.replicas import ReplicaState, ReplicaStep


class ReplicaProgress(Progress):
    """Each replica reports as a rank: its own sub-batch and forward, then the gather, which comes before the one
    backward that all share. Its part is by its own device's clock, the rest by that of the first one."""

    def __init__(self, states: Sequence[ReplicaState], warmup_steps: int) -> None:
        super().__init__(0, warmup_steps, states[0].reporter)
        self._states = states

    def ready(self, steps: int, parameters: int, start_ns: int) -> None:
        for rank, state in enumerate(self._states):
            Progress(rank, 0, state.reporter).ready(steps, parameters, state.start_ns)

    def step(self, mark: StepRecord, clock: Clock) -> None:
        for rank, state in enumerate(self._states):
            seen = state.seen._replace(slept=state.delays.taken())
            state.reporter.send(partial(self._told_of, rank, seen, mark, clock))

    def _told_of(self, rank: int, seen: ReplicaStep, mark: StepRecord, clock: Clock) -> Sequence[RankMessage] | None:
        own_clock = self._states[rank].clock
        own = own_clock.resolve(seen.marks) if seen.marks else []
        times = clock.resolve(mark.moments())
        if own is None or times is None:
            return None
        loss = clock.read(mark.loss)
        if rank == 0:
            self.log(mark, loss)
        step = msgspec.structs.replace(
            self.step_message(mark, times, loss), rank=rank, samples=seen.samples, slept=seen.slept
        )
        return [*clock_accuracy(rank, own_clock), replica_step(step, seen.gives, own) if own else step]

    def done(self, done: Done) -> None:
        """Replica 0 speaks for the model, which there is only once."""
        for rank, state in enumerate(self._states):
            own = msgspec.structs.replace(
                done,
                rank=rank,
                bottleneck_fired=state.delays.fired,
                bottleneck_ns=state.delays.slept_ns,
                sub_batch=state.sub_batch,
                dropped=state.reporter.dropped,
            )
            if rank > 0:
                own = msgspec.structs.replace(
                    own,
                    correct=0,
                    evaluated=0,
                    parameters={},
                    buffers={},
                    peak_gpu_bytes=peak_bytes(state.device),
                    checkpoint=None,
                )
            state.reporter.send(own)


def replica_step(step: Step, gives: int, own: Sequence[int]) -> Step:
    """The step of all, with what was a replica's own in it: its data and forward until the gather, to which it `gives`
    so many bytes. own: its three moments, in ns."""
    data, forward, backward, average, optimizer = step.phases_ns
    gathered = step.begin_ns + data + forward
    # They are between those two, which another device's clock has told: it may be off by a little.
    fetched, computed, arrived = (min(max(moment, step.begin_ns), gathered) for moment in own)
    phases = (fetched - step.begin_ns, computed - fetched, backward, average + gathered - computed, optimizer)
    gather = Collective(GATHER_OUTPUTS, 0, gives, computed, arrived, arrived, gathered)
    return msgspec.structs.replace(step, phases_ns=phases, order=(0, 1, 3, 2, 4), collectives=(gather,))

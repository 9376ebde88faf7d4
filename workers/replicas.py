"""Replicas of a model in one process, as with nn.DataParallel, each observed and reported as if it were a rank.

For machines without GPUs, a substitute for nn.DataParallel runs the replicas in threads.
"""

import copy
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Barrier
from typing import Any, NamedTuple

import msgspec
import torch
from torch import Tensor, nn

from ddptui.config.trial import Bottleneck
from ddptui.wire.messages import GATHER_OUTPUTS, Collective, Done, RankMessage, Ready, Step
from workers.instruments.clock import Clock
from workers.instruments.cuda_clock import clock_of
from workers.instruments.delays import Delays
from workers.instruments.gpu import memory_of
from workers.instruments.progress import Progress, clock_accuracy, read_loss
from workers.instruments.records import Slept, StepRecord
from workers.instruments.reporter import Reporter
from workers.rank.device import CPU, gpus_of
from workers.rank.process import Rank

Precision = Callable[[], torch.autocast]


class ReplicaStep(NamedTuple):
    """The record of one replica's step."""

    samples: int = 0
    sent_bytes: int = 0  # size of the outputs, which it sends to the first device
    # Three moments: it had its samples, its forward was over, its outputs were on their way. Empty without samples.
    moments: tuple[Any, ...] = ()
    slept: tuple[Slept, ...] = ()


class ReplicaState:
    """The state of one replica: its reporter, delays, device, clock and current step."""

    def __init__(self, reporter: Reporter, delays: Delays, device: torch.device = CPU, start_ns: int = 0) -> None:
        self.reporter = reporter
        self.delays = delays
        self.device = device
        self.clock = clock_of(device)
        self.start_ns = start_ns  # the length of its delay at the start
        self.step = ReplicaStep()  # the current step
        self.sub_batch = 0  # the maximum number of samples in a step


class Replica(nn.Module):
    """A replica that records its step."""

    def __init__(self, module: nn.Module, states: Sequence[ReplicaState], index: int = 0) -> None:
        super().__init__()
        self.module = module
        self._states = states
        self._index = index

    def forward(self, inputs: Tensor) -> Tensor:
        """Map inputs (n, *shape) to outputs (n, classes), and record the step."""
        # On GPUs, nn.DataParallel copies the module at every forward, and runs each copy in a new thread on its
        # device's stream. So a copy is identified by its device, and the first moment comes after the parameters have
        # arrived.
        state = self._states[inputs.device.index if inputs.device.type == "cuda" else self._index]
        state.delays.at("data")
        fetched = state.clock.now()
        outputs: Tensor = self.module(inputs)
        state.delays.at("forward")
        computed = state.clock.now()
        state.sub_batch = max(state.sub_batch, len(inputs))
        state.delays.before_collective()
        state.step = ReplicaStep(len(inputs), outputs.nbytes, (fetched, computed, state.clock.now()))
        return outputs


class ThreadedDataParallel(nn.Module):
    """nn.DataParallel with threads in place of devices: scatter the batch, run a replica on each part, gather the
    outputs. One backward then goes through all replicas. As in the original, the result equals that of the whole batch,
    except with BatchNorm.

    The replicas share the model's parameters, so their gradients add up there. The buffers of replica 0 are the
    model's; those of the others are copies, updated at every forward. All threads draw from one random generator in no
    fixed order, so with dropout, two runs with the same seed differ. threads: how many torch uses in each replica.
    """

    def __init__(self, model: nn.Module, states: Sequence[ReplicaState], threads: int) -> None:
        super().__init__()
        shared = {id(parameter): parameter for parameter in model.parameters()}
        # deepcopy takes objects in its memo as copied already, so the parameters stay shared.
        copies = [copy.deepcopy(model, dict(shared)) for _ in states[1:]]
        self.replicas = nn.ModuleList(Replica(module, states, index) for index, module in enumerate([model, *copies]))
        self._pool = ThreadPoolExecutor(len(states), "replica", torch.set_num_threads, (threads,))

    def forward(self, inputs: Tensor) -> Tensor:
        """Map inputs (n, *shape) to outputs (n, classes), with one thread per replica."""
        first, *others = self.replicas
        with torch.no_grad():
            for other in others:
                for buffer, source in zip(other.buffers(), first.buffers(), strict=True):
                    buffer.copy_(source)
        parts = inputs.chunk(len(self.replicas))
        start = Barrier(len(parts))  # no replica runs before all have their part
        precision = current_precision(inputs.device)

        def run(replica: Replica, part: Tensor) -> Tensor:
            start.wait()
            outputs: Tensor = run_with_precision(precision, replica, part)
            return outputs

        return torch.cat(list(self._pool.map(run, self.replicas, parts)))


class GpuDataParallel(nn.DataParallel[nn.Module]):
    """nn.DataParallel whose threads use the caller's autocast."""

    # The original passes on whether autocast is enabled, but not its dtype: threads would use float16, not bfloat16.
    def parallel_apply(self, replicas: Sequence[nn.Module], inputs: Sequence[Any], kwargs: Any) -> list[Any]:
        precision = current_precision(self.src_device_obj)
        running: list[Any] = [partial(run_with_precision, precision, replica) for replica in replicas]
        return super().parallel_apply(running, inputs, kwargs)


def replicate_over_devices(me: Rank, model: nn.Module) -> nn.Module:
    """Replicate the model over the rank's own devices, if it has several: DataParallel within the rank, the strategy
    across ranks. Without GPUs the replicas run in threads, as in `dp`."""
    devices = me.trial.gpus_per_rank
    if devices == 1:
        return model
    if me.device.type == "cuda":
        first = me.device.index or 0
        # The first device, on which gradients add up, needs the most memory: the rank reports that of this device.
        return GpuDataParallel(model, list(range(first, first + devices)))
    threads = max(1, torch.get_num_threads() // devices)
    states = [ReplicaState(me.reporter, Delays()) for _ in range(devices)]  # the rank is delayed, not its replicas
    return ThreadedDataParallel(model, states, threads)


def run_with_precision(precision: Precision, network: nn.Module, *inputs: Any, **kwargs: Any) -> Any:
    """Call the network with this autocast."""
    with precision():
        return network(*inputs, **kwargs)


def current_precision(device: torch.device) -> Precision:
    """This thread's autocast, for use in other threads: each thread has its own."""
    kind = device.type
    return partial(torch.autocast, kind, dtype=torch.get_autocast_dtype(kind), enabled=torch.is_autocast_enabled(kind))


class ReplicaDelays(Delays):
    """The delays of all replicas, for the common loop. Each replica is delayed in its own thread, and the loop
    never."""

    _states: Sequence[ReplicaState] = ()

    def __init__(self, states: Sequence[ReplicaState]) -> None:
        super().__init__()  # without delays; the replicas keep theirs
        self._states = states

    @property
    def asleep(self) -> bool:
        return any(state.delays.asleep for state in self._states)

    def set(self, bottlenecks: tuple[Bottleneck, ...]) -> None:
        super().set(())
        for state in self._states:
            state.delays.set(bottlenecks)

    def begin(self, step: int) -> None:
        for state in self._states:
            state.step = ReplicaStep()
            state.delays.begin(step)

    def end(self) -> None:
        for state in self._states:
            state.delays.end()


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
                *_, peak, peak_reserved = memory_of(state.device)
                done = msgspec.structs.replace(
                    done, correct=0, evaluated=0, parameters={}, buffers={}, checkpoint=None,
                    peak_gpu_bytes=peak, peak_gpu_reserved_bytes=peak_reserved,
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

"""Replicas of a model in one process, each observed as if it were a rank; and, for a machine without GPUs, a stand-in
for nn.DataParallel that runs them in threads."""

import copy
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Barrier
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from ddptui.config.trial import Bottleneck
from workers.instruments.cuda_clock import clock_of
from workers.instruments.delays import Delays
from workers.instruments.records import Slept
from workers.instruments.reporter import Reporter
from workers.rank.device import CPU
from workers.rank.process import Rank

Precision = Callable[[], torch.autocast]


class ReplicaStep(NamedTuple):
    """What a replica did in one step."""

    samples: int = 0
    sent_bytes: int = 0  # outputs, to the device that gathers them
    # Three: it had its samples, its forward was over, its outputs were on their way. None if it got no samples.
    moments: tuple[Any, ...] = ()
    slept: tuple[Slept, ...] = ()


class ReplicaState:
    """What is known of one replica, and the delays that it takes."""

    def __init__(self, reporter: Reporter, delays: Delays, device: torch.device = CPU, start_ns: int = 0) -> None:
        self.reporter = reporter
        self.delays = delays
        self.device = device
        self.clock = clock_of(device)
        self.start_ns = start_ns  # the length of its delay at the start
        self.step = ReplicaStep()  # the current one
        self.sub_batch = 0  # the most samples in a step


class Replica(nn.Module):
    """A replica that records its step."""

    def __init__(self, module: nn.Module, states: Sequence[ReplicaState], index: int = 0) -> None:
        super().__init__()
        self.module = module
        self._states = states
        self._index = index

    def forward(self, inputs: Tensor) -> Tensor:
        """inputs (n, *shape) to outputs (n, classes)."""
        # On GPUs nn.DataParallel copies the module at every forward, and runs each copy in a new thread on its device's
        # stream. So a copy is known by its device, and the first of its moments also follows the parameters' arrival.
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
    """What nn.DataParallel does, with threads in place of devices: scatter the batch, run a replica on each part,
    gather the outputs. One backward then goes through all replicas. It equals the big batch, except for BatchNorm, as
    in the original.

    The replicas share the model's parameters, so their gradients add up there. Their buffers are copies, made afresh at
    every forward; replica 0's are the model's own. All threads draw from one random generator in no fixed order: with
    dropout, two runs of the same seed differ. threads: that torch uses within each replica.
    """

    def __init__(self, model: nn.Module, states: Sequence[ReplicaState], threads: int) -> None:
        super().__init__()
        shared = {id(parameter): parameter for parameter in model.parameters()}
        # To deepcopy, what is in its memo has been copied already: so the parameters stay shared.
        copies = [copy.deepcopy(model, dict(shared)) for _ in states[1:]]
        self.replicas = nn.ModuleList(Replica(module, states, index) for index, module in enumerate([model, *copies]))
        self._pool = ThreadPoolExecutor(len(states), "replica", torch.set_num_threads, (threads,))

    def forward(self, inputs: Tensor) -> Tensor:
        """inputs (n, *shape) to outputs (n, classes)."""
        first, *others = self.replicas
        with torch.no_grad():
            for other in others:
                for buffer, source in zip(other.buffers(), first.buffers(), strict=True):
                    buffer.copy_(source)
        parts = inputs.chunk(len(self.replicas))
        start = Barrier(len(parts))  # threads start in turn, but no replica runs before all have their part
        precision = current_precision(inputs.device)

        def run(replica: Replica, part: Tensor) -> Tensor:
            start.wait()
            outputs: Tensor = run_with_precision(precision, replica, part)
            return outputs

        return torch.cat(list(self._pool.map(run, self.replicas, parts)))


class GpuDataParallel(nn.DataParallel[nn.Module]):
    """nn.DataParallel whose threads have the caller's autocast."""

    # The original passes on whether there is one, but not its type: its threads would take float16 for bfloat16.
    def parallel_apply(self, replicas: Sequence[nn.Module], inputs: Sequence[Any], kwargs: Any) -> list[Any]:
        precision = current_precision(self.src_device_obj)
        running: list[Any] = [partial(run_with_precision, precision, replica) for replica in replicas]
        return super().parallel_apply(running, inputs, kwargs)


def replicate_over_devices(me: Rank, model: nn.Module) -> nn.Module:
    """The model, spread over the rank's own devices if it has several: DataParallel inside the rank, the strategy
    across the ranks. Without GPUs the replicas run in threads, as in `dp`."""
    devices = me.trial.gpus_per_rank
    if devices == 1:
        return model
    if me.device.type == "cuda":
        first = me.device.index or 0
        # Gradients add up on the first one: no other needs more memory, and the rank reports the memory of that one.
        return GpuDataParallel(model, list(range(first, first + devices)))
    threads = max(1, torch.get_num_threads() // devices)
    states = [ReplicaState(me.reporter, Delays()) for _ in range(devices)]  # the rank is delayed, not its replicas
    return ThreadedDataParallel(model, states, threads)


def run_with_precision(precision: Precision, network: nn.Module, *inputs: Any, **kwargs: Any) -> Any:
    """Call the network under this autocast."""
    with precision():
        return network(*inputs, **kwargs)


def current_precision(device: torch.device) -> Precision:
    """The autocast of this thread, for use in others: each thread has its own."""
    kind = device.type
    return partial(torch.autocast, kind, dtype=torch.get_autocast_dtype(kind), enabled=torch.is_autocast_enabled(kind))


class ReplicaDelays(Delays):
    """The delays of all replicas: each takes its own in its thread, and the common loop takes none."""

    def __init__(self, states: Sequence[ReplicaState]) -> None:
        self._states = states

    @property
    def asleep(self) -> bool:
        return any(state.delays.asleep for state in self._states)

    def set(self, bottlenecks: tuple[Bottleneck, ...]) -> None:
        for state in self._states:
            state.delays.set(bottlenecks)

    def begin(self, step: int) -> None:
        for state in self._states:
            state.step = ReplicaStep()
            state.delays.begin(step)

    def end(self) -> None:
        for state in self._states:
            state.delays.end()

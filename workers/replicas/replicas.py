"""Replicas of a model in one process, each watched as if it were a rank of its own; and, for a machine without GPUs,
a stand-in for nn.DataParallel that runs them in threads."""

import copy
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Barrier
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from ddptui.config.trial import Bottleneck, Site
from ddptui.wire.messages import Slept
from workers.instruments.clock import clock_of
from workers.instruments.reporter import Reporter
from workers.rank.delays import Delays
from workers.rank.device import CPU

Precision = Callable[[], torch.autocast]


class ReplicaStep(NamedTuple):
    """What a replica did in one step: how many samples it got, how many bytes it gave to the output device, and by its
    clock when it had its part, when it was through with it, and when it gave its outputs away (no marks: it got
    nothing, of a batch that small)."""

    samples: int = 0
    gives: int = 0
    marks: tuple[Any, ...] = ()
    slept: tuple[Slept, ...] = ()


class ReplicaState:
    """What is seen of one replica, and what delays it."""

    def __init__(self, reporter: Reporter, delays: Delays, device: torch.device = CPU, start_ns: int = 0) -> None:
        self.reporter = reporter
        self.delays = delays
        self.device = device
        self.clock = clock_of(device)
        self.start_ns = start_ns  # what its delay at the start took
        self.seen = ReplicaStep()  # in this step
        self.sub_batch = 0  # the most samples in a step


class Replica(nn.Module):
    """A replica under watch. On GPUs nn.DataParallel copies it at every forward, and runs each copy in a thread that is
    new, with its device's stream as the current one: so a copy is told apart by its device, and its marks are of that
    stream. There it has its part when the parameters have come, too."""

    def __init__(self, module: nn.Module, states: Sequence[ReplicaState], index: int = 0) -> None:
        super().__init__()
        self.module = module
        self._states = states
        self._index = index

    def forward(self, inputs: Tensor) -> Tensor:
        state = self._states[inputs.device.index if inputs.device.type == "cuda" else self._index]
        state.delays.at("data")
        fetched = state.clock.now()
        outputs: Tensor = self.module(inputs)
        state.delays.at("forward")
        computed = state.clock.now()
        state.sub_batch = max(state.sub_batch, len(inputs))
        state.delays.before_collective()
        state.seen = ReplicaStep(len(inputs), outputs.nbytes, (fetched, computed, state.clock.now()))
        return outputs


class ThreadedDataParallel(nn.Module):
    """What nn.DataParallel does, with a thread for a device: scatter the batch, run a replica on each part, gather the
    outputs; one backward then goes through all replicas. Equals the big batch (BatchNorm apart, as in the original).

    The replicas share the model's parameters, so that their gradients add up there. Their buffers are copies, made
    afresh at every forward; replica 0's are the model's own. All threads draw from one random generator, in whatever
    order they come: with dropout, two runs of the same seed differ.
    """

    def __init__(self, model: nn.Module, states: Sequence[ReplicaState], threads: int) -> None:
        super().__init__()
        shared = {id(parameter): parameter for parameter in model.parameters()}
        copies = [copy.deepcopy(model, dict(shared)) for _ in states[1:]]
        self.replicas = nn.ModuleList(Replica(module, states, index) for index, module in enumerate([model, *copies]))
        self._pool = ThreadPoolExecutor(len(states), "replica", torch.set_num_threads, (threads,))

    def forward(self, inputs: Tensor) -> Tensor:
        self._copy_buffers()
        parts = inputs.chunk(len(self.replicas))
        together = Barrier(len(parts))  # threads start in turn, but no replica runs before all have their part
        precision = current_precision(inputs.device)

        def run(replica: Replica, part: Tensor) -> Tensor:
            together.wait()
            outputs: Tensor = run_with_precision(precision, replica, part)
            return outputs

        return torch.cat(list(self._pool.map(run, self.replicas, parts)))

    @torch.no_grad()
    def _copy_buffers(self) -> None:
        first, *others = self.replicas
        for other in others:
            for own, source in zip(other.buffers(), first.buffers(), strict=True):
                own.copy_(source)


class GpuDataParallel(nn.DataParallel[nn.Module]):
    """nn.DataParallel, its threads under the autocast of the thread that calls it. By itself it tells them whether
    there is one, and not of which type: they would take float16 for bfloat16."""

    def parallel_apply(self, replicas: Sequence[nn.Module], inputs: Sequence[Any], kwargs: Any) -> list[Any]:
        precision = current_precision(self.src_device_obj)
        running: list[Any] = [partial(run_with_precision, precision, replica) for replica in replicas]
        return super().parallel_apply(running, inputs, kwargs)


def run_with_precision(precision: Precision, network: nn.Module, *inputs: Any, **kwargs: Any) -> Any:
    with precision():
        return network(*inputs, **kwargs)


def current_precision(device: torch.device) -> Precision:
    """The autocast of this thread, to be entered in others: each thread has its own."""
    kind = device.type
    return partial(torch.autocast, kind, dtype=torch.get_autocast_dtype(kind), enabled=torch.is_autocast_enabled(kind))


class ReplicaDelays:
    """The delays of all replicas: each takes its own in its thread, none happens in the loop that serves all."""

    fired = 0
    slept_ns = 0

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
            state.seen = ReplicaStep()
            state.delays.begin(step)

    def end(self) -> None:
        for state in self._states:
            state.delays.end()

    def at(self, site: Site) -> None:
        """Nothing: a replica is delayed where it runs."""

    def before_collective(self) -> bool:
        """Never: there is no group."""
        return False

    def taken(self) -> tuple[Slept, ...]:
        """None: each replica has its own."""
        return ()

"""Replicas of a model in one process, each watched as if it were a rank of its own; and, for a machine without GPUs,
a stand-in for nn.DataParallel that runs them in threads."""

import copy
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Barrier
from time import monotonic_ns
from typing import NamedTuple

import msgspec
import torch
from torch import Tensor, nn

from ddptui.preset import Bottleneck, Site
from ddptui.wire import GATHER_OUTPUTS, Collective, Done, Slept, Step
from workers.bottleneck import Sites
from workers.clock import Clock
from workers.progress import Mark, Progress
from workers.reporter import Reporter


class Seen(NamedTuple):
    """What a replica did in one step: how many samples it got, how many bytes it gave to the output device, and when it
    was through with its part."""

    samples: int = 0
    gives: int = 0
    fetched_ns: int = 0
    computed_ns: int = 0
    arrived_ns: int = 0


class Watch:
    """What is seen of one replica, and what delays it."""

    def __init__(self, reporter: Reporter, delays: Sites, start_ns: int = 0) -> None:
        self.reporter = reporter
        self.delays = delays
        self.start_ns = start_ns  # what its delay at the start took
        self.seen = Seen()  # in this step
        self.sub_batch = 0  # the most samples in a step


class Replica(nn.Module):
    """A replica under watch. On GPUs nn.DataParallel copies it, so it is told apart by the device that it runs on."""

    def __init__(self, module: nn.Module, watches: Sequence[Watch], index: int = 0) -> None:
        super().__init__()
        self.module = module
        self._watches = watches
        self._index = index

    def forward(self, inputs: Tensor) -> Tensor:
        watch = self._watches[inputs.device.index if inputs.device.type == "cuda" else self._index]
        watch.delays.at("data")
        fetched_ns = monotonic_ns()
        outputs: Tensor = self.module(inputs)
        watch.delays.at("forward")
        computed_ns = monotonic_ns()
        watch.sub_batch = max(watch.sub_batch, len(inputs))
        watch.delays.before_collective()
        watch.seen = Seen(len(inputs), outputs.nbytes, fetched_ns, computed_ns, monotonic_ns())
        return outputs


class ThreadedDataParallel(nn.Module):
    """What nn.DataParallel does, with a thread for a device: scatter the batch, run a replica on each part, gather the
    outputs; one backward then goes through all replicas. Equals the big batch (BatchNorm apart, as in the original).

    The replicas share the model's parameters, so that their gradients add up there. Their buffers are copies, made
    afresh at every forward; replica 0's are the model's own. All threads draw from one random generator, in whatever
    order they come: with dropout, two runs of the same seed differ.
    """

    def __init__(self, model: nn.Module, watches: Sequence[Watch], threads: int) -> None:
        super().__init__()
        shared = {id(parameter): parameter for parameter in model.parameters()}
        copies = [copy.deepcopy(model, dict(shared)) for _ in watches[1:]]
        self.replicas = nn.ModuleList(Replica(module, watches, index) for index, module in enumerate([model, *copies]))
        self._pool = ThreadPoolExecutor(len(watches), "replica", torch.set_num_threads, (threads,))

    def forward(self, inputs: Tensor) -> Tensor:
        self._copy_buffers()
        parts = inputs.chunk(len(self.replicas))
        together = Barrier(len(parts))  # threads start in turn, but no replica runs before all have their part

        def run(replica: Replica, part: Tensor) -> Tensor:
            together.wait()
            outputs: Tensor = replica(part)
            return outputs

        return torch.cat(list(self._pool.map(run, self.replicas, parts)))

    @torch.no_grad()
    def _copy_buffers(self) -> None:
        first, *others = self.replicas
        for other in others:
            for own, source in zip(other.buffers(), first.buffers(), strict=True):
                own.copy_(source)


class ReplicaDelays:
    """The delays of all replicas: each takes its own in its thread, none happens in the loop that serves all."""

    fired = 0
    slept_ns = 0

    def __init__(self, watches: Sequence[Watch]) -> None:
        self._watches = watches

    @property
    def asleep(self) -> bool:
        return any(watch.delays.asleep for watch in self._watches)

    def set(self, bottlenecks: tuple[Bottleneck, ...]) -> None:
        for watch in self._watches:
            watch.delays.set(bottlenecks)

    def begin(self, step: int) -> None:
        for watch in self._watches:
            watch.seen = Seen()
            watch.delays.begin(step)

    def end(self) -> None:
        for watch in self._watches:
            watch.delays.end()

    def at(self, site: Site) -> None:
        """Nothing: a replica is delayed where it runs."""

    def before_collective(self) -> bool:
        """Never: there is no group."""
        return False

    def taken(self) -> tuple[Slept, ...]:
        """None: each replica has its own."""
        return ()


class ReplicaProgress(Progress):
    """Each replica reports as a rank: its own sub-batch and forward, then the gather, which comes before the one
    backward that all share. On GPUs a replica's forward ends on its device, unseen by the host: the gather counts as
    forward there."""

    def __init__(self, watches: Sequence[Watch], warmup_steps: int, device: torch.device) -> None:
        super().__init__(0, warmup_steps, watches[0].reporter)
        self._watches = watches
        self._on_host = device.type == "cpu"

    def ready(self, steps: int, parameters: int, start_ns: int) -> None:
        for rank, watch in enumerate(self._watches):
            Progress(rank, 0, watch.reporter).ready(steps, parameters, watch.start_ns)

    def step(self, mark: Mark, clock: Clock) -> None:
        for rank, watch in enumerate(self._watches):
            slept = watch.delays.taken()
            watch.reporter.say(partial(self._told_of, rank, watch.seen, slept, mark, clock))

    def _told_of(
        self, rank: int, seen: Seen, slept: tuple[Slept, ...], mark: Mark, clock: Clock
    ) -> Sequence[Step] | None:
        times = clock.resolve(mark.moments())
        if times is None:
            return None
        if rank == 0:
            self.log(mark)
        step = msgspec.structs.replace(self.message(mark, times), rank=rank, samples=seen.samples, slept=slept)
        if self._on_host and seen.samples:
            data, forward, backward, average, optimizer = step.phases_ns
            gathered = step.begin_ns + data + forward
            own_data, own_forward = seen.fetched_ns - step.begin_ns, seen.computed_ns - seen.fetched_ns
            phases = (own_data, own_forward, backward, average + gathered - seen.computed_ns, optimizer)
            gather = Collective(
                GATHER_OUTPUTS, 0, seen.gives, seen.computed_ns, seen.arrived_ns, seen.arrived_ns, gathered
            )
            step = msgspec.structs.replace(step, phases_ns=phases, order=(0, 1, 3, 2, 4), collectives=(gather,))
        return [step]

    def done(self, done: Done) -> None:
        """Replica 0 speaks for the model, which there is only once."""
        for rank, watch in enumerate(self._watches):
            own = msgspec.structs.replace(
                done,
                rank=rank,
                bottleneck_fired=watch.delays.fired,
                bottleneck_ns=watch.delays.slept_ns,
                sub_batch=watch.sub_batch,
                dropped=watch.reporter.dropped,
            )
            if rank > 0:
                own = msgspec.structs.replace(own, correct=0, evaluated=0, parameters={}, buffers={}, checkpoint=None)
            watch.reporter.say(own)

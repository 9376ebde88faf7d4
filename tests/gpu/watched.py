"""Trainings for `ddptui watch`, of which they know nothing. Each prints what it found of itself, as JSON.

    python tests/gpu/watched.py NAME [KEY=VALUE …]

NAME is one of the functions in TRAININGS. DEVICE=cpu: as far as a CPU goes.
"""

import copy
import io
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, TensorDataset

OPTIONS = dict(word.split("=", 1) for word in sys.argv[2:])
ON_CPU = OPTIONS.get("DEVICE") == "cpu"
CYCLES = 40_000_000  # of a GPU: about 20 ms
NAP_S = 0.02  # instead, on a CPU
WARMUP = 10  # steps
TIMEOUT = timedelta(seconds=60)
Found = dict[str, Any]


def number(key: str, usual: int) -> int:
    return int(OPTIONS.get(key, usual))


def sleep() -> None:
    """Have the GPU do nothing for a while; the host goes on."""
    if ON_CPU:
        time.sleep(NAP_S)
    else:
        torch.cuda._sleep(number("cycles", CYCLES))


def synchronize() -> None:
    if not ON_CPU:
        torch.cuda.synchronize()


class Late(nn.Module):
    """The identity, before which the device may sleep."""

    def __init__(self) -> None:
        super().__init__()
        self.sleeps = False
        self.slept: list[tuple[torch.cuda.Event, torch.cuda.Event]] = []  # begins and ends

    def forward(self, inputs: Tensor) -> Tensor:
        if self.sleeps and not ON_CPU:
            begin = marked()
            sleep()
            self.slept.append((begin, marked()))
        elif self.sleeps:
            sleep()
        return inputs

    def slept_ms(self) -> float:
        """How long a sleep took, by the device: the median. (Its clock is slow until it has work.)"""
        synchronize()
        return statistics.median([begin.elapsed_time(end) for begin, end in self.slept] or [NAP_S * 1000])


def marked() -> torch.cuda.Event:
    event = torch.cuda.Event(enable_timing=True)
    event.record()
    return event


class Loop:
    """A training of an MLP on the same samples again and again."""

    def __init__(self, width: int, samples: int, wrap: Callable[[nn.Module], nn.Module] = lambda model: model) -> None:
        device = torch.device("cpu" if ON_CPU else "cuda:0")
        torch.manual_seed(0)
        self.late = Late()
        layers = (layer for _ in range(8) for layer in (nn.Linear(width, width), nn.ReLU()))
        self.model = wrap(nn.Sequential(self.late, *layers).to(device))
        self.inputs = torch.randn(samples, width, device=device)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01)
        self.made = 0  # steps

    def step(self, *, reads: bool = False) -> Tensor:
        """reads: the loss is read, for which the host waits."""
        loss = self.model(self.inputs).square().mean()
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.made += 1
        if reads:
            loss.item()
        return loss.detach()

    def steps(self, count: int, *, reads: bool = False) -> None:
        for _ in range(count):
            self.step(reads=reads)

    def step_ms(self, count: int, rounds: int = 5) -> float:
        """The time of a step: the median of some rounds of so many steps."""
        self.steps(WARMUP)
        times = []
        for _ in range(rounds):
            synchronize()
            begin_ns = time.monotonic_ns()
            self.steps(count)
            synchronize()
            times.append((time.monotonic_ns() - begin_ns) / count / 1e6)
        return statistics.median(times)


def join() -> None:
    """Be in a group: torchrun's, or alone in one. The option `group` is its backend, or nothing."""
    backend = OPTIONS.get("group", "nccl") or None
    alone = {} if "WORLD_SIZE" in os.environ else {"store": dist.HashStore(), "rank": 0, "world_size": 1}
    dist.init_process_group(backend, timeout=TIMEOUT, **alone)
    if not ON_CPU and "unset" not in OPTIONS:
        torch.cuda.set_device(0)


# The trainings


def paced() -> Found:
    """A wide model, which keeps a GPU busy, and a narrow one, which waits for its host."""
    wide, narrow, count = number("wide", 4096), number("narrow", 256), number("steps", 40)
    loops = Loop(wide, samples=512), Loop(narrow, samples=64)
    wide_ms, narrow_ms = loops[0].step_ms(count), loops[1].step_ms(count)
    return {"wide_ms": wide_ms, "narrow_ms": narrow_ms, "steps": sum(loop.made for loop in loops)}


def late() -> Found:
    """Four parts, of so many steps each: plain; the GPU sleeps in forward; the loss is read at each step; both."""
    loop, count = Loop(number("wide", 1024), samples=256), number("steps", 30)
    loop.steps(WARMUP)
    for reads in (False, True):
        for loop.late.sleeps in (False, True):
            loop.steps(count, reads=reads)
    return {"slept_ms": loop.late.slept_ms(), "part": count, "warmup": WARMUP}


def grouped() -> Found:
    """torch DDP. slow: the rank whose GPU sleeps in forward."""
    join()
    loop = Loop(number("wide", 512), samples=64, wrap=DistributedDataParallel)
    loop.late.sleeps = number("slow", -1) == dist.get_rank()
    loop.steps(number("steps", 100))
    slept_ms = loop.late.slept_ms()
    dist.destroy_process_group()
    return {"slept_ms": slept_ms, "steps": loop.made}


def handled() -> Found:
    """What users do beside the steps: copies and pickles of a DDP, and a group of a send and a receive."""
    join()
    loop = Loop(256, samples=64, wrap=DistributedDataParallel)
    loop.steps(WARMUP)
    found = {name: outcome(try_it, loop) for name, try_it in {"copy": copied, "pickle": pickled, "P2POp": sent}.items()}
    loop.steps(WARMUP)
    found["loss"] = outcome(lambda loop: loop.step(reads=True), loop)
    dist.destroy_process_group()
    return found


def outcome(try_it: Callable[[Loop], Any], loop: Loop) -> str:
    """What came of it, in a line."""
    try:
        value = try_it(loop)
    except Exception as error:
        return f"{type(error).__name__}: {str(error).splitlines()[0][:60]}"
    return "right" if isinstance(value, bool) and value else str(float(value))


def copied(loop: Loop) -> bool:
    with torch.no_grad():
        return torch.equal(copy.deepcopy(loop.model)(loop.inputs), loop.model(loop.inputs))


def pickled(loop: Loop) -> bool:
    file = io.BytesIO()
    torch.save(loop.model, file)
    return file.tell() > 0


def sent(loop: Loop) -> bool:
    """Send to the rank itself, as NCCL can."""
    rank, into = dist.get_rank(), torch.zeros_like(loop.inputs)
    pair = [dist.P2POp(dist.isend, loop.inputs, rank), dist.P2POp(dist.irecv, into, rank)]
    for work in dist.batch_isend_irecv(pair):
        work.wait()
    return torch.equal(into, loop.inputs)


def overwritten() -> Found:
    """Collectives in the background whose input is given back at once: its memory may get other values only when the
    operation has read it."""
    join()
    loop = Loop(256, samples=64, wrap=DistributedDataParallel)
    loop.steps(WARMUP)
    given = torch.full((number("bytes", 2**28) // 4,), 1.0, device=loop.inputs.device)
    out = torch.empty_like(given)
    wrong = 0
    tries = number("tries", 200)
    for _ in range(tries):
        out.zero_()
        sleep()
        work = dist.all_gather_into_tensor(out, given.clone(), async_op=True)
        other = torch.full_like(given, -1.0)  # where the copy was, if that is free
        work.wait()
        wrong += not bool((out == 1.0).all())
        del other
    loop.steps(WARMUP)
    dist.destroy_process_group()
    return {"tries": tries, "wrong": wrong}


def captured() -> Found:
    """Steps, captures of a CUDA graph of one step each, and steps again; then some under torch's own check for calls
    that wait for the GPU."""
    loop, count, captures = Loop(256, samples=64), number("steps", 20), number("captures", 20)
    loop.steps(count)
    with nullcontext() if ON_CPU else torch.cuda.stream(torch.cuda.Stream()):  # as torch's documentation asks for
        loop.steps(WARMUP)
    synchronize()
    errors = [] if ON_CPU else [error for _ in range(captures) if (error := capture(loop))]
    loop.steps(count)
    waits = guarded(loop, count)
    synchronize()
    return {"captures": captures, "errors": errors, "waits": waits, "steps": count * 3 + WARMUP}


def capture(loop: Loop) -> str:
    """Capture a step for 300 ms and longer. Returns why that failed; empty: it did not."""
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph):
            loop.step()
            time.sleep(0.3)
        graph.replay()
        torch.cuda.synchronize()
    except RuntimeError as error:
        return str(error).splitlines()[0]
    return ""


def guarded(loop: Loop, count: int) -> str:
    """Steps in which torch refuses what waits for the GPU. Returns what it refused; empty: nothing."""
    synchronize()
    try:
        with nullcontext() if ON_CPU else sync_errors():
            loop.steps(count)
    except RuntimeError as error:
        return str(error).splitlines()[0]
    return ""


class sync_errors:
    """torch refuses what waits for the GPU, in the block."""

    def __enter__(self) -> None:
        torch.cuda.set_sync_debug_mode("error")

    def __exit__(self, *_: object) -> None:
        torch.cuda.set_sync_debug_mode("default")


def compiled() -> Found:
    """Forward and loss in one CUDA graph that torch.compile has made."""
    loop, count = Loop(256, samples=64), number("steps", 60)

    @torch.compile(mode="default" if ON_CPU else "reduce-overhead")
    def loss_of(inputs: Tensor) -> Tensor:
        return loop.model(inputs).square().mean()

    for _ in range(count):
        torch.compiler.cudagraph_mark_step_begin()
        loss = loss_of(loop.inputs)
        loss.backward()
        loop.optimizer.step()
        loop.optimizer.zero_grad()
    return {"steps": count, "loss": loss.item()}


def spread() -> Found:
    """A model that is put on a GPU without set_device, with loader workers and activations that are computed again."""
    join()
    loop = Loop(256, samples=1, wrap=lambda model: DistributedDataParallel(Checkpointed(model)))
    device, count = loop.inputs.device, number("steps", 60)
    loader = DataLoader(TensorDataset(torch.randn(count * 16, 256)), 16, num_workers=number("workers", 4))
    processes: set[int] = set()
    for step, (inputs,) in enumerate(loader):
        loss = loop.model(inputs.to(device).requires_grad_()).square().mean()
        loss.backward()
        loop.optimizer.step()
        loop.optimizer.zero_grad()
        if step == count // 2:
            processes = on_the_gpu()
    dist.barrier()
    dist.destroy_process_group()
    return {"pid": os.getpid(), "on_the_gpu": sorted(processes), "steps": count}


class Checkpointed(nn.Module):
    """Computes what its forward has computed again in backward, in the older of torch's ways."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, inputs: Tensor) -> Tensor:
        return checkpoint(self.inner, inputs, use_reentrant=True)


def on_the_gpu() -> set[int]:
    """The processes that have a context on a GPU, by NVIDIA's own tool."""
    if ON_CPU:
        return set()
    words = ("nvidia-smi", "--query-compute-apps=pid", "--format=csv,noheader")
    done = subprocess.run(words, capture_output=True, text=True, timeout=30, check=False)
    return {int(line) for line in done.stdout.split() if line.isdigit()}


def sharded() -> Found:
    """FSDP2 in a group of one."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    join()
    mesh = init_device_mesh("cpu" if ON_CPU else "cuda", (dist.get_world_size(),))

    def shard(model: nn.Module) -> nn.Module:
        for layer in model:
            if isinstance(layer, nn.Linear):
                fully_shard(layer, mesh=mesh)
        return fully_shard(model, mesh=mesh)

    loop, count = Loop(number("wide", 2048), samples=256, wrap=shard), number("steps", 200)
    taken = []
    for _ in range(2):
        loop.steps(count // 2)
        synchronize()
        taken.append(0 if ON_CPU else torch.cuda.memory_allocated())
    dist.destroy_process_group()
    return {"steps": count, "bytes": taken}


TRAININGS = (paced, late, grouped, handled, overwritten, captured, compiled, spread, sharded)

if __name__ == "__main__":
    [training] = [each for each in TRAININGS if each.__name__ == sys.argv[1]]
    torch.set_num_threads(1)
    found = training() | {"rank": int(os.environ.get("RANK", 0))}
    os.write(1, f"{json.dumps({'found': found})}\n".encode())  # at once: two ranks write here

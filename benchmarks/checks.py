"""CPU time of a watched rank's readings for the checks, as a share of its training's time, for models of several sizes.

    python -m benchmarks.checks [SECONDS]

The thread's CPU time within the readings of workers/watch/checks.py, over the time of a loop of so many seconds (60).
In other steps the observer only counts: 0.2 µs. One process, one thread: with more threads, a sum takes the same CPU
time in less time. The goal is 0.5% in a minute.
"""

import sys
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from workers.instruments.clock import Clock
from workers.watch.checks import Checks

SECONDS = 60.0
SHAPES = ((16, 1), (256, 4), (1024, 8), (2048, 16), (4096, 16), (64, 300))  # width and depth
BATCH, GOAL = 32, 0.005


class Timed:
    """Adds up the CPU time and the number of calls of functions."""

    def __init__(self) -> None:
        self.seconds, self.readings = 0.0, 0

    def call(self, function: Callable[..., Any], *arguments: Any, **options: Any) -> None:
        """Call a function of the checks, and read what it returns as the sending thread would."""
        begin = time.thread_time()
        reading = function(*arguments, **options)
        if reading is not None:
            reading.read()
            self.readings += 1
        self.seconds += time.thread_time() - begin


def main() -> None:
    """Print a line for each model."""
    torch.set_num_threads(1)
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else SECONDS
    print(
        f"{'parameters':>12} {'tensors':>8} {'steps':>7} {'a step':>10} {'readings':>9} {'CPU time':>10} {'share':>7}"
    )
    for width, depth in SHAPES:
        net = nn.Sequential(*(nn.Linear(width, width) for _ in range(depth)))
        share = measure(net, torch.randn(BATCH, width), seconds)
        print(share, flush=True)


def measure(net: nn.Module, inputs: torch.Tensor, seconds: float) -> str:
    """Train for so many seconds, and describe what the readings took."""
    optimizer, timed, steps = torch.optim.SGD(net.parameters(), lr=1e-4), Timed(), 0
    checks = Checks(Clock(), torch.device("cpu"), 0)
    checks.learn(net)
    begin = time.perf_counter()
    while (took := time.perf_counter() - begin) < seconds:
        optimizer.zero_grad()
        is_due = checks.is_due  # as the observer asks before each call
        if is_due:
            timed.call(checks.forward_begins, None, (inputs,))
        loss = net(inputs).square().mean()
        if is_due:
            timed.call(checks.backward_begins, loss, 0)
        loss.backward()
        checks.count()
        if is_due:
            timed.call(checks.backward_ends, 0, is_outermost=True)
            timed.call(checks.optimizer_begins, optimizer)
        optimizer.step()
        if is_due:
            timed.call(checks.optimizer_ends, optimizer)
        steps += 1
    tensors = [*net.parameters()]
    share = timed.seconds / took
    return (
        f"{sum(each.numel() for each in tensors):>12,} {len(tensors):>8} {steps:>7} {took / steps * 1e3:>7.2f} ms "
        f"{timed.readings:>9} {timed.seconds * 1e3:>7.0f} ms {share:>7.2%}{' !' * (share > GOAL)}"
    )


if __name__ == "__main__":
    main()

"""Trains as a script does, but `ddptui watch` sees only every other block of its steps: both sides are in one launch.

A block that it does not see has no notes, no records and no messages. What stands between the training and torch stays
there, and lets its calls through: this part of the price is on both sides.

At its end it prints, in JSON, a list of its blocks: whether it was watched, how long a step took, and how much CPU time
the threads of the rank and the console took a step, in s. Two launches of the same script may differ by a tenth; blocks
of one launch differ by as much, but there are many.

    ddptui watch -- torchrun … -m benchmarks.watched_blocks STEPS SCRIPT [ARGUMENTS]    STEPS: of a block
"""

import json
import os
import runpy
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import psutil
from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_post_hook

from ddptui.wire import phases

FIRST = 50  # steps before the first block
LEFT_OUT = 0.35  # of a block, at its beginning: the reporter and the console are still at the block before
S = 1e9  # ns


class Blocks:
    """Counts the steps of this process, and lets go of the training in every other block of them."""

    def __init__(self, steps: int) -> None:
        self._steps, self._done = steps, -FIRST
        self._patches: Any = phases.listener._patches  # type: ignore[union-attr]
        self._watch: dict[str, Any] = {}  # what was taken away
        self._console = watching_console()
        children = psutil.Process(int(self._console)).children()
        self._relay = str(next(child.pid for child in children if "workers.relay" in child.cmdline()))
        self._began: tuple[float, Counter[str]] = 0.0, Counter()
        self.blocks: list[dict[str, Any]] = []

    def stepped(self, *_: Optimizer | Any) -> None:
        """A step has ended."""
        self._done += 1
        block, step = divmod(self._done, self._steps)
        first = round(LEFT_OUT * self._steps)
        if block >= 0 and step == first:
            self._began = time.perf_counter(), self._cpu_s()
        elif block >= 0 and step == self._steps - 1:
            took_s, cpu_s = time.perf_counter() - self._began[0], self._cpu_s()
            cpu_s.subtract(self._began[1])
            of_step = {name: s / (step - first) for name, s in cpu_s.items()}
            self.blocks.append({"watched": not self._watch, "step_s": took_s / (step - first), "cpu_s": of_step})
            self._turn()

    def _turn(self) -> None:
        """Take from the hooks and the tap what they tell, or give it back."""
        patches, watch = self._patches, self._watch
        if watch:
            patches._observer, watch["tap"]._timer, patches._is_over = watch["observer"], watch["timer"], False
            self._watch = {}
        else:
            observer = patches._observer
            self._watch = {"observer": observer, "tap": observer._tap, "timer": observer._tap._timer}
            patches._observer, observer._tap._timer, patches._is_over = None, None, True
        patches.changed()

    def _cpu_s(self) -> Counter[str]:
        """The CPU time so far, by the name of a thread of this process, and of the console."""
        observer = self._patches._observer or self._watch["observer"]
        names = {str(threading.get_native_id()): "MainThread", str(observer._sender.thread.native_id): "reporter"}
        cpu_s = Counter[str]()
        for thread, s in thread_times("self"):
            cpu_s[names.get(thread, "torch's own")] += s
        cpu_s["console"] = sum(s for _, s in thread_times(self._console))
        cpu_s["relay"] = sum(s for _, s in thread_times(self._relay))
        return cpu_s


def watching_console() -> str:
    """The process that watches this one: the nearest ancestor that is a ddptui."""
    parents = psutil.Process().parents()
    return str(next(parent.pid for parent in parents if {"ddptui", "watch"} <= {*parent.cmdline()}))


def thread_times(process: str) -> list[tuple[str, float]]:
    """The threads of a process, each with its time on a core, in s (proc(5), schedstat)."""
    times = []
    for file in Path("/proc", process, "task").glob("*/schedstat"):
        try:
            times.append((file.parent.name, int(file.read_text().split()[0]) / S))
        except OSError:  # it has ended meanwhile
            continue
    return times


if __name__ == "__main__":
    steps, *sys.argv = sys.argv[1:]
    blocks = Blocks(int(steps))
    register_optimizer_step_post_hook(blocks.stepped)
    runpy.run_path(sys.argv[0], run_name="__main__")
    if os.environ.get("RANK", "0") == "0":
        print(json.dumps(blocks.blocks))

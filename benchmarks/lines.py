"""Lines of code: what the sampler costs, and how much of a delay the lines explain.

    python -m benchmarks.lines [SECONDS]

Cost: CPU time of the sampler's thread (workers/instruments/sampler.py), as a share of a core, while a loop of torch
calls trains for so many seconds (20) at the usual and at the highest rate, with other threads, and with a flat and a
deep stack. The goal is 0.4% at the highest rate.

Truth: `ddptui watch` on trainings whose rank 1 is late by about 20 ms a step at one known line
(tests/support/trainings/lines): whether the first line is that one, how much of the excess the lines explain (the goal
is 90%), and how far the sum of lines and rest is from the excess. Alone, then beside two busy loops.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch
from torch import nn

from ddptui.run.watch_supervisor import PER_S, PER_S_IF_LATE
from workers.instruments.sampler import Sampler
from workers.watch.sender import named_code

SECONDS, RATES, GOAL = 20.0, (PER_S, PER_S_IF_LATE, 50), 0.004
DEPTHS = (0, 60)  # functions that call each other around the loop
OTHERS = 8  # threads that sleep
PROGRAMS = Path(__file__).parents[1] / "tests" / "support" / "trainings" / "lines"
KINDS = ("dataset", "collate-busy", "tokenizer", "hook", "deep", "item", "collect", "clip", "optimizer", "workers-busy")
BUSY = (sys.executable, "-c", "while True: pass")


def main() -> None:
    """Print a line for each measurement."""
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else SECONDS
    torch.set_num_threads(1)
    print(f"{'rate':>5} {'depth':>6} {'samples':>8} {'a sample':>10} {'of a core':>10}")
    for rate in RATES:
        for depth in DEPTHS:
            print(cost(rate, depth, seconds), flush=True)
    print(f"\n{'kind':<14} {'beside':>7} {'late':>9} {'explained':>10} {'off':>6}  first line")
    for busy in (0, 2):
        with ExitStack() as stack:
            for _ in range(busy):
                process = stack.enter_context(subprocess.Popen(BUSY))
                stack.callback(process.kill)
            for kind in KINDS:
                print(truth(kind, busy), flush=True)


def cost(rate: int, depth: int, seconds: float) -> str:
    """What sampling a training loop costs, in a sentence of figures."""
    used: list[float] = []
    sampler = Sampler(threading.get_ident(), named_code)
    sampler.per_s = rate

    def run() -> None:
        sampler.run()
        used.append(time.thread_time())

    over = threading.Event()
    others = [threading.Thread(target=over.wait) for _ in range(OTHERS)]
    thread = threading.Thread(target=run)
    for each in (*others, thread):
        each.start()
    _deep(depth, seconds)
    sampler.close()
    over.set()
    for each in (*others, thread):
        each.join()
    samples, share = len(sampler.taken()), used[0] / seconds
    return f"{rate:>5} {depth:>6} {samples:>8} {used[0] / samples * 1e6:>7.0f} µs {share:>9.2%}{' !' * (share > GOAL)}"


def _deep(depth: int, seconds: float) -> None:
    if depth:
        _deep(depth - 1, seconds)
        return
    net = nn.Sequential(nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 256))
    inputs, end = torch.randn(64, 256), time.monotonic() + seconds
    while time.monotonic() < end:
        net(inputs).square().mean().backward()


def truth(kind: str, busy: int) -> str:
    """What `ddptui watch` says of a training that is late at a known line."""
    with tempfile.TemporaryDirectory() as runs:
        launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2"]
        command = [*launcher, str(PROGRAMS / "late.py"), kind]
        ddptui = [str(Path(sys.executable).parent / "ddptui"), "watch", "--no-ui", "--runs", runs, "--"]
        environment = os.environ | {"OMP_NUM_THREADS": "1"}
        subprocess.run([*ddptui, *command], cwd=PROGRAMS, env=environment, capture_output=True, check=True)
        [results] = Path(runs).glob("*/results.json")
        findings: list[dict[str, Any]] = json.loads(results.read_text())["trials"][0]["findings"]
    late = next((finding for finding in findings if finding["kind"] == "late_rank"), None)
    if late is None or not late.get("lines"):
        return f"{kind:<14} {busy:>7} {'no line' if late else 'no late rank'} !"
    late_ms, explained = late["numbers"]["late_ms"], sum(line["ms"] for line in late["lines"])
    off = abs(explained + late["numbers"]["unexplained_ms"] - late_ms) / late_ms
    first = late["lines"][0]["place"]
    mark = "" if _is_marked(first, kind) else " !"
    return f"{kind:<14} {busy:>7} {late_ms:>6.1f} ms {explained / late_ms:>10.0%} {off:>6.1%}  {first}{mark}"


def _is_marked(place: str, kind: str) -> bool:
    """Whether the lines of a place include one that is marked as slow in this kind."""
    file, first, last = re.search(r"([\w.]+):(\d+)(?: to (\d+))?$", place).groups()  # type: ignore[union-attr]
    lines = (PROGRAMS / file).read_text().splitlines()[int(first) - 1 : int(last or first)]
    return any(re.search(rf"# slow:.*\b{kind}(?![\w-])", line) for line in lines)


if __name__ == "__main__":
    main()

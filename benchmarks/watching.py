"""What watching a training costs it, and whether what it finds is right.

Cost. Goal: at most 1.01 times the step from 5 ms on, 1.04 at 1.5 to 3 ms, and 0.4 s a launch besides. In one launch of
two ranks, blocks of steps are watched and let alone in turn (watched_blocks.py); medians of their ratios. Ranks are in
SCHED_BATCH, since else steps wait for the scheduler's tick now and then. Then launches of few steps, watched and not.

Accuracy. Goal: rank and phase right every time, the amount within 3 %; where nothing is put in, nobody is named. The
script itself sleeps in one place: see tests/support/trainings/plain.py.

    python -m benchmarks.watching cost [PAIRS]
    python -m benchmarks.watching accuracy [ROUNDS]
    python -m benchmarks.watching nobody [LAUNCHES]
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

SCRIPT = Path(__file__).parents[1] / "tests" / "support" / "trainings" / "plain.py"
WATCH = [sys.executable, "-m", "ddptui", "watch", "--no-ui", "--"]
COSTS = {  # what makes a step about so long on two cores: how many steps there are in a block, and the options
    "2 ms": (300, "ddp", "width=1536"),
    "2.5 ms, by hand": (240, "by_hand", "width=1536"),
    "5 ms": (120, "ddp", "width=12288"),
    "5 ms, a larger batch": (120, "ddp", "width=2048", "batch=128", "samples=8192"),
}
STEPS_AN_EPOCH = 32
CORE = ["width=2048", "batch=256", "samples=4096", "epochs=50", "busy_s=120"]  # so that a rank wants its core
LATE = {  # where the script sleeps: the rank, the phase, ms at a time, and every so many steps
    "data": (1, "data", 20, 1),
    "forward": (1, "forward", 20, 1),
    "backward": (1, "backward", 20, 1),
    "checkpoint": (0, "between steps", 100, 10),
    "core": (1, "core", 0, 1),  # another process wants the rank's core all the time
}
WITHOUT_CORE = re.compile(r"Rank (\d+) holds everyone up.*other programs have its core", re.IGNORECASE | re.DOTALL)


def torchrun(ranks: int, *words: str, program: Sequence[str] = ()) -> list[str]:
    """The command that trains with so many ranks. program: that gets the script as its argument."""
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={ranks}"]
    return [*launcher, *program, str(SCRIPT), *words]


def run(command: list[str], runs: Path) -> "subprocess.CompletedProcess[str]":
    """Run a command to its end; ddptui keeps its runs in a folder of their own."""
    environment = {**os.environ, "DDPTUI_RUNS": str(runs)}
    return subprocess.run(command, env=environment, check=True, capture_output=True, text=True)


def cost(pairs: int) -> None:
    """Print what watching costs a step, by so many pairs of blocks; and then a launch, by a quarter as many."""
    for name, (steps, way, *options) in COSTS.items():
        epochs = 2 * pairs * steps // STEPS_AN_EPOCH + 3
        blocks = ["-m", "benchmarks.watched_blocks", str(steps)]
        command = torchrun(2, way, "none", "batch_class=1", f"epochs={epochs}", *options, program=blocks)
        with tempfile.TemporaryDirectory() as folder:
            done = run([*WATCH, *command], Path(folder))
        print(f"{name}: {_of_blocks(json.loads(done.stdout.splitlines()[-1]))}", flush=True)
    command = torchrun(2, "ddp", "none", "batch_class=1", "epochs=2")
    longer = []
    for number in range(max(3, pairs // 4)):
        s = {}
        for watched in (number % 2 == 0, number % 2 == 1):
            began = time.perf_counter()
            with tempfile.TemporaryDirectory() as folder:
                run([*WATCH, *command] if watched else command, Path(folder))
            s[watched] = time.perf_counter() - began
        longer.append(s[True] - s[False])
    print(f"a launch takes {median(longer):.2f} s longer, median of {len(longer)}", flush=True)


def _of_blocks(blocks: Sequence[Mapping[str, Any]]) -> str:
    """The ratio of neighboring blocks, and what takes the CPU time that watching adds."""
    pairs = [sorted(pair, key=lambda block: not block["watched"]) for pair in pairwise(blocks)]
    ratios = sorted(mine["step_s"] / its["step_s"] for mine, its in pairs)
    low, high = ratios[len(ratios) // 4], ratios[-1 - len(ratios) // 4]
    names = dict.fromkeys(name for block in blocks for name in block["cpu_s"] if name != "torch's own")
    cpu_us = {
        name: 1e6 * median(mine["cpu_s"].get(name, 0.0) - its["cpu_s"].get(name, 0.0) for mine, its in pairs)
        for name in names
    }
    step_ms = 1000 * median(its["step_s"] for _, its in pairs)
    half = f"half of {len(pairs)} pairs: {low:.3f} to {high:.3f}"
    return (
        f"a step of {step_ms:.2f} ms takes {median(ratios):.3f} times as long ({half}); "
        f"CPU time a step in us: {', '.join(f'{name} {us:+.0f}' for name, us in cpu_us.items())}"
    )


def result(runs: Path, command: list[str]) -> tuple[dict[str, Any], str]:
    """results.json's only trial of a watched command, and the report."""
    said = run([*WATCH, *command], runs).stderr
    [results] = runs.glob("*/results.json")
    [trial] = json.loads(results.read_text())["trials"]
    return dict(trial), said


def accuracy(rounds: int) -> None:
    """Print who was found late, where and by how much."""
    for ranks in (2, 4):
        for way in ("ddp", "by_hand"):
            for where, (rank, phase, ms, every) in LATE.items():
                found, errors = [], []
                options = CORE if where == "core" else [f"late_ms={ms}", "epochs=6"]
                for _ in range(rounds):
                    with tempfile.TemporaryDirectory() as folder:
                        trial, said = result(Path(folder), torchrun(ranks, way, where, *options))
                    culprit, steps = trial["summary"]["culprit"], trial["repeats"][0]["steps"]
                    if without_core := WITHOUT_CORE.search(said):
                        found.append((int(without_core[1]), "core"))
                        continue
                    found.append((culprit["rank"], culprit["phase"]) if culprit else None)
                    if culprit:
                        last = steps + 3
                        put_in = sum(1 for step in range(4, last + 1) if step % every == 0) * ms / 1000
                        errors.append(culprit["excess_s"]["estimate"] / put_in - 1)
                right = sum(each == (rank, phase) for each in found)
                worst = f", off by {max(errors, key=abs):+.1%} at most" if errors and ms else ""
                others = {str(each) for each in found if each != (rank, phase)}
                wrong = f"; others: {', '.join(others)}" if others else ""
                print(f"{ranks} ranks, {way}, {where}: right {right} of {rounds}{worst}{wrong}", flush=True)


def nobody(launches: int) -> None:
    """Print which ranks are named although nothing was put in."""
    for way in ("ddp", "by_hand"):
        named = []
        for _ in range(launches):
            with tempfile.TemporaryDirectory() as folder:
                trial, said = result(Path(folder), torchrun(2, way, "none", "width=1024", "epochs=20"))
            if culprit := trial["summary"]["culprit"]:
                named.append((culprit["rank"], culprit["phase"], round(culprit["excess_s"]["estimate"], 3)))
            elif without_core := WITHOUT_CORE.search(said):
                named.append((int(without_core[1]), "core", 0.0))
        print(f"{way}: a rank was named in {len(named)} of {launches} launches: {named}", flush=True)


if __name__ == "__main__":
    what, *number = sys.argv[1:]
    {"cost": cost, "accuracy": accuracy, "nobody": nobody}[what](int(number[0]) if number else 15)

"""What watching a training costs it, and whether what it finds is right: the same scripts with and without ddptui.

Cost. Goal: at most 1.01 times the step from 5 ms on, 1.04 at 1.5 to 3 ms, and 0.4 s a launch besides. A training of two
ranks is launched with and without, in turn, the order turned each round; a step takes as long as on the slower rank.
Medians of the rounds' ratios. (Two launches of the same differ by more than watching costs: hence many rounds. Ranks
are in SCHED_BATCH, since else steps wait for the scheduler's tick now and then.)

Accuracy. Goal: rank and phase right every time, the amount within 3 %; where nothing is put in, nobody is named. The
script itself sleeps in one place: see tests/support/trainings/plain.py.

    python -m benchmarks.watching cost [ROUNDS]
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
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

SCRIPT = Path(__file__).parents[1] / "tests" / "support" / "trainings" / "plain.py"
TOOK = re.compile(r"took ([\d.]+) s for (\d+) steps")
WATCH = [sys.executable, "-m", "ddptui", "watch", "--no-ui", "--"]
COSTS = {  # what makes a step about so long on two cores
    "1.5 ms": ("ddp", "width=128", "epochs=48"),
    "3 ms": ("ddp", "width=3072", "epochs=32"),
    "3 ms, by hand": ("by_hand", "width=2048", "epochs=32"),
    "9 ms": ("ddp", "width=12288", "epochs=12"),
}
LATE = {  # where the script sleeps: the rank, the phase, ms at a time, and every so many steps
    "data": (1, "data", 20, 1),
    "forward": (1, "forward", 20, 1),
    "backward": (1, "backward", 20, 1),
    "checkpoint": (0, "between steps", 100, 10),
}


class Launch(NamedTuple):
    """A launch of the script: how long it took, and how long a step on the slower rank, in s."""

    whole_s: float
    step_s: float


def torchrun(ranks: int, *words: str) -> list[str]:
    """The command that trains with so many ranks."""
    return [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        f"--nproc_per_node={ranks}",
        str(SCRIPT),
        *words,
    ]


def run(command: list[str], runs: Path) -> "subprocess.CompletedProcess[str]":
    """Run a command to its end; ddptui keeps its runs in a folder of their own."""
    environment = {**os.environ, "DDPTUI_RUNS": str(runs)}
    return subprocess.run(command, env=environment, check=True, capture_output=True, text=True)


def launch(command: list[str], runs: Path) -> Launch:
    """Run a command to its end."""
    began = time.perf_counter()
    done = run(command, runs)
    whole_s = time.perf_counter() - began
    return Launch(whole_s, max(float(s) / int(steps) for s, steps in TOOK.findall(done.stdout)))


def cost(rounds: int) -> None:
    """Print what watching costs."""
    for name, (way, *options) in COSTS.items():
        command = torchrun(2, way, "none", "batch_class=1", *options)
        pairs: list[tuple[Launch, Launch]] = []
        with tempfile.TemporaryDirectory() as folder:
            for number in range(rounds):
                sides = {}
                for watched in (number % 2 == 0, number % 2 == 1):
                    sides[watched] = launch([*WATCH, *command] if watched else command, Path(folder))
                pairs.append((sides[True], sides[False]))
        ratios = sorted(mine.step_s / its.step_s for mine, its in pairs)
        step_ms = 1000 * median(its.step_s for _, its in pairs)
        besides = median(mine.whole_s - its.whole_s for mine, its in pairs)
        low, high = ratios[len(ratios) // 4], ratios[-1 - len(ratios) // 4]
        print(
            f"{name}: a step of {step_ms:.2f} ms takes {median(ratios):.3f} times as long (half of {rounds} rounds: "
            f"{low:.3f} to {high:.3f}); a launch takes {besides:.2f} s longer",
            flush=True,
        )


def result(runs: Path, command: list[str]) -> dict[str, Any]:
    """results.json's only trial of a watched command."""
    run([*WATCH, *command], runs)
    [results] = runs.glob("*/results.json")
    [trial] = json.loads(results.read_text())["trials"]
    return dict(trial)


def accuracy(rounds: int) -> None:
    """Print who was found late, where and by how much."""
    for ranks in (2, 4):
        for way in ("ddp", "by_hand"):
            for where, (rank, phase, ms, every) in LATE.items():
                found, errors = [], []
                for _ in range(rounds):
                    with tempfile.TemporaryDirectory() as folder:
                        trial = result(Path(folder), torchrun(ranks, way, where, f"late_ms={ms}", "epochs=6"))
                    culprit, steps = trial["summary"]["culprit"], trial["repeats"][0]["steps"]
                    found.append((culprit["rank"], culprit["phase"]) if culprit else None)
                    if culprit:
                        last = steps + 3
                        put_in = sum(1 for step in range(4, last + 1) if step % every == 0) * ms / 1000
                        errors.append(culprit["excess_s"]["estimate"] / put_in - 1)
                right = sum(each == (rank, phase) for each in found)
                worst = max(errors, key=abs, default=float("nan"))
                print(
                    f"{ranks} ranks, {way}, {where}: right {right} of {rounds}, off by {worst:+.1%} at most", flush=True
                )


def nobody(launches: int) -> None:
    """Print which ranks are named although nothing was put in."""
    for way in ("ddp", "by_hand"):
        named = []
        for _ in range(launches):
            with tempfile.TemporaryDirectory() as folder:
                trial = result(Path(folder), torchrun(2, way, "none", "width=1024", "epochs=20"))
            if culprit := trial["summary"]["culprit"]:
                named.append((culprit["rank"], culprit["phase"], round(culprit["excess_s"]["estimate"], 3)))
        print(f"{way}: a rank was named in {len(named)} of {launches} launches: {named}", flush=True)


if __name__ == "__main__":
    what, *number = sys.argv[1:]
    {"cost": cost, "accuracy": accuracy, "nobody": nobody}[what](int(number[0]) if number else 15)

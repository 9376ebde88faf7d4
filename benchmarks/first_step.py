"""From Enter to the first finished training step with 2 ranks: ddptui against a bare script (bare_spawn.py).

Goal: at most 1.15 times. The two in turn, medians of pairs.

    python benchmarks/first_step.py [PAIRS]
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import msgspec

from ddptui.wire.messages import Step
from ddptui.wire.records import Message

PRESET = """
[[trial]]
name = "bare"
launch = "spawn"
strategy = "all_reduce"
threads = 1
steps = 4
"""


def with_ddptui() -> float:
    with tempfile.TemporaryDirectory() as folder:
        preset = Path(folder) / "bare.toml"
        preset.write_text(PRESET, encoding="utf-8")
        begin = time.monotonic_ns()
        command = [sys.executable, "-m", "ddptui", "--preset", str(preset), "--no-ui", "--runs", folder]
        subprocess.run(command, check=True, capture_output=True)
        [journal] = Path(folder).glob("*/trial-bare/repeat-1/messages.jsonl")
        messages = [msgspec.json.decode(line, type=Message) for line in journal.read_bytes().splitlines()]
    ends = [message.end_ns for message in messages if isinstance(message, Step) and message.step == 0]
    return (max(ends) - begin) / 1e9


def bare() -> float:
    script = Path(__file__).with_name("bare_spawn.py")
    begin = time.monotonic_ns()
    # One thread a rank from the start, as ddptui gives it: with all cores each, two ranks would be in each other's way.
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(script.parent.parent)}
    done = subprocess.run([sys.executable, str(script)], check=True, capture_output=True, text=True, env=environment)
    return (max(map(int, done.stdout.split())) - begin) / 1e9


def main() -> None:
    pairs = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    with_ddptui(), bare()  # once each unmeasured, for the page cache
    timed = [(with_ddptui(), bare()) for _ in range(pairs)]
    ours, theirs = (median(side) for side in zip(*timed, strict=True))
    ratio = median(a / b for a, b in timed)
    print(f"ddptui       {ours:6.2f} s")
    print(f"bare script  {theirs:6.2f} s")
    print(f"ratio        {ratio:6.2f}     (goal: at most 1.15; median of {pairs} pairs)")


if __name__ == "__main__":
    main()

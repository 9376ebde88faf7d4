"""What does the console that draws cost the ranks that it draws, against the same run headless?

Goal: a step of two ranks at most 1.02 times as long. Launches in turn, medians of pairs.

    python -m benchmarks.console_disturbs [PAIRS]
"""

import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

from benchmarks.terminal import Terminal
from ddptui.store.overview import results_of
from ddptui.store.runs import all_runs

CONSOLE = str(Path(sys.executable).with_name("ddptui"))
TWO_RANKS = """
[[trial]]
name = "two"
model = "net"
batch_size = 128
steps = 600
threads = 1
sched_batch = true
"""


def step_ms(preset: Path, *, drawn: bool) -> float:
    with tempfile.TemporaryDirectory() as runs:
        command = [CONSOLE, "--preset", str(preset), "--runs", runs]
        if drawn:
            with Terminal(command) as terminal:
                terminal.wait_for("▸ result".encode())
        else:
            subprocess.run([*command, "--no-ui"], check=True, capture_output=True)
        [run] = all_runs(Path(runs))
        [trial] = results_of(run, run.preset()).trials
    assert trial.repeats[0].step_ms is not None
    return trial.repeats[0].step_ms.median


def main() -> None:
    pairs = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    with tempfile.TemporaryDirectory() as folder:
        preset = Path(folder, "two.toml")
        preset.write_text(TWO_RANKS)
        timed = [(step_ms(preset, drawn=True), step_ms(preset, drawn=False)) for _ in range(pairs)]
    drawn, headless = (median(side) for side in zip(*timed, strict=True))
    ratio = median(ours / theirs for ours, theirs in timed)
    print(f"a step with the console {drawn:6.2f} ms, headless {headless:6.2f} ms")
    print(f"ratio                   {ratio:6.2f}     (goal: at most 1.02; median of {pairs} pairs)")


if __name__ == "__main__":
    main()

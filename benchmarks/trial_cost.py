"""What a trial costs besides its steps, against the same training bare (bare_spawn.py): from its launch to the end of
the first step, and from the end of the last one to the end of its processes.

Goal: at most 0.5 s more. The two in turn, medians of pairs. The lab's end includes what the bare script leaves out: the
accuracy on held-out samples, hashes of all tensors, and the audit of the mean.

    python benchmarks/trial_cost.py [PAIRS]
"""

import os
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path
from statistics import median

from ddptui.config.preset import Preset
from ddptui.config.trial_values import make_trial
from ddptui.host.machine import describe
from ddptui.run import lab
from ddptui.store.runs import Run
from ddptui.wire.messages import Step
from ddptui.wire.records import Ended, Launched

STEPS = 20
S = 1e9  # ns


def with_ddptui() -> tuple[float, float]:
    """Seconds before the end of the first step, and after the end of the last."""
    trial = make_trial({"name": "bare", "strategy": "all_reduce", "threads": 1, "steps": STEPS})
    preset = Preset(name="cost", title="", group="", about="", baseline="bare", repeats=1, trials=(trial,))
    ends: list[int] = []
    with tempfile.TemporaryDirectory() as folder:
        run = Run.create(Path(folder), preset, describe())
        with closing(lab.run_preset(preset, run)) as stream:
            for message in stream:
                match message:
                    case Launched():
                        begin = message.at_ns
                    case Step():
                        ends.append(message.end_ns)
                    case Ended():
                        end = message.at_ns
    return (max(sorted(ends)[:2]) - begin) / S, (end - max(ends)) / S


def bare() -> tuple[float, float]:
    script = Path(__file__).with_name("bare_spawn.py")
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(script.parent.parent)}
    begin = time.monotonic_ns()
    command = [sys.executable, str(script), str(STEPS)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    end = time.monotonic_ns()
    ends = sorted(map(int, done.stdout.split()))
    return (ends[1] - begin) / S, (end - ends[-1]) / S


def main() -> None:
    pairs = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    with_ddptui(), bare()  # once each unmeasured, for the page cache
    timed = [(with_ddptui(), bare()) for _ in range(pairs)]
    print(f"                       ddptui     bare   median difference ({pairs} pairs)")
    for place, name in enumerate(("to the first step", "from the last step")):
        ours, theirs = (median(side[place] for side in sides) for sides in zip(*timed, strict=True))
        more = median(a[place] - b[place] for a, b in timed)
        print(f"{name:20} {ours:7.2f} s {theirs:6.2f} s   {more:+.2f} s")
    both = median(sum(a) - sum(b) for a, b in timed)
    print(f"both                                      {both:+.2f} s  (goal: at most 0.5 s)")


if __name__ == "__main__":
    main()

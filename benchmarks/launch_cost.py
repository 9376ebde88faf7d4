"""What a launch costs besides its steps, against the same training in a bare script (bare_spawn.py): until the end of
the first step, and from the end of the last one to the end of its processes. The warm parent has imported all before.
At its end ddptui also measures the accuracy on held-out samples, hashes all tensors and audits the mean; the script
does none of this.

Then the whole of a command typed in a shell, which has to import torch first, against one launch of the script.

Goals: to the first step, at most 0.06 of the script; the whole besides the steps, at most 0.5 s; the command, at most
1.5 of the script. The two sides in turn, medians.

    python -m benchmarks.launch_cost [PAIRS]
"""

import os
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path
from statistics import median

from benchmarks.launches import messages
from ddptui.config.preset import Preset
from ddptui.config.values import make_trial
from ddptui.engines.local.warm import WarmParent
from ddptui.wire.messages import Step
from ddptui.wire.records import Ended

STEPS = 20
S = 1e9  # ns


def warm_launch(warm: WarmParent) -> tuple[float, float]:
    """Seconds before the end of the first step, and after the end of the last."""
    trial = make_trial({"name": "bare", "strategy": "all_reduce", "threads": 1, "steps": STEPS})
    preset = Preset(name="cost", title="", group="", about="", baseline="bare", repeats=1, trials=(trial,))
    ends: list[int] = []
    begin = time.monotonic_ns()
    for message in messages(preset, warm):
        match message:
            case Step():
                ends.append(message.end_ns)
            case Ended():
                end = message.at_ns
    return (max(sorted(ends)[:2]) - begin) / S, (end - max(ends)) / S


def bare_launch() -> tuple[float, float, float]:
    """Likewise, and the seconds of the whole script."""
    script = Path(__file__).with_name("bare_spawn.py")
    # one thread a rank from the start, as ddptui gives it: with all cores each, two ranks would be in each other's way
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(script.parent.parent)}
    begin = time.monotonic_ns()
    command = [sys.executable, str(script), str(STEPS)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    end = time.monotonic_ns()
    ends = sorted(map(int, done.stdout.split()))
    return (ends[1] - begin) / S, (end - ends[-1]) / S, (end - begin) / S


def quickstart() -> float:
    """Seconds of the preset `quickstart` from a shell, without the console, each trial once."""
    command = [sys.executable, "-m", "ddptui", "--preset", "quickstart", "--no-ui", "--repeats", "1"]
    with tempfile.TemporaryDirectory() as folder:
        begin = time.monotonic_ns()
        subprocess.run([*command, "--runs", folder], check=True, capture_output=True)
        return (time.monotonic_ns() - begin) / S


def main() -> None:
    pairs = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    with closing(WarmParent()) as warm:
        while not warm.is_ready(1):
            pass
        warm_launch(warm), bare_launch()  # once each unmeasured, for the page cache
        ours, theirs, commands = [], [], []
        for _ in range(pairs):
            ours.append(warm_launch(warm))
            theirs.append(bare_launch())
            commands.append(quickstart())
    first = median(a[0] / b[0] for a, b in zip(ours, theirs, strict=True))
    command = median(a / b[2] for a, b in zip(commands, theirs, strict=True))
    print(f"medians of {pairs}         ddptui    bare   ratio")
    print(
        f"to the first step   {median(a[0] for a in ours):6.2f} s {median(b[0] for b in theirs):5.2f} s   {first:.3f}"
        "  (goal: at most 0.06)"
    )
    print(f"from the last step  {median(a[1] for a in ours):6.2f} s {median(b[1] for b in theirs):5.2f} s")
    print(f"besides the steps   {median(map(sum, ours)):6.2f} s                  (goal: at most 0.5 s)")
    print(
        f"quickstart, whole   {median(commands):6.2f} s {median(b[2] for b in theirs):5.2f} s   {command:.2f}"
        "   (goal: at most 1.5)"
    )


if __name__ == "__main__":
    main()

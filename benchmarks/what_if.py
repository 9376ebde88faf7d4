"""What training would have taken without its culprit, against the same training really done without, in launches of the
lab itself: 2 ranks of 1 thread, in SCHED_BATCH.

Each launch trains through windows of 40 steps of some 30 ms. In every second one, rank 1 is late by 25 ms, at one site
after another; what the window would have taken without is set against the mean of the two quiet ones around it.
Goal: within 5 % in the median, 10 % at worst. (Launches differ by more than that among themselves.)

    python benchmarks/what_if.py [LAUNCHES]
"""

import sys
from collections.abc import Iterator, Mapping
from statistics import fmean, median
from typing import Any

from benchmarks.launches import run
from ddptui.analysis.launch_log import steps_within
from ddptui.analysis.verdict import analyze_waits
from ddptui.analysis.what_if import what_if
from ddptui.config.preset import Preset
from ddptui.config.trial import Bottleneck
from ddptui.config.trial_values import make_trial
from ddptui.wire.messages import Step

SITES = ("data", "forward", "backward", "aggregate")
STRATEGIES = ("all_reduce", "ddp")
SAMPLES, STEPS, WARM_UP, SLEEP_MS = 512, 40, 20, 25.0
S = 1e9  # ns


def preset(launches: int) -> Preset:
    delays = tuple(
        Bottleneck(at=site, ranks=(1,), sleep_ms=SLEEP_MS, from_step=first, to_step=first + STEPS - 1)  # type: ignore[arg-type]
        for site, first in zip(SITES, range(WARM_UP + STEPS, WARM_UP + 9 * STEPS, 2 * STEPS), strict=True)
    )
    values: dict[str, Any] = {"threads": 1, "sched_batch": True, "lr": 0.001, "batch_size": SAMPLES}
    values |= {"warmup_steps": WARM_UP, "steps": WARM_UP + (2 * len(SITES) + 1) * STEPS, "bottleneck": delays}
    trials = [
        make_trial(values | {"name": f"launch-{number}", "strategy": STRATEGIES[number % len(STRATEGIES)]})
        for number in range(launches)
    ]
    return Preset(name="what-if", title="", group="", about="", baseline="launch-0", repeats=1, trials=tuple(trials))


def errors(steps: Mapping[int, list[Step]]) -> Iterator[tuple[str, float | None]]:
    """Of each delayed window of a launch; None: nobody was named."""
    windows = [
        analyze_waits(steps_within(steps, range(first, first + STEPS)))
        for first in range(WARM_UP, WARM_UP + (2 * len(SITES) + 1) * STEPS, STEPS)
    ]
    for number, site in enumerate(SITES):
        before, late, after = windows[2 * number : 2 * number + 3]
        assert before is not None
        assert late is not None
        assert after is not None
        promised = what_if(late).without_culprit
        really = fmean((before.train_ns, after.train_ns)) / S
        yield site, promised / really - 1 if promised is not None else None


def main() -> None:
    chosen = preset(int(sys.argv[1]) if len(sys.argv) > 1 else 8)
    found: dict[tuple[str, str], list[float | None]] = {}
    for trial, heard in zip(chosen.trials, run(chosen), strict=True):
        for site, error in errors(heard.steps):
            found.setdefault((str(trial.strategy), site), []).append(error)
    for (strategy, site), told in sorted(found.items()):
        line(f"{strategy}, 25 ms at {site}", told)
    line("all", [error for told in found.values() for error in told])


def line(name: str, told: list[float | None]) -> None:
    known = sorted((error for error in told if error is not None), key=abs)
    nobody = f", nobody named in {len(told) - len(known)}" if len(known) < len(told) else ""
    size = median(abs(error) for error in known)
    print(f"{name:30} median {median(known):+.1%} (size {size:.1%}), worst of {len(known)} {known[-1]:+.1%}{nobody}")


if __name__ == "__main__":
    main()

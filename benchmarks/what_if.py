"""What training would have taken without its culprit, against the same training really done without, in launches of the
lab itself: 2 ranks of 1 thread, in SCHED_BATCH.

Each launch trains through windows of 40 steps of some 30 ms. In every second one, rank 1 is late by 25 ms, at one site
after another; what the window would have taken without is set against the mean of the two quiet ones around it.
Goal: within 5 % in the median. (Launches differ by more than that among themselves.)

    python benchmarks/what_if.py [LAUNCHES]
"""

import sys
from collections.abc import Iterator, Mapping
from statistics import fmean, median
from typing import Any, NamedTuple

from benchmarks.launches import run
from ddptui.analysis.late import what_if
from ddptui.analysis.launch_data import steps_within
from ddptui.config.preset import Preset
from ddptui.config.trial import Bottleneck
from ddptui.config.values import make_trial
from ddptui.findings.verdict import analyze_waits
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


class Told(NamedTuple):
    """What was told of a delayed window, in s. promised: None: nobody was named."""

    promised: float | None
    really: float

    @property
    def error(self) -> float:
        return (self.promised or 0.0) / self.really - 1


def windows_told(steps: Mapping[int, list[Step]]) -> Iterator[tuple[str, Told]]:
    """Of each delayed window of a launch."""
    windows = [
        analyze_waits(steps_within(steps, range(first, first + STEPS)))
        for first in range(WARM_UP, WARM_UP + (2 * len(SITES) + 1) * STEPS, STEPS)
    ]
    for number, site in enumerate(SITES):
        before, late, after = windows[2 * number : 2 * number + 3]
        assert before is not None
        assert late is not None
        assert after is not None
        yield site, Told(what_if(late).without_culprit, fmean((before.train_ns, after.train_ns)) / S)


def main() -> None:
    chosen = preset(int(sys.argv[1]) if len(sys.argv) > 1 else 8)
    found: dict[tuple[str, str], list[Told]] = {}
    for trial, heard in zip(chosen.trials, run(chosen), strict=True):
        for site, told in windows_told(heard.steps):
            found.setdefault((str(trial.strategy), site), []).append(told)
    for (strategy, site), of_site in sorted(found.items()):
        line(f"{strategy}, 25 ms at {site}", of_site)
    line("all", [told for of_site in found.values() for told in of_site])


def line(name: str, windows: list[Told]) -> None:
    known = sorted((told for told in windows if told.promised is not None), key=lambda told: abs(told.error))
    nobody = f", nobody named in {len(windows) - len(known)}" if len(known) < len(windows) else ""
    size = median(abs(told.error) for told in known)
    errors = f"median {median(told.error for told in known):+.1%} (size {size:.1%}), worst {known[-1].error:+.1%}"
    print(f"{name:30} {errors}{nobody}")
    if name == "all":
        ratios = sorted(told.really / (told.promised or 1.0) for told in known)
        low, high = quantile(ratios, 0.025), quantile(ratios, 0.975)
        print(f"  really over promised, in 95 of 100: {low:.2f} to {high:.2f}")


def quantile(ordered: list[float], part: float) -> float:
    return ordered[round(part * (len(ordered) - 1))]


if __name__ == "__main__":
    main()

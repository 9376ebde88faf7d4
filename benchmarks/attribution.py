"""What was put in against what is attributed, in launches of the lab itself: 2 ranks of 1 thread, in SCHED_BATCH.

Each launch trains through eight windows of 100 steps: in every second one, one rank is delayed at one site; in the
others nothing is put in. Half of the delays are of 25 ms, the others of 1 to 8 ms. Goals: right rank and phase; 25 ms
within 2 %; the interval holds what was put in, where that is at least twice the natural skew (the median difference of
the ranks' steps in the quiet windows of the launch), in 95 % of the windows; nobody is named in a quiet one.

    python benchmarks/attribution.py [LAUNCHES]
"""

import random
import sys
from collections.abc import Iterator, Mapping
from statistics import median
from typing import Any, NamedTuple

from benchmarks.launches import run
from ddptui.analysis.launch_log import injected_delay_s, steps_within
from ddptui.analysis.waits import align_steps
from ddptui.config.preset import Preset
from ddptui.config.trial import Bottleneck
from ddptui.config.trial_values import make_trial
from ddptui.findings.verdict import analyze_waits
from ddptui.wire.messages import Step

SITES = ("data", "forward", "backward", "aggregate")
STRATEGIES = ("all_reduce", "ddp")
WINDOWS, STEPS, WARM_UP = 8, 100, 40
SHORT_MS = (1, 1.5, 2, 3, 5, 8)
LONG_MS = 25
MS = 1e6  # ns


class Found(NamedTuple):
    """One window; ms over all its steps. Without a site nothing was put in."""

    site: str | None
    long: bool
    put_in: float
    skew: float  # natural, a step
    named: bool
    right: bool
    estimate: float
    low: float
    high: float


def preset(launches: int) -> Preset:
    trials = []
    for number in range(launches):
        strategy = STRATEGIES[number % 2]
        values: dict[str, Any] = {"name": f"launch-{number}", "strategy": strategy, "threads": 1, "sched_batch": True}
        values |= {"warmup_steps": WARM_UP, "steps": WARM_UP + WINDOWS * STEPS, "lr": 0.001}
        trials.append(make_trial(values | {"bottleneck": tuple(delay(number) for number in range(0, WINDOWS, 2))}))
    return Preset(
        name="attribution", title="", group="", about="", baseline="launch-0", repeats=1, trials=tuple(trials)
    )


def delay(number: int) -> Bottleneck:
    """Of a window."""
    first = WARM_UP + number * STEPS
    long = number % 4 == 0
    return Bottleneck(
        at=random.choice(SITES),  # type: ignore[arg-type]
        ranks=(random.randrange(2),),
        sleep_ms=LONG_MS if long else random.choice(SHORT_MS),
        from_step=first,
        to_step=first + STEPS - 1,
    )


def findings(delays: tuple[Bottleneck, ...], steps: Mapping[int, list[Step]]) -> Iterator[Found]:
    begins = range(WARM_UP, WARM_UP + WINDOWS * STEPS, STEPS)
    windows = [steps_within(steps, range(begin, begin + STEPS)) for begin in begins]
    quiet = [joined for each in windows[1::2] for joined in align_steps(each).steps]
    skew = median(abs(sum(step.ranks[0].work_ns) - sum(step.ranks[1].work_ns)) for step in quiet) / MS
    for number, here in enumerate(windows):
        judgement = analyze_waits(here)
        culprit = judgement.culprit if judgement else None
        own = delays[number // 2] if number % 2 == 0 else None
        yield Found(
            site=own.at if own else None,
            long=bool(own and own.sleep_ms == LONG_MS),
            put_in=injected_delay_s(here) * 1000,
            skew=skew,
            named=culprit is not None,
            right=bool(culprit and own and (culprit.rank, culprit.phase) == (own.ranks[0], own.at)),
            estimate=culprit.excess_s.estimate * 1000 if culprit else 0.0,
            low=culprit.excess_s.low * 1000 if culprit else 0.0,
            high=culprit.excess_s.high * 1000 if culprit else 0.0,
        )


def main() -> None:
    launches = int(sys.argv[1]) if len(sys.argv) > 1 else 26
    random.seed(launches)
    chosen = preset(launches)
    found: list[Found] = []
    for trial, heard in zip(chosen.trials, run(chosen), strict=True):
        found += findings(trial.bottleneck, heard.steps)
    quiet, delayed = [each for each in found if not each.site], [each for each in found if each.site]
    print(f"nothing put in: {sum(each.named for each in quiet)} culprits named in {len(quiet)} windows")
    for site in SITES:
        own = [each for each in delayed if each.site == site and each.long]
        if own:
            errors = sorted(abs(each.estimate / each.put_in - 1) for each in own)
            right = f"right rank and phase {sum(each.right for each in own)} of {len(own)}"
            print(f"25 ms at {site:10}: {right}; error median {median(errors):.2%}, worst {errors[-1]:.2%}")
    clear = [each for each in delayed if each.put_in >= 2 * each.skew * STEPS]
    named = [each for each in clear if each.named]
    held = sum(each.low <= each.put_in <= each.high for each in named)
    half = median((each.high - each.low) / 2 / each.put_in for each in named)
    right = sum(each.right for each in named)
    print(f"at least twice the natural skew: {len(clear)} windows, {len(named)} named, {right} right")
    print(f"  the interval holds it in {held} of {len(named)} ({held / len(named):.0%}); it is ± {half:.1%} wide")
    errors = [abs(each.estimate / each.put_in - 1) for each in named if not each.long]
    skew = median(each.skew for each in found)
    print(f"  1 to 8 ms: error median {median(errors):.2%}, worst {max(errors):.2%}; natural skew {skew:.2f} ms")


if __name__ == "__main__":
    main()

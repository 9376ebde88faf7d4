"""How soon is a delay that sets in named on the live stream, and is anybody else named before?

Goal: the right rank and phase within 3 s, never a wrong one first. Each launch trains undisturbed for a while; then one
rank is late by 25 ms in every step. The stream is folded as it comes, and judged four times a second.

    python benchmarks/live_verdict.py [LAUNCHES]
"""

import random
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from ddptui.config.preset import Preset
from ddptui.config.trial import Bottleneck
from ddptui.config.trial_values import make_trial
from ddptui.host.machine import describe
from ddptui.live.monitor import RunMonitor
from ddptui.run import lab
from ddptui.store.runs import Run
from ddptui.wire.messages import Step
from ddptui.wire.records import Ended, Launched

SITES = ("data", "forward", "backward", "aggregate")
STRATEGIES = ("all_reduce", "ddp")
QUIET_STEPS, LATE_STEPS, SLEEP_MS = 300, 150, 25.0
JUDGE_EVERY_S = 0.25


class Launch(NamedTuple):
    """When the delay set in, and when it was named, s of the monotonic clock; whom else the console named first."""

    began: float | None = None
    named: float | None = None
    wrong: tuple[str, ...] = ()


def preset(launches: int) -> Preset:
    trials = []
    for number in range(launches):
        late = Bottleneck(
            at=SITES[number % len(SITES)],  # type: ignore[arg-type]
            ranks=(random.randrange(2),),
            sleep_ms=SLEEP_MS,
            from_step=QUIET_STEPS,
        )
        values: dict[str, Any] = {"name": f"launch-{number}", "strategy": STRATEGIES[number // 4 % 2], "threads": 1}
        values |= {"sched_batch": True, "lr": 0.001, "steps": QUIET_STEPS + LATE_STEPS, "bottleneck": (late,)}
        trials.append(make_trial(values))
    return Preset(name="live", title="", group="", about="", baseline="launch-0", repeats=1, trials=tuple(trials))


def follow(launch: Launch, watched: RunMonitor, late: Bottleneck) -> Launch:
    judgement = watched.judge()
    culprit = judgement.culprit if judgement else None
    if culprit is None:
        return launch
    if launch.began is not None and (culprit.rank, culprit.phase) == (late.ranks[0], late.at):
        return launch._replace(named=time.monotonic())
    return launch._replace(wrong=(*launch.wrong, f"rank {culprit.rank} {culprit.phase}"))


def main() -> None:
    launches = int(sys.argv[1]) if len(sys.argv) > 1 else 16
    random.seed(launches)
    chosen = preset(launches)
    trials = {trial.name: trial for trial in chosen.trials}
    watched, found, launch, judged = RunMonitor(), [], Launch(), 0.0
    with tempfile.TemporaryDirectory() as folder:
        run = Run.create(Path(folder), chosen, describe())
        with closing(lab.run_preset(chosen, run)) as stream:
            for message in stream:
                watched.add([message])
                if isinstance(message, Launched):
                    late = trials[message.trial].bottleneck[0]
                if isinstance(message, Step) and message.slept and launch.began is None:
                    launch = launch._replace(began=message.slept[0].begin_ns / 1e9)
                if launch.named is None and time.monotonic() - judged > JUDGE_EVERY_S:
                    judged = time.monotonic()
                    launch = follow(launch, watched, late)
                if isinstance(message, Ended):
                    found.append(launch)
                    launch = Launch()
    took = [each.named - each.began for each in found if each.named is not None and each.began is not None]
    print(f"named in {len(took)} of {len(found)} launches; after {median(took):.2f} s, at most {max(took):.2f} s")
    wrong = [", ".join(each.wrong) for each in found if each.wrong]
    print(f"somebody else first: in {len(wrong)}", *wrong, sep="\n  ")


if __name__ == "__main__":
    main()

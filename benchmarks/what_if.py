"""What a trial would have taken without its culprit, against the same trial really run without: launches in turn.

Goal: within 5 % in the median of each case, 10 % at worst. A step takes some 30 ms; rank 1 of 2 is late by 25 ms.

    python benchmarks/what_if.py [PAIRS]
"""

import sys
import tempfile
from contextlib import closing
from pathlib import Path
from statistics import median
from typing import Any

from ddptui import lab
from ddptui.environment import describe
from ddptui.outcome import Outcome, outcome
from ddptui.preset import Bottleneck, Preset, make_trial
from ddptui.record import Run
from ddptui.wire import Ended, Message

SITES = ("data", "forward", "backward", "aggregate")
STRATEGIES = ("all_reduce", "ddp")
SAMPLES, STEPS, SLEEP_MS = 512, 83, 25.0


def preset(pairs: int) -> Preset:
    trials = []
    for strategy in STRATEGIES:
        values: dict[str, Any] = {"strategy": strategy, "threads": 1, "sched_batch": True, "lr": 0.001}
        values |= {"batch_size": SAMPLES, "steps": STEPS}
        trials.append(make_trial(values | {"name": f"{strategy}-none"}))
        for site in SITES:
            late = Bottleneck(at=site, ranks=(1,), sleep_ms=SLEEP_MS)  # type: ignore[arg-type]
            trials.append(make_trial(values | {"name": f"{strategy}-{site}", "bottleneck": (late,)}))
    return Preset(
        name="what-if", title="", group="", about="", baseline=trials[0].name, repeats=pairs, trials=tuple(trials)
    )


def measure(pairs: int) -> dict[tuple[str, int], Outcome]:
    chosen = preset(pairs)
    found: dict[tuple[str, int], Outcome] = {}
    with tempfile.TemporaryDirectory() as folder:
        run = Run.create(Path(folder), chosen, describe())
        messages: list[Message] = []
        with closing(lab.run_preset(chosen, run)) as stream:
            for message in stream:
                messages.append(message)
                if isinstance(message, Ended):
                    if ended := outcome(messages):
                        found[ended.trial, ended.repeat] = ended
                    messages = []
    return found


def main() -> None:
    pairs = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    found = measure(pairs)
    for strategy in STRATEGIES:
        plain = [found[f"{strategy}-none", number].result for number in range(1, pairs + 1)]
        really = median(result.train_time_s for result in plain if result)
        print(f"{strategy}: really run without, {really:.2f} s")
        for site in SITES:
            late = [found[f"{strategy}-{site}", number].result for number in range(1, pairs + 1)]
            took = median(result.train_time_s for result in late if result)
            what_if = [result.what_if_s.without_culprit for result in late if result and result.what_if_s]
            told = [value for value in what_if if value is not None]
            errors = sorted((value / really - 1 for value in told), key=abs)
            if told:
                print(
                    f"  {site:10} {took:.2f} s; without it {median(told):.2f} s: {median(told) / really - 1:+.1%}, "
                    f"worst of {len(told)} {errors[-1]:+.1%}"
                )


if __name__ == "__main__":
    main()

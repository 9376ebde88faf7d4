"""Training in ranks that were forked from the warm parent, against ranks that were started cold: the same trial,
launched both ways in turn.

Goal: 0.98 to 1.02 (the median of the pairs' ratios); the losses are equal to the bit. Eight pairs have shown 1.01 and
1.04 on one machine: only some 30 tell.

    python -m benchmarks.warm_training [PAIRS]
"""

import sys
from statistics import median, quantiles

from benchmarks.launches import run
from ddptui.config.preset import Preset
from ddptui.config.values import make_trial
from ddptui.findings.repeat import outcome_of_log

FIELDS = {"strategy": "all_reduce", "threads": 1, "sched_batch": True, "batch_size": 64, "steps": 400}


def main() -> None:
    pairs = int(sys.argv[1]) if len(sys.argv) > 1 else 32
    trials = tuple(make_trial(FIELDS | {"name": start, "start": start}) for start in ("warm", "cold"))
    preset = Preset(name="warm", title="", group="", about="", baseline="cold", repeats=pairs, trials=trials)
    times: dict[str, list[float]] = {"warm": [], "cold": []}
    losses = set()
    for log, trial in zip(run(preset), trials * pairs, strict=True):
        outcome = outcome_of_log(log)
        assert outcome is not None
        assert outcome.result is not None, outcome.error
        result = outcome.result
        assert result.start == trial.start, result.start_why
        times[result.start].append(result.train_time_s)
        losses.add(result.loss)
    ratios = [warm / cold for warm, cold in zip(times["warm"], times["cold"], strict=True)]
    low, _, high = quantiles(ratios, n=4)
    print(
        f"train s: warm {median(times['warm']):.2f}, cold {median(times['cold']):.2f}; "
        f"ratio {median(ratios):.3f}, middle half {low:.3f} to {high:.3f} (goal: 0.98 to 1.02, {pairs} pairs); "
        f"losses {'equal' if len(losses) == 1 else 'differ'}"
    )


if __name__ == "__main__":
    main()

"""How often a run of equal trials claims that they differ, and how often a real difference is found.

One trial is launched again and again, alone and beside busy processes. Its train times, in the order in which they were
taken, become runs of 2, 8 and 16 trials with 3 repeats: each round of a run takes neighbors from a place drawn at
random, so that what drifts slowly stays in it; another time it takes any. Then one trial is made 1.5 times as long.
Goal: at most 5 % of the runs claim something of equal trials, as far as Wilson's interval tells. How often the real
difference is found depends on the machine: where launches differ by a tenth, nearly always.

    python -m benchmarks.equal_trials record FOLDER [LAUNCHES] [BUSY PROCESSES]
    python -m benchmarks.equal_trials FOLDER [RUNS]
"""

import random
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from math import sqrt
from pathlib import Path

from msgspec.structs import replace

from benchmarks.launches import busy_processes
from ddptui.analysis.effect import Effects, effects
from ddptui.analysis.results import RepeatResult, Results, TrialResult
from ddptui.config.preset import Preset
from ddptui.config.values import make_trial
from ddptui.host.machine import describe
from ddptui.run import runner
from ddptui.store.overview import results_of
from ddptui.store.runs import Run, all_runs

TRIALS, REPEATS, FACTOR, GOAL = (2, 8, 16), 3, 1.5, 0.05
NORMAL_95 = 1.96


def record(folder: Path, launches: int, busy: int) -> None:
    """Launch the trial so often, and keep the run in this folder."""
    values = {"name": "a", "model": "mlp", "width": 256, "dataset": "random", "batch_size": 32, "threads": 1}
    trial = make_trial(values | {"world_size": 2, "strategy": "all_reduce", "steps": 60})
    preset = Preset(
        name=f"beside-{busy}", title="", group="", about="", baseline="a", repeats=launches, trials=(trial,)
    )
    run = Run.create(folder, preset, describe())
    with busy_processes(busy), closing(runner.run_preset(preset, run)) as stream:
        for _ in stream:
            pass


def drawn(repeats: Sequence[RepeatResult], trials: int, *, neighbors: bool) -> list[RepeatResult]:
    """The launches of a run, in order."""
    wanted = trials * REPEATS
    if not neighbors:
        return [random.choice(repeats) for _ in range(wanted)]
    places = [random.randrange(len(repeats) - trials + 1) for _ in range(REPEATS)]
    return [repeats[place + at] for place in places for at in range(trials)]


def claims(launches: Sequence[RepeatResult], trials: int, factor: float) -> Effects:
    """What a run says of its trials, which took turns; the last one takes so many times as long."""
    each = [launches[at::trials] for at in range(trials)]
    each[-1] = [replace(repeat, train_time_s=factor * repeat.train_time_s) for repeat in each[-1]]
    made = [
        TrialResult(name=str(at), status="ok", error=None, config={}, command=[], repeats=[*repeats], summary=None)
        for at, repeats in enumerate(each)
    ]
    found = Results(run="", preset="", baseline="0", environment={}, status="ok", repeats=REPEATS, trials=made)
    return {names: effect for names, effect in effects(found).items() if effect.outcome in ("slower", "faster")}


def wilson(hits: int, of: int) -> tuple[float, float]:
    """The interval of 95 % of a share."""
    share, squared = hits / of, NORMAL_95**2
    middle = (share + squared / (2 * of)) / (1 + squared / of)
    width = NORMAL_95 * sqrt(share * (1 - share) / of + squared / (4 * of**2)) / (1 + squared / of)
    return max(0.0, middle - width), middle + width


def judged(repeats: Sequence[RepeatResult], runs: int) -> Iterator[str]:
    for neighbors in (True, False):
        for trials in TRIALS:
            random.seed(trials)
            made = [drawn(repeats, trials, neighbors=neighbors) for _ in range(runs)]
            wrong = sum(bool(claims(launches, trials, 1.0)) for launches in made)
            found = sum((str(trials - 1), "0") in claims(launches, trials, FACTOR) for launches in made)
            low, high = wilson(wrong, runs)
            missed = "  MISSED" if low > GOAL else ""
            claimed = f"{wrong / runs:6.1%} of {runs} runs claim a difference ({low:.1%} to {high:.1%})"
            order = "neighbors" if neighbors else "shuffled "
            yield f"{order} {trials:2} trials: {claimed}; {FACTOR} times is found in {found / runs:.0%}{missed}"


def main() -> None:
    words = sys.argv[1:]
    if words[0] == "record":
        record(Path(words[1]), *[*map(int, words[2:]), *(48, 0)[len(words) - 2 :]])
        return
    for run in all_runs(Path(words[0])):
        repeats = results_of(run, run.preset()).trials[0].repeats
        times = sorted(repeat.train_time_s for repeat in repeats)
        print(f"{run.preset().name}: {len(repeats)} launches of {times[0]:.2f} to {times[-1]:.2f} s", flush=True)
        for line in judged(repeats, int(words[1]) if len(words) > 1 else 400):
            print(f"    {line}", flush=True)


if __name__ == "__main__":
    main()

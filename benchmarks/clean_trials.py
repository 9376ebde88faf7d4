"""Who is named in the trials of the shipped presets: nobody where nothing was injected, and every late rank.

The trials of all presets with two ranks or more take turns, alone or beside busy processes. A delay counts as one that
must be found if it makes one rank lose a fifth of the train time: less is not to be told from what neighbors take.

    python -m benchmarks.clean_trials [LAUNCHES] [BUSY PROCESSES]
"""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import cycle, islice

from msgspec.structs import replace

from benchmarks.launches import run
from ddptui.analysis.launch_data import LaunchData
from ddptui.analysis.policy import LATE_IN_ALL_PHASES
from ddptui.analysis.results import RepeatResult
from ddptui.config.preset import Preset
from ddptui.config.trial import Trial
from ddptui.findings.repeat import outcome_of_log
from ddptui.store.presets import all_presets

MOST_RANKS = 4  # more would only compete for the cores


def trials() -> list[Trial]:
    """Of all presets, with names that say of which: those that train ranks here, and end well."""
    presets = [preset for shelf in all_presets()[0].values() for preset in shelf]
    shipped = [(preset, trial) for preset in presets if preset.kind == "training" for trial in preset.trials]
    return [
        replace(trial, name=f"{preset.name}.{trial.name}")
        for preset, trial in shipped
        if 2 <= trial.world_size <= MOST_RANKS
        and not trial.fault
        and trial.device != "cuda"
        and trial.backend != "nccl"
    ]


def delayed(trial: Trial) -> set[int]:
    """The ranks that are late on purpose, in the steps."""
    return {rank for delay in trial.bottleneck if delay.at not in ("start", "link") for rank in delay.ranks}


def matters(result: RepeatResult) -> bool:
    """Whether enough was injected to name the late rank."""
    lost_s = sum(injected.s for injected in result.injected if injected.at != "start")
    return lost_s > LATE_IN_ALL_PHASES * result.train_time_s


def launched(chosen: list[Trial]) -> Iterator[tuple[Trial, LaunchData]]:
    preset = Preset(
        name="clean-trials", title="", group="", about="", baseline=chosen[0].name, repeats=1, trials=tuple(chosen)
    )
    yield from zip(chosen, run(preset), strict=True)


def main() -> None:
    launches = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    busy = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    all_trials = trials()
    numbered = enumerate(islice(cycle(all_trials), launches))
    chosen = [replace(trial, name=f"{trial.name}.{number // len(all_trials) + 1}") for number, trial in numbered]
    clean = named = late = found = 0
    with ExitStack() as stack:
        for _ in range(busy):
            process = stack.enter_context(subprocess.Popen([sys.executable, "-c", "while True: pass"]))
            stack.callback(process.kill)
        for trial, log in launched(chosen):
            outcome = outcome_of_log(log)
            if outcome is None or outcome.result is None:
                print(f"{trial.name}: {outcome.error if outcome else 'not launched'}")
                continue
            result, ranks = outcome.result, delayed(trial)
            culprit = result.culprit
            is_late = len(ranks) == 1 and matters(result)
            clean += not ranks
            named += not ranks and culprit is not None
            late += is_late
            found += is_late and culprit is not None and culprit.rank in ranks
            if (culprit is not None and culprit.rank not in ranks) or (is_late and culprit is None):
                who = f"rank {culprit.rank}, {culprit.excess_s.estimate:.2f} s" if culprit else "nobody"
                queues = ", ".join(f"{rank.queued_s:.2f}" for rank in result.ranks)
                print(f"{trial.name}: {who} of {result.train_time_s:.2f} s; without a core: {queues} s")
    print(f"beside {busy} busy processes: {named} named in {clean} clean launches; {found} of {late} late ranks found")


if __name__ == "__main__":
    main()

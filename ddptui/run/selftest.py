"""`ddptui selftest`: injects delays of known length at every site, under every strategy and launch mode, and compares
them with the delays that ddptui attributes. In a window without a delay, ddptui must name no culprit, except a root
that averages for all ranks."""

import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from ddptui.analysis.launch_data import LaunchData, injected_delay_s, launch_logs, steps_within
from ddptui.analysis.results import ConfidenceInterval
from ddptui.analysis.thinning import StepsByRank
from ddptui.config.catalog import facts_of
from ddptui.config.preset import Preset
from ddptui.config.trial import Bottleneck, Site, Trial
from ddptui.host.machine import describe
from ddptui.run import lab
from ddptui.run.output import show
from ddptui.store.runs import Run
from ddptui.text.tables import line
from ddptui.text.words import NOTHING, S, count

WARMUP = 5  # steps
STEPS = 40  # steps of a window, in which one site is delayed, or none
REST = 5  # steps between two windows, so that the effects of one delay do not reach the next window
SLEEP_MS = 25  # well above the jitter of a step on a busy machine
START_MS = 500
ROOT = (0, "aggregate")  # the rank and phase that may be named without a delay if rank 0 averages for all ranks
TOLERANCE = 0.05  # relative error that is accepted even outside the confidence interval
TOLERANCE_IN_DP = 0.10  # larger, because dp's threads start one after another and share an interpreter
NO_SITE = "nothing"  # the column of the window without a delay
COLUMNS = ("launch", "strategy", NO_SITE, "start", "data", "forward", "backward", "aggregate")
WIDTHS = (7, 25, 7, 9, 9, 9, 9, 9)
LEFT = [True] * len(COLUMNS)


def run(modes: Sequence[str], strategies: Sequence[str], runs: Path) -> int:
    """Run every launch and print a line for each on stdout. Returns the exit code: 1 if a delay was attributed
    wrongly."""
    preset = _preset(modes, strategies)
    kept = Run.create(runs, preset, describe())
    print(f"{count(len(preset.trials), 'launch', 'launches')}; kept in {kept.folder}", file=sys.stderr)
    head = line(COLUMNS, WIDTHS, LEFT)
    show(f"{head}\n{'─' * len(head)}\n")
    is_wrong = False
    with kept.held(), closing(lab.run_preset(preset, kept)) as stream:
        for trial, log in zip(preset.trials, launch_logs(stream), strict=False):
            found = _found(trial, log)
            is_wrong |= any(cell.startswith("!") for cell in found.values())
            cells = (found.get(site, NOTHING) for site in COLUMNS[2:])
            show(line([trial.launch, trial.strategy or NOTHING, *cells], WIDTHS, LEFT) + "\n")
    show(f"\nattributed/injected, ms, on one of two ranks, {STEPS} steps each (start: once)\n")
    show("root: no delay was injected; naming rank 0 is right, because it averages for all ranks\n")
    show("wrong: the cells marked with !\n" if is_wrong else "all right\n")
    return int(is_wrong)


def _preset(modes: Sequence[str], strategies: Sequence[str]) -> Preset:
    # dp averages in only one way, so it needs one launch
    trials = tuple(_trial(mode, strategy) for mode in modes for strategy in (strategies if mode != "dp" else [""]))
    return Preset(
        name="selftest",
        title="Selftest: are injected delays found?",
        group="Bottlenecks",
        about="Delays of known length at every site, and none in between.",
        baseline=trials[0].name,
        repeats=1,
        trials=trials,
    )


def _trial(mode: str, strategy: str) -> Trial:
    delays = delays_of(mode)
    return Trial(
        name=f"{mode}-{strategy}".removesuffix("-"),
        launch=mode,
        strategy=strategy or None,
        world_size=2,
        threads=1,
        sched_batch=True,
        batch_size=512 if mode == "dp" else 64,  # large, so that dp's own skew is a small part of a step
        lr=0.001,
        warmup_steps=WARMUP,
        steps=delays[-1].from_step + STEPS,
        bottleneck=delays,
    )


def delays_of(mode: str) -> tuple[Bottleneck, ...]:
    """The delays of a launch: one at its start, then one in a window of steps for each site at which a rank can be
    delayed: on rank 1 and rank 0 by turns. The first window has none."""
    sites: list[Site] = ["data", "forward", "backward", "aggregate"]
    if mode == "dp":
        sites.remove("backward")  # dp runs one backward for all replicas
    delays = [Bottleneck(at="start", ranks=(1,), sleep_ms=START_MS)]
    for number, site in enumerate(sites, start=1):
        first, rank = WARMUP + number * (STEPS + REST), number % 2
        last = first + STEPS - 1
        delays.append(Bottleneck(at=site, ranks=(rank,), sleep_ms=SLEEP_MS, from_step=first, to_step=last))
    return tuple(delays)


def _found(trial: Trial, log: LaunchData) -> dict[str, str]:
    """The text of the cell of each site, and of the window without a delay; a wrong one begins with "!"."""
    assert log.ended is not None
    if log.ended.status != "ok":
        print(f"{trial.name} {log.ended.status}: {log.ended.error}", file=sys.stderr)
        return {NO_SITE: f"!{log.ended.status}"}
    later_s = (log.ready[1].start_ns - log.ready[0].start_ns) / S
    started = ConfidenceInterval(estimate=later_s, low=later_s, high=later_s)
    quiet = steps_within(log.steps, range(WARMUP, WARMUP + STEPS))
    at_start = _amounts({1: log.steps[1][:1]}, started, TOLERANCE)
    found = {"start": at_start, NO_SITE: _found_in_window(None, quiet, trial)}
    for delay in trial.bottleneck[1:]:
        steps = steps_within(log.steps, range(delay.from_step, delay.from_step + STEPS))
        found[delay.at] = _found_in_window(delay, steps, trial)
    return found


def _found_in_window(delay: Bottleneck | None, steps: StepsByRank, trial: Trial) -> str:
    from ddptui.findings.verdict import analyze_waits  # imported late, because it needs numpy

    judgement = analyze_waits(steps)
    if judgement is None or judgement.culprit is None:
        return "!silent" if delay else "silent"
    culprit = judgement.culprit
    if delay and (delay.ranks, delay.at) == ((culprit.rank,), culprit.phase):
        return _amounts(steps, culprit.excess_s, TOLERANCE_IN_DP if trial.launch == "dp" else TOLERANCE)
    root_averages = trial.strategy is not None and facts_of(trial.strategy).root_averages
    is_root = not delay and root_averages and (culprit.rank, culprit.phase) == ROOT
    return "root" if is_root else f"!rank {culprit.rank} {culprit.phase}"


def _amounts(steps: StepsByRank, found: ConfidenceInterval, tolerance: float) -> str:
    """What was attributed, and what was injected into these steps, both in ms."""
    injected = injected_delay_s(steps)
    is_right = found.low <= injected <= found.high or abs(found.estimate - injected) <= tolerance * injected
    return f"{'' if is_right else '!'}{found.estimate * 1000:.0f}/{injected * 1000:.0f}"

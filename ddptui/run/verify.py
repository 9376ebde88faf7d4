"""`ddptui verify` compares copies of a model bit by bit; `ddptui selftest` checks that injected delays are
measured.

In a window without a delay, ddptui must name no culprit, except a root that averages for all ranks.
"""

import json
import os
import sys
from collections.abc import Sequence
from contextlib import closing
from itertools import product
from pathlib import Path

from ddptui.analysis.correctness import differing_names
from ddptui.analysis.launch_data import LaunchData, injected_delay_s, launch_logs, steps_within
from ddptui.analysis.results import ConfidenceInterval
from ddptui.analysis.thinning import StepsByRank
from ddptui.config.catalog import ONE_PROCESS, facts_of
from ddptui.config.preset import Preset
from ddptui.config.trial import Bottleneck, Site, Trial
from ddptui.host.machine import describe
from ddptui.host.rank_side import Child, NoAnswer
from ddptui.run import runner
from ddptui.run.listing import show_result
from ddptui.store.runs import Run, RunError
from ddptui.text.tables import line
from ddptui.text.words import NOTHING, S, count
from ddptui.wire.messages import Done

EQUAL, DIFFERENT, UNREADABLE = 0, 1, 2
MODULE = "workers.verify"  # runs in a process of its own, because it needs torch; one process for all pairs of a run
WITHIN_S = 3600.0  # checkpoints may be large


def checkpoints(a: str | Path, b: str | Path) -> int:
    """Compare two checkpoints and print the differences. Returns 0 if they are equal, 1 if not, 2 if one is
    unreadable."""
    with Child(MODULE) as child:
        return compare(child, a, b)


def compare(child: Child, a: str | Path, b: str | Path) -> int:
    """Like `checkpoints`, but with an existing child process."""
    try:
        answer = child.ask(json.dumps([os.path.abspath(a), os.path.abspath(b)]), WITHIN_S)
    except NoAnswer as why:
        print(f"{a}, {b}: not compared: {why}", file=sys.stderr)
        return UNREADABLE
    if "refused" in answer:
        print(f"Error: {answer['refused']}", file=sys.stderr)
        return UNREADABLE
    print(*answer["lines"], sep="\n")
    return DIFFERENT if answer["differ"] else EQUAL


def ranks_of(run: Run) -> int:
    """Compare the ranks of every repeat and print the differences. Returns the worst code of `checkpoints`. Raises
    RunError if no repeat has two copies of a model."""
    preset, codes = run.preset(), list[int]()
    with Child(MODULE) as child:
        for trial, number in product(preset.trials, range(1, preset.repeats + 1)):
            ended = [each for each in run.messages(trial.name, number) if isinstance(each, Done) and each.parameters]
            repeat = f"{trial.name}, repeat {number}, {count(len(ended), 'rank')}"
            if len(ended) < (2 if trial.launch in ONE_PROCESS else max(2, trial.world_size)):
                print(f"{repeat} of {trial.world_size} ended well: not compared")
                continue
            print(repeat, flush=True)
            saved = run.checkpoints(trial.name, number)
            if len(saved) < len(ended):
                codes.append(_hashes(sorted(ended, key=lambda done: done.rank)))
                continue
            for path in saved[1:]:
                print(f"{path.name} against {saved[0].name}", flush=True)
                codes.append(compare(child, saved[0], path))
    if not codes:
        raise RunError(f"{run.name}: nothing to compare: no trial ended with two copies of its model")
    return max(codes)  # a higher code is worse


def _hashes(done: Sequence[Done]) -> int:
    """Compare the hashes of tensors that every rank sent at its end."""
    code = EQUAL
    for kind, copies in (("parameters", [d.parameters for d in done]), ("buffers", [d.buffers for d in done])):
        differing, total = differing_names(copies), len(copies[0])
        equal = f"all {total} equal" if total else "none"
        print(f"{kind}: {len(differing)} of {total} differ" if differing else f"{kind}: {equal}")
        for name in differing:
            print("  " + name.encode("unicode_escape").decode())  # a name from a file may hold control characters
            code = DIFFERENT
    return code


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


def run_selftest(modes: Sequence[str], strategies: Sequence[str], runs: Path) -> int:
    """Run every launch and print a line for each on stdout. Returns the exit code: 1 if a delay was attributed
    wrongly."""
    preset = _preset(modes, strategies)
    kept = Run.create(runs, preset, describe())
    print(f"{count(len(preset.trials), 'launch', 'launches')}; kept in {kept.folder}", file=sys.stderr)
    head = line(COLUMNS, WIDTHS, LEFT)
    show_result(f"{head}\n{'─' * len(head)}\n")
    is_wrong = False
    with kept.held(), closing(runner.run_preset(preset, kept)) as stream:
        for trial, log in zip(preset.trials, launch_logs(stream), strict=False):
            found = _found(trial, log)
            is_wrong |= any(cell.startswith("!") for cell in found.values())
            cells = (found.get(site, NOTHING) for site in COLUMNS[2:])
            show_result(line([trial.launch, trial.strategy or NOTHING, *cells], WIDTHS, LEFT) + "\n")
    show_result(f"\nattributed/injected, ms, on one of two ranks, {STEPS} steps each (start: once)\n")
    show_result("root: no delay was injected; naming rank 0 is right, because it averages for all ranks\n")
    show_result("wrong: the cells marked with !\n" if is_wrong else "all right\n")
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

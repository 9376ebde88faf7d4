"""`ddptui selftest`: injects delays of known length at every site, under every strategy and launch mode, and compares
them with the delays that ddptui attributes. In a window without a delay, ddptui must name no culprit, except a root
that averages for all ranks."""

import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from ddptui.analysis.launch_log import LaunchLog, injected_delay_s, launch_logs, steps_within
from ddptui.config.preset import Preset
from ddptui.config.strategies import STRATEGIES
from ddptui.config.trial import Bottleneck, Trial
from ddptui.config.values import make_trial
from ddptui.host.machine import describe
from ddptui.run import lab
from ddptui.run.output import show
from ddptui.store.runs import Run
from ddptui.text.tables import line
from ddptui.text.units import MS, NOTHING
from ddptui.text.words import count
from ddptui.wire.messages import Step

SITES = ("start", "data", "forward", "backward", "aggregate")
WARMUP = 5  # steps
STEPS = 40  # steps of a window, in which one site is delayed, or none
REST = 5  # steps between two windows, so that the effects of one delay do not reach the next window
SLEEP_MS = 25  # well above the jitter of a step on a busy machine
START_MS = 500
ROOT = (0, "aggregate")  # the rank and phase that may be named without a delay if rank 0 averages for all ranks
TOLERANCE = 0.05  # relative error that is accepted even outside the confidence interval
TOLERANCE_IN_DP = 0.10  # larger, because dp's threads start one after another and share an interpreter
COLUMNS = ("launch", "strategy", "nothing", *SITES)
WIDTHS = (7, 25, 7, *(9 for _ in SITES))
LEFT = [True] * len(COLUMNS)


class Window(NamedTuple):
    """A range of steps of a launch, with a delay at a site on a rank (site None: no delay)."""

    site: str | None
    rank: int
    first: int
    last: int


def run(modes: Sequence[str], strategies: Sequence[str], runs: Path) -> int:
    """Run every launch and print a line for each on stdout. Returns the exit code: 1 if a delay was attributed
    wrongly."""
    preset = _preset(modes, strategies)
    kept = Run.create(runs, preset, describe())
    print(f"{count(len(preset.trials), 'launch', 'launches')}; kept in {kept.folder}", file=sys.stderr)
    show(line(COLUMNS, WIDTHS, LEFT) + "\n" + "─" * len(line(COLUMNS, WIDTHS, LEFT)) + "\n")
    seen = set[str]()
    by_name = {trial.name: trial for trial in preset.trials}
    with kept.held(), closing(lab.run_preset(preset, kept)) as stream:
        for log in launch_logs(stream):
            assert log.launched is not None
            assert log.ended is not None
            trial = by_name[log.launched.trial]
            found: dict[str | None, str] = {None: f"!{log.ended.status}"}
            if log.ended.status == "ok":
                found = _found(trial, log)
            else:
                print(f"{trial.name} {log.ended.status}: {log.ended.error}", file=sys.stderr)
            seen |= {*found.values()}
            cells = (found.get(site, NOTHING) for site in (None, *SITES))
            show(line([trial.launch, trial.strategy or NOTHING, *cells], WIDTHS, LEFT) + "\n")
    show(f"\nattributed/injected, ms, on one of two ranks, {STEPS} steps each (start: once)\n")
    if "root" in seen:
        show("root: no delay was injected; naming rank 0 is right, because it averages for all ranks\n")
    is_wrong = any(text.startswith("!") for text in seen)
    show("wrong: the cells marked with !\n" if is_wrong else "all right\n")
    return int(is_wrong)


def _preset(modes: Sequence[str], strategies: Sequence[str]) -> Preset:
    trials = [
        _trial(mode, None if mode == "dp" else strategy)  # dp averages in only one way, so it needs one launch
        for mode in modes
        for strategy in (strategies[:1] if mode == "dp" else strategies)
    ]
    return Preset(
        name="selftest",
        title="Selftest: are injected delays found?",
        group="Bottlenecks",
        about="Delays of known length at every site, and none in between.",
        baseline=trials[0].name,
        repeats=1,
        trials=tuple(trials),
    )


def _trial(mode: str, strategy: str | None) -> Trial:
    windows = windows_of(mode)
    delays = [
        Bottleneck(at=window.site, ranks=(window.rank,), sleep_ms=SLEEP_MS, from_step=window.first, to_step=window.last)  # type: ignore[arg-type]
        for window in windows
        if window.site
    ]
    return make_trial(
        {
            "name": f"{mode}-{strategy}" if strategy else mode,
            "launch": mode,
            **({"strategy": strategy} if strategy else {}),
            "world_size": 2,
            "threads": 1,
            "sched_batch": True,
            "batch_size": 512 if mode == "dp" else 64,  # large, so that dp's own skew is a small part of a step
            "lr": 0.001,
            "warmup_steps": WARMUP,
            "steps": windows[-1].last + 1,
            "bottleneck": (Bottleneck(at="start", ranks=(1,), sleep_ms=START_MS), *delays),
        }
    )


def windows_of(mode: str) -> list[Window]:
    """The windows of a launch: one without a delay, then one for each site at which a rank can be delayed: rank 0 and
    rank 1 by turns."""
    sites = [site for site in SITES[1:] if (mode, site) != ("dp", "backward")]  # dp runs one backward for all replicas
    windows = []
    for number, site in enumerate([None, *sites]):
        first = WARMUP + number * (STEPS + REST)
        windows.append(Window(site, number % 2, first, first + STEPS - 1))
    return windows


def _found(trial: Trial, log: LaunchLog) -> dict[str | None, str]:
    """The text of the cell of each site (None: no delay); a wrong one begins with "!"."""
    starts = {rank: ready.start_ns / MS for rank, ready in log.ready.items()}
    injected = sum((sleep.end_ns - sleep.begin_ns) / MS for sleep in log.steps[1][0].slept if sleep.at == "start")
    later = starts[1] - starts[0]
    found: dict[str | None, str] = {"start": _amounts(injected, later, later, later, TOLERANCE)}
    for window in windows_of(trial.launch):
        steps = steps_within(log.steps, range(window.first, window.last + 1))
        tolerance = TOLERANCE_IN_DP if trial.launch == "dp" else TOLERANCE
        root_averages = trial.strategy is not None and STRATEGIES[trial.strategy].root_averages
        found[window.site] = _found_in_window(window, steps, tolerance, root_averages=root_averages)
    return found


def _found_in_window(
    window: Window, steps: dict[int, list[Step]], tolerance: float, *, root_averages: bool = False
) -> str:
    from ddptui.findings.verdict import analyze_waits  # imported late, because it needs numpy

    judgement = analyze_waits(steps)
    culprit = judgement.culprit if judgement else None
    if window.site is None:
        if culprit and root_averages and (culprit.rank, culprit.phase) == ROOT:
            return "root"
        return f"!rank {culprit.rank}" if culprit else "silent"
    injected = injected_delay_s(steps) * 1000
    if culprit is None:
        return f"!0/{injected:.0f}"
    if (culprit.rank, culprit.phase) != (window.rank, window.site):
        return f"!rank {culprit.rank} {culprit.phase}"
    excess = culprit.excess_s
    return _amounts(injected, excess.estimate * 1000, excess.low * 1000, excess.high * 1000, tolerance)


def _amounts(injected: float, attributed: float, low: float, high: float, tolerance: float) -> str:
    is_right = low <= injected <= high or abs(attributed - injected) <= tolerance * injected
    return f"{'' if is_right else '!'}{attributed:.0f}/{injected:.0f}"


def known_strategies() -> tuple[str, ...]:
    """The strategies that aggregate. `none` is excluded, because it has no wait to attribute."""
    return tuple(name for name in STRATEGIES if name != "none")

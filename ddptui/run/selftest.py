"""The lab tests itself: delays of known length are put in at every site, under every strategy and launch mode, and what
the console attributes is set against them. In between nothing is put in, and it must stay silent."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from ddptui.analysis.launch_log import LaunchLog, injected_delay_s, launch_logs, steps_within
from ddptui.analysis.verdict import analyze_waits
from ddptui.config.preset import Preset
from ddptui.config.rules import make_trial
from ddptui.config.strategies import STRATEGIES
from ddptui.config.trial import Bottleneck, Trial
from ddptui.host.machine import describe
from ddptui.run import lab
from ddptui.run.output import show
from ddptui.store.runs import Run
from ddptui.text.tables import line
from ddptui.text.units import MS, NOTHING
from ddptui.text.words import count
from ddptui.wire.messages import Step

SITES = ("start", "data", "forward", "backward", "aggregate")
WARMUP = 5
STEPS = 40  # of a window, in which one site is delayed, or none
REST = 5  # steps between two windows
SLEEP_MS = 25
START_MS = 500
TOLERANCE = 0.05  # of what was injected, where the interval does not hold it;
TOLERANCE_IN_DP = 0.10  # whose threads start in turn and share an interpreter, which makes a skew of its own
COLUMNS = ("launch", "strategy", "nothing", *SITES)
WIDTHS = (7, 25, 7, *(9 for _ in SITES))
LEFT = [True] * len(COLUMNS)


class Window(NamedTuple):
    """Some steps of a launch, and what is put in there: at which site (none: nothing), on which rank."""

    site: str | None
    rank: int
    first: int
    last: int


class Finding(NamedTuple):
    """What was put in, ms, and what came of it: in words of a cell, right or not."""

    words: str
    right: bool


def run(modes: Sequence[str], strategies: Sequence[str], runs: Path) -> int:
    """Run the grid; a line a launch on stdout. Returns the exit code: 1 if anything was attributed wrongly."""
    preset = _preset(modes, strategies)
    kept = Run.create(runs, preset, describe())
    print(f"{count(len(preset.trials), 'launch', 'launches')}; kept in {kept.folder}", file=sys.stderr)
    show(line(COLUMNS, WIDTHS, LEFT) + "\n" + "─" * len(line(COLUMNS, WIDTHS, LEFT)) + "\n")
    right = True
    trials = {trial.name: trial for trial in preset.trials}
    with closing(lab.run_preset(preset, kept)) as stream:
        for heard in launch_logs(stream):
            assert heard.launched is not None
            assert heard.ended is not None
            trial, findings = trials[heard.launched.trial], {}
            if heard.ended.status == "ok":
                findings = dict(_findings(trial, heard))
            right = right and bool(findings) and all(found.right for found in findings.values())
            cells = [findings[site].words if site in findings else NOTHING for site in (None, *SITES)]
            if not findings:
                print(f"{trial.name} {heard.ended.status}: {heard.ended.error}", file=sys.stderr)
                cells = [heard.ended.status, *(NOTHING for _ in SITES)]
            show(line([trial.launch, trial.strategy or NOTHING, *cells], WIDTHS, LEFT) + "\n")
    show(f"\nattributed/injected, ms, on one of two ranks, {STEPS} steps each (start: once)\n")
    show("all right\n" if right else "not all right: what is marked with ! is wrong\n")
    return 0 if right else 1


def _preset(modes: Sequence[str], strategies: Sequence[str]) -> Preset:
    trials = [
        _trial(mode, None if mode == "dp" else strategy)
        for mode in modes
        for strategy in (strategies[:1] if mode == "dp" else strategies)
    ]
    return Preset(
        name="selftest",
        title="Selftest: is what was put in what is attributed?",
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
            "batch_size": 512 if mode == "dp" else 64,  # so that its own skew is a small part of a step
            "lr": 0.001,
            "warmup_steps": WARMUP,
            "steps": windows[-1].last + 1,
            "bottleneck": (Bottleneck(at="start", ranks=(1,), sleep_ms=START_MS), *delays),
        }
    )


def windows_of(mode: str) -> list[Window]:
    """Nothing first; then one site after another, on the one rank and on the other."""
    sites = [None, *(site for site in SITES[1:] if (mode, site) != ("dp", "backward"))]  # its replicas share one
    found, first = [], WARMUP
    for number, site in enumerate(sites):
        found.append(Window(site, number % 2, first, first + STEPS - 1))
        first += STEPS + REST
    return found


def _findings(trial: Trial, heard: LaunchLog) -> Iterator[tuple[str | None, Finding]]:
    starts = {rank: ready.start_ns / MS for rank, ready in heard.ready.items()}
    put_in = sum((each.end_ns - each.begin_ns) / MS for each in heard.steps[1][0].slept if each.at == "start")
    later = starts[1] - starts[0]
    yield "start", _finding(put_in, later, later, later, TOLERANCE)
    for each in windows_of(trial.launch):
        steps = steps_within(heard.steps, range(each.first, each.last + 1))
        yield each.site, _of_window(each, steps, TOLERANCE_IN_DP if trial.launch == "dp" else TOLERANCE)


def _of_window(here: Window, steps: dict[int, list[Step]], tolerance: float) -> Finding:
    judgement = analyze_waits(steps)
    culprit = judgement.culprit if judgement else None
    if here.site is None:
        return Finding(f"!rank {culprit.rank}", right=False) if culprit else Finding("silent", right=True)
    put_in = injected_delay_s(steps) * 1000
    if culprit is None:
        return Finding(f"!0/{put_in:.0f}", right=False)
    if (culprit.rank, culprit.phase) != (here.rank, here.site):
        return Finding(f"!rank {culprit.rank} {culprit.phase}", right=False)
    excess = culprit.excess_s
    return _finding(put_in, excess.estimate * 1000, excess.low * 1000, excess.high * 1000, tolerance)


def _finding(put_in: float, attributed: float, low: float, high: float, tolerance: float) -> Finding:
    right = low <= put_in <= high or abs(attributed - put_in) <= tolerance * put_in
    return Finding(f"{'' if right else '!'}{attributed:.0f}/{put_in:.0f}", right)


def known_strategies() -> tuple[str, ...]:
    """Those that aggregate."""
    return tuple(name for name in STRATEGIES if name != "none")

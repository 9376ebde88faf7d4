"""What may make a figure deceive, and what to do about it. Pure."""

from collections.abc import Sequence
from statistics import fmean

from ddptui.analysis.results import Caution, RepeatResult, Spread
from ddptui.analysis.verdict import FEWEST_STEPS, WaitAnalysis
from ddptui.config.trial import Trial, threads_per_rank
from ddptui.wire.records import Load

WIDE = 0.10  # of the median
MOST_OTHER_LOAD = 0.25  # cores

ADVICE = {
    Caution.TOO_FEW_STEPS: f"fewer than {FEWEST_STEPS} steps were measured: give more `epochs` or `steps`",
    Caution.WIDE_SPREAD: (
        f"repeats differ by more than {WIDE:.0%}: believe no difference smaller than that, or take more `--repeats`"
    ),
    Caution.OVERSUBSCRIBED: (
        "there are more threads than cores, so ranks take cores from each other, and a wait may be for a core: take "
        "fewer ranks"
    ),
    Caution.OTHER_LOAD: (
        f"something else kept more than {MOST_OTHER_LOAD:g} of a core busy meanwhile: close it, and run again"
    ),
    Caution.CLOCKS_APART: (
        "the ranks waited for each other less than their clocks may be apart (those of hosts, or of GPUs), so their "
        "waits and transfers are withheld: look at a larger batch or model; if the ranks are on other hosts, start the "
        "console nearer to them (on one of these)"
    ),
    Caution.CLOCKS_UNKNOWN: (
        "a host's clock could not be compared with the console's, so waits and transfers are withheld: no rank of it "
        "answered a probe; run for some seconds at least, and see the ranks' logs"
    ),
}


def of_repeat(steps: int, loads: Sequence[Load]) -> list[Caution]:
    """What one repeat shows by itself."""
    found = [Caution.TOO_FEW_STEPS] if steps < FEWEST_STEPS else []
    if loads and fmean(load.busy - load.own for load in loads) > MOST_OTHER_LOAD:
        found.append(Caution.OTHER_LOAD)
    return found


def of_clocks(judgement: WaitAnalysis | None, *, known: bool) -> list[Caution]:
    """Where ranks have clocks of their own. known: those could be compared."""
    if not known:
        return [Caution.CLOCKS_UNKNOWN]
    return [Caution.CLOCKS_APART] if judgement and judgement.withheld else []


def of_trial(trial: Trial, repeats: Sequence[RepeatResult], train_time_s: Spread, cores: int | None) -> list[Caution]:
    """Of all repeats together: what any of them shows, and what only several show. cores: this host's, if known."""
    found = {caution for repeat in repeats for caution in repeat.warnings}
    if train_time_s.max - train_time_s.min > WIDE * train_time_s.median:
        found.add(Caution.WIDE_SPREAD)
    on_cpu = any(rank.device.startswith("cpu") for repeat in repeats for rank in repeat.ranks)
    if cores and on_cpu and trial.world_size * threads_per_rank(trial, cores) > cores:
        found.add(Caution.OVERSUBSCRIBED)
    return [caution for caution in Caution if caution in found]

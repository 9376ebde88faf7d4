"""Counts how many of a preset's trials and repeats a run has finished. Pure."""

from ddptui.analysis.outline import ResultsOutline, TrialOutline
from ddptui.analysis.results import Results, TrialResult
from ddptui.text.words import count


def finished(trial: TrialResult | TrialOutline) -> int:
    """The number of a trial's repeats that succeeded."""
    return len(trial.repeats) or sum(launch.took_s is not None for launch in trial.primitives)


def trials_done(results: Results | ResultsOutline) -> str:
    """The number of trials that succeeded: "4", or "3 of 4 done"."""
    total, fine = len(results.trials), len(_fine(results))
    return str(fine) if fine == total else f"{fine} of {total} done"


def repeats_done(results: Results | ResultsOutline) -> str:
    """The finished repeats of the trials that did not fail, e.g. "11 of 12 repeats"; empty if none is missing."""
    each = results.repeats or 0  # unknown in older files
    fine = _fine(results)
    done, wanted = sum(min(each, finished(trial)) for trial in fine), each * len(fine)
    return f"{done} of {wanted} repeats" if done < wanted else ""


def _fine(results: Results | ResultsOutline) -> list[TrialResult | TrialOutline]:
    return [trial for trial in results.trials if trial.status == "ok"]


def extent(results: Results | ResultsOutline) -> str:
    """The extent of a run: "4 trials"; if some are missing, "3 of 4 trials finished, 8 of 9 repeats"."""
    return shortfall(results) or count(len(results.trials), "trial")


def shortfall(results: Results | ResultsOutline) -> str:
    """What a run lacks, in the words of `extent`; empty if nothing is missing."""
    total, fine, repeats = len(results.trials), len(_fine(results)), repeats_done(results)
    if fine == total:
        return f"{repeats} finished" if repeats else ""
    return ", ".join(filter(None, [f"{fine} of {count(total, 'trial')} finished", repeats]))

"""How much of what its preset asks for a run has. Pure."""

from ddptui.analysis.outline import ResultsOutline, TrialOutline
from ddptui.analysis.results import Results, TrialResult
from ddptui.text.words import count


def finished(trial: TrialResult | TrialOutline) -> int:
    """How many repeats of a trial ended well."""
    return len(trial.repeats) or sum(launch.took_s is not None for launch in trial.primitives)


def trials_done(results: Results | ResultsOutline) -> str:
    """4, or 3 of 4 done: trials with figures that did not fail."""
    total, fine = len(results.trials), len(_fine(results))
    return str(fine) if fine == total else f"{fine} of {total} done"


def repeats_done(results: Results | ResultsOutline) -> str:
    """11 of 12 repeats, of the trials that did not fail; empty where none is missing."""
    each = results.repeats or 0  # in older files, it is not known
    fine = _fine(results)
    done, wanted = sum(min(each, finished(trial)) for trial in fine), each * len(fine)
    return f"{done} of {wanted} repeats" if done < wanted else ""


def _fine(results: Results | ResultsOutline) -> list[TrialResult | TrialOutline]:
    return [trial for trial in results.trials if trial.status == "ok"]


def extent(results: Results | ResultsOutline) -> str:
    """4 trials; where something is missing, 3 of 4 trials finished, 8 of 9 repeats; or 11 of 12 repeats finished."""
    return shortfall(results) or count(len(results.trials), "trial")


def shortfall(results: Results | ResultsOutline) -> str:
    """The same, but empty where nothing is missing."""
    total, fine, repeats = len(results.trials), len(_fine(results)), repeats_done(results)
    if fine == total:
        return f"{repeats} finished" if repeats else ""
    return ", ".join(filter(None, [f"{fine} of {count(total, 'trial')} finished", repeats]))

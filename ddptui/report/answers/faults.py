"""Whether each injected fault was noticed, and whether the reason names the rank that has it."""

import re
from collections.abc import Iterator

from ddptui.analysis.results import Results
from ddptui.config.preset import Preset
from ddptui.text.words import count, listed


def faults(results: Results, preset: Preset) -> Iterator[str]:
    """How many faults the reasons pin on the right rank; then faults that ended no trial, and failures without one."""
    planned = {trial.name: trial.fault[0].rank for trial in preset.trials if trial.fault}
    failed = {trial.name: (trial.error or "").splitlines()[0] for trial in results.trials if trial.error}
    reached = [trial.name for trial in results.trials if trial.name in planned and trial.status != "skipped"]
    if not reached:
        return
    right = [name for name in reached if name in failed and _names(failed[name], planned[name])]
    ranks = {planned[name] for name in right}
    who = f"rank {ranks.pop()}" if len(ranks) == 1 else "the rank that had it"
    if len(right) == len(reached):
        reason = "the reason names" if len(right) == 1 else "each reason names"
        each = "the fault" if len(right) == 1 else f"each of the {len(right)} faults"
        yield f"{each} ended its trial, and {reason} {who}"
    else:
        yield f"{len(right)} of {count(len(reached), 'fault')} ended the trial with a reason that names the rank"
    survived = [name for name in reached if name not in failed]
    if survived:
        yield f"{listed(survived)} trained to the end in spite of its fault"
    wrong = [name for name in reached if name in failed and name not in right]
    if wrong:
        yield f"the reason does not name the rank in {listed(wrong)}"
    sound = [trial.name for trial in results.trials if trial.name not in planned and trial.status == "ok"]
    if sound:
        yield f"{listed(sound)}, without a fault, trained to the end"


def _names(reason: str, rank: int) -> bool:
    """Whether the first rank that the reason names is this one."""
    first = re.search(r"\brank (\d+)\b", reason)
    return first is not None and int(first[1]) == rank

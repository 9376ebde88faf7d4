"""Whether trials learned the same."""

from collections.abc import Sequence

from ddptui.analysis.correctness import diverged
from ddptui.analysis.counted import counted
from ddptui.analysis.results import TrialResult
from ddptui.report.rows import loss_of, step_ms
from ddptui.text.words import listed

NEARLY = 0.10  # losses that differ by less are nearly the same


def losses(trials: Sequence[TrialResult]) -> str:
    """Whether the losses are the same, half a sentence; empty where that is not known."""
    # One that diverged is named by itself.
    seen = [trial for trial in trials if all(map(step_ms, counted(trial.repeats))) and not diverged(trial)]
    known = {trial.name: loss for trial in seen if (loss := loss_of(trial)) is not None}
    if len(known) < 2:
        return ""
    every = "all" if len(known) == len(trials) else listed([*known])
    least, most = (choose(known, key=lambda name: known[name]) for choose in (min, max))
    low, high = known[least], known[most]
    if f"{low:.3f}" == f"{high:.3f}":
        return f"the loss is the same in {every}: {low:.3f}"
    if are_near([low, high]):
        return f"the loss is nearly the same in {every}: {low:.3f} to {high:.3f}"
    return f"the loss differs: from {low:.3f} ({least}) to {high:.3f} ({most})"


def are_near(values: Sequence[float]) -> bool:
    """Whether losses differ so little that they are nearly the same."""
    return max(values) <= min(values) * (1 + NEARLY)

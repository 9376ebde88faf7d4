"""What became of a trial that has no figures."""

from ddptui.analysis.results import RepeatResult, TrialResult


def status_of(result: TrialResult) -> str:
    """ok, failed or stopped; empty if the trial was not reached."""
    return result.status if result.status != "skipped" else "stopped" if result.command else ""


def what_became(result: TrialResult) -> str:
    """The end of a sentence whose subject is the trial: was stopped before its end: no figures."""
    if result.status != "skipped":
        return result.status
    if not result.command:
        return "was not reached"
    return "was stopped before its end" + ("" if result.primitives else ": no figures")


def is_not_finite(repeat: RepeatResult) -> bool:
    """Whether the loss ended as no finite number; False without instruments, which look at each step."""
    return repeat.step_ms is not None and repeat.loss.last is None

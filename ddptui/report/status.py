"""What became of a trial, where its figures cannot say it. Pure."""

from ddptui.analysis.results import RepeatResult, TrialResult


def status_of(result: TrialResult) -> str:
    """In a word; empty: it was not reached. One that was launched, and is neither done nor failed, was stopped."""
    return result.status if result.status != "skipped" else "stopped" if result.command else ""


def what_became(result: TrialResult) -> str:
    """The same in a sentence, of which the trial is the subject."""
    if result.status != "skipped":
        return result.status
    if not result.command:
        return "was not reached"
    return "was stopped before its end" + ("" if result.primitives else ": no figures")


def is_not_finite(repeat: RepeatResult) -> bool:
    """Whether the loss ended as no finite number. Without instruments nobody has looked at each step."""
    return repeat.step_ms is not None and repeat.loss.last is None

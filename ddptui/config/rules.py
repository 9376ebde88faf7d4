"""What may go together in a trial: the rules that no single field can keep, and what means nothing with what."""

from typing import Any

import msgspec

from ddptui.config.checks import check_trial
from ddptui.config.launch_modes import ONE_PROCESS
from ddptui.config.trial import Trial, TrialError


def make_trial(values: dict[str, Any]) -> Trial:
    """Build a trial from plain values. Raises TrialError when it cannot be."""
    launch = values.get("launch", "spawn")
    fixed: dict[str, Any] = {}
    if launch in ONE_PROCESS or values.get("primitives") is not None:
        fixed["strategy"] = None
    if launch == "single":
        fixed["world_size"] = 1
    for key, value in values.items():
        if not _is_text(value):
            raise TrialError(key, "is no text: it cannot be written as UTF-8")
    try:
        trial = msgspec.convert(fixed | values, Trial)
    except msgspec.ValidationError as error:
        raise _readable(error) from None
    check_trial(trial)
    return trial


def _is_text(value: Any) -> bool:
    """Whether what a command line or a file gave can be written down again: bytes that are no UTF-8 cannot."""
    match value:
        case str():
            return value.encode("utf-8", "replace").decode() == value
        case dict():
            return all(_is_text(key) and _is_text(item) for key, item in value.items())
        case list() | tuple():
            return all(map(_is_text, value))
    return True


def _readable(error: msgspec.ValidationError) -> TrialError:
    """msgspec says «Expected `int`, got `str` - at `$.world_size`»: turn it round, key first."""
    what, _, place = str(error).partition(" - at `$")
    return TrialError(
        place.rstrip("`").lstrip("."), what[:1].lower() + what[1:].replace("`", "").replace(" | null", "")
    )

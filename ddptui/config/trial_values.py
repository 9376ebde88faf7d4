"""Makes a trial from plain values, and says in a user's terms what is wrong with them."""

import re
from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from ddptui.config.checks import check_trial
from ddptui.config.launch_modes import COMMAND, ONE_PROCESS
from ddptui.config.toml import quoted
from ddptui.config.trial import Trial, TrialError

Made = TypeVar("Made")


def make_trial(values: dict[str, Any]) -> Trial:
    """Build a trial from plain values. Raises TrialError when it cannot be."""
    launch = values.get("launch", "spawn")
    fixed: dict[str, Any] = {}  # in place of defaults that would not go with the launch mode
    if launch in (*ONE_PROCESS, COMMAND) or values.get("primitives") is not None:
        fixed["strategy"] = None
    if launch == "single":
        fixed["world_size"] = 1
    for key, value in values.items():
        if not _is_text(value):
            raise TrialError(key, "is no text: it cannot be written as UTF-8")
    trial = convert(fixed | values, Trial)
    check_trial(trial)
    return trial


def convert(values: dict[str, Any], kind: type[Made], before: str = "") -> Made:
    """A struct from plain values. before: the start of each key's path. Raises TrialError."""
    try:
        return msgspec.convert(values, kind)
    except msgspec.ValidationError as error:
        refused = _explain(error, values)
        raise TrialError(f"{before}{refused.key}".rstrip("."), refused.why) from None


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


KINDS = {
    "int": "an integer", "float": "a number", "str": "text", "bool": "true or false", "array": "a list",
    "object": "a table",
}  # fmt: skip
BOUNDS = {">=": " of {} or more", "<=": " of {} at most", ">": " above {}"}  # msgspec names the one that was missed
EXAMPLES = {
    "bottleneck": '{ at = "backward", ranks = [1], sleep_ms = 5 }',
    "fault": '{ kind = "kill", rank = 1, step = 5 }',
}


def _explain(error: msgspec.ValidationError, values: Mapping[str, Any]) -> TrialError:
    """The error of a schema in a user's terms: `world_size: expected an integer, got "two"`. values: what was wrong."""
    what, _, place = str(error).partition(" - at `$")  # msgspec: "Expected `int`, got `str` - at `$.world_size`"
    path = place.rstrip("`").lstrip(".")
    what = what.replace("`", "").replace(" | null", "")
    value = value_at(values, path)
    field, is_item = re.split(r"[.\[]", path)[0], re.fullmatch(r"\w+\[\d+\]", path)
    if missing := re.fullmatch(r"Object missing required field (\w+)", what):
        why = f"lacks {missing[1]}" + (f", as in {EXAMPLES[field]}" if field in EXAMPLES else "")
    elif unknown := re.fullmatch(r"Invalid enum value (.+)", what):
        why = f"unknown value {unknown[1]}"
    elif not (known := re.fullmatch(r"Expected (\w+)(?: ([<>]=?) ([-\d.]+))?(?:, got \w+)?", what)):
        why = what[:1].lower() + what[1:]
    elif field in EXAMPLES and path == field:
        why = f"wants tables, e.g. [{EXAMPLES[field]}]"
    elif field in EXAMPLES and is_item:
        why = f"wants a table, e.g. {EXAMPLES[field]}"
    elif known[1] == "float" and isinstance(value, str):
        why = f"{quoted(value)} is not a number"
    else:
        bound = BOUNDS.get(known[2] or "", "").format((known[3] or "").removesuffix(".0"))
        why = f"expected {KINDS.get(known[1], known[1])}{bound}, got {quoted(value)}"
    return TrialError(path, why)


def value_at(values: Any, path: str) -> Any:
    """The value at a path like `bottleneck[0].sleep_ms`; None where there is none."""
    for key in re.findall(r"\w+", path):
        is_list = isinstance(values, list | tuple)
        values = values[int(key)] if is_list else values.get(key) if isinstance(values, Mapping) else None
    return values

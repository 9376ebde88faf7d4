"""Builds trials and other structs from plain values, and turns schema errors into messages for users."""

import re
from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from ddptui.config.checks import check_trial
from ddptui.config.engine import EngineOptions
from ddptui.config.fields import choices, misnamed
from ddptui.config.launch_modes import COMMAND, ONE_PROCESS
from ddptui.config.preset import Reference
from ddptui.config.toml import quoted
from ddptui.config.trial import TRIAL_FIELDS, Bottleneck, Fault, Trial, TrialError
from ddptui.text.words import did_you_mean, in_a_row

Made = TypeVar("Made", bound=msgspec.Struct)


def make_trial(values: dict[str, Any]) -> Trial:
    """Build a trial from plain values. Raises TrialError if they are invalid."""
    launch = values.get("launch", "spawn")
    fixed: dict[str, Any] = {}  # replaces defaults that do not fit the launch mode
    if launch in (*ONE_PROCESS, COMMAND) or values.get("primitives") is not None:
        fixed["strategy"] = None
    if launch == "single":
        fixed["world_size"] = 1
    for key, value in values.items():
        try:
            msgspec.json.encode(value)  # the value must be writable, since a run keeps its preset
        except UnicodeEncodeError:
            raise TrialError(key, "contains bytes that are not valid UTF-8") from None
    trial = convert(fixed | values, Trial)
    check_trial(trial)
    return trial


def convert(values: Mapping[str, Any], kind: type[Made], before: str = "") -> Made:
    """Build a struct from plain values. before: the start of each key's path in errors. Raises TrialError."""
    try:
        return msgspec.convert(values, kind)
    except msgspec.ValidationError as error:
        refused = _explain(error, values, kind)
        raise TrialError(f"{before}{refused.key}".rstrip("."), refused.why) from None


KINDS = {
    "int": "an integer", "float": "a number", "str": "text", "bool": "true or false", "array": "a list",
    "object": "a table",
}  # fmt: skip
BOUNDS = {">=": " of {} or more", "<=": " of {} at most", ">": " above {}"}  # msgspec names the violated bound
PARTS: dict[str, type[msgspec.Struct]] = {  # tables within tables
    "bottleneck": Bottleneck, "fault": Fault, "reference": Reference, "engine": EngineOptions,
}  # fmt: skip
EXAMPLES = {
    "bottleneck": '{ at = "backward", ranks = [1], sleep_ms = 5 }',
    "fault": '{ kind = "kill", rank = 1, step = 5 }',
}


def _explain(error: msgspec.ValidationError, values: Mapping[str, Any], kind: type[msgspec.Struct]) -> TrialError:
    """A schema error as a message for users: `world_size: expected an integer, got "two"`. values: the input."""
    what, path = str(error), ""  # msgspec: "Expected `int`, got `str` - at `$.world_size`"
    if located := re.fullmatch(r"(.*) - at `\$\.?([\w.\[\]]*)`", what, re.DOTALL):
        what, path = located.groups()
    what = what.replace("`", "").replace(" | null", "")
    value, field, last = _value_at(values, path), re.split(r"[.\[]", path)[0], re.sub(r"\[\d+\]$|.*\.", "", path)
    struct = PARTS.get(field, kind)
    if what.startswith("Object contains unknown field"):
        known = struct.__struct_fields__
        key = next(key for key in value if key not in known)
        listed = "`ddptui presets --fields` lists them" if struct is Trial else f"the keys are {', '.join(known)}"
        why = (misnamed(key) if struct is Trial else "") or f"unknown key; {did_you_mean(key, known, listed)}"
        return TrialError(f"{path}.{key}".lstrip("."), why)
    if missing := re.fullmatch(r"Object missing required field (\w+)", what):
        why = f"needs {missing[1]}" + (f", as in {EXAMPLES[field]}" if field in EXAMPLES else "")
    elif unknown := re.fullmatch(r"Invalid enum value (.+)", what, re.DOTALL):
        why = f"unknown value {unknown[1]}"
    elif not (expected := re.fullmatch(r"Expected (\w+)(?: ([<>]=?) ([-\d.]+))?(?:, got \w+)?", what)):
        why = what[:1].lower() + what[1:]
    elif field in EXAMPLES and path == field:
        why = f"expected a list of tables, e.g. [{EXAMPLES[field]}]"
    elif field in EXAMPLES and path.endswith("]") and last == field:
        why = f"expected a table, e.g. {EXAMPLES[field]}"
    elif expected[1] == "float" and isinstance(value, str):
        why = f"{quoted(value)} is not a number"
    else:
        bound = BOUNDS.get(expected[2] or "", "").format((expected[3] or "").removesuffix(".0"))
        why = f"expected {KINDS.get(expected[1], expected[1])}{bound}, got {quoted(value)}"
    remedies = []
    if (options := choices(last, struct)) and value not in options:
        remedies += [f"one of {', '.join(options)}", did_you_mean(value, options)]
        if kind is Trial and path in TRIAL_FIELDS and TRIAL_FIELDS[path].default is None:
            remedies.append("leave it out for none")
    elif path == "world_size" and isinstance(value, str):
        remedies.append('"cores" means one rank for each core of this host')
    return TrialError(path, in_a_row([why, *remedies], ";"))


def _value_at(values: Any, path: str) -> Any:
    """The value at a path like `bottleneck[0].sleep_ms`; None if there is none."""
    for key in re.findall(r"\w+", path):
        is_list = isinstance(values, list | tuple)
        values = values[int(key)] if is_list else values.get(key) if isinstance(values, Mapping) else None
    return values

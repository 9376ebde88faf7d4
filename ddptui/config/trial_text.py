"""Converts trials to text: command-line arguments that start a rank, and short descriptions for screens and tables."""

from collections.abc import Sequence
from typing import Any

import msgspec

from ddptui.config.own_code import in_short, is_own
from ddptui.config.toml import read_toml
from ddptui.config.trial import LINK, TRIAL_FIELDS, Bottleneck, Fault, Trial, TrialError
from ddptui.config.values import make_trial
from ddptui.text.words import NOTHING


def to_arguments(trial: Trial) -> list[str]:
    """The trial as `key=value` arguments for the entry point of a rank, one for each field that is not its default."""
    return [f"{name}={literal(value, bare=True)}" for name, value in off_default(trial).items() if name != "name"]


def off_default(trial: Trial) -> dict[str, Any]:
    """The fields that are not at their defaults, as plain values."""
    values = msgspec.to_builtins(trial)
    return {
        name: values[name]
        for name, field in TRIAL_FIELDS.items()
        if getattr(trial, name) != field.default and values[name] is not None
    }


def from_arguments(arguments: list[str]) -> Trial:
    """The trial that `to_arguments` has written as arguments. Raises TrialError."""
    return make_trial(dict(parse_assignment(argument) for argument in arguments))


def parse_assignment(text: str) -> tuple[str, Any]:
    """The key and value of `key=value`. The value is TOML or else a bare string. Raises TrialError without a `=`."""
    key, equals, value = text.partition("=")
    if not equals:
        raise TrialError(text, "expected KEY=VALUE")
    try:
        table = read_toml(f"value = {value}")
    except (ValueError, RecursionError):  # RecursionError: many nested brackets
        return key.strip(), value.strip()
    return key.strip(), table["value"] if len(table) == 1 else value.strip()  # a line end in the value added a key


def literal(value: Any, *, bare: bool = False) -> str:
    """A plain value as inline TOML. bare: a string is written without quotes if it reads back as the same string."""
    match value:
        case str():
            spelled = msgspec.json.encode(value).decode().replace("\x7f", "\\u007f")  # TOML requires this escape
            return value if bare and parse_assignment(f"_={value}")[1] == value else spelled
        case bool():
            return str(value).lower()
        case dict():
            return "{" + ", ".join(f"{key} = {literal(item)}" for key, item in value.items()) + "}"
        case list() | tuple():
            return "[" + ", ".join(literal(item) for item in value) + "]"
    return str(value)


def describe_average(trial: Trial) -> str:
    """What is averaged and how often, e.g. `parameters every 4`; empty for the gradients of every step."""
    if trial.every > 1:
        return f"{trial.average} every {trial.every}"
    return trial.average if trial.average == "parameters" else ""


def describe_bottleneck(bottlenecks: Sequence[Bottleneck]) -> str:
    """Delays and slow links in a few words, e.g. `backward 20 ms on 1` (rank 1)."""
    return ", ".join(_describe(bottleneck) for bottleneck in bottlenecks) or NOTHING


def describe_fault(faults: Sequence[Fault]) -> str:
    """Faults in a few words, e.g. `kill on 1, step 5` (rank 1)."""
    return ", ".join(f"{fault.kind} on {fault.rank}, step {fault.step}" for fault in faults) or NOTHING


def _describe(bottleneck: Bottleneck) -> str:
    ranks = ",".join(map(str, bottleneck.ranks))
    if bottleneck.at == LINK:
        return f"link {bottleneck.mbit:g} Mbit/s on {ranks}"
    pace = "/call" if bottleneck.per == "call" else f"/{bottleneck.every} steps" if bottleneck.every > 1 else ""
    if is_own(bottleneck.at):
        return f"{in_short(bottleneck.at)}{pace} on {ranks}"
    mean = "~" if bottleneck.jitter != "none" else ""
    return f"{bottleneck.at} {mean}{bottleneck.sleep_ms:g} ms{pace} on {ranks}"

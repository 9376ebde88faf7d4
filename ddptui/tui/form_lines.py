"""The form's lines of bottlenecks and faults: a line of texts for each. Their value is what `--set` takes."""

import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, TypedDict

import msgspec

from ddptui.config.delays import LINK
from ddptui.config.preset import Preset
from ddptui.config.trial_text import literal, parse_assignment

NOTHING_IN = "[]"  # the value of a field without bottlenecks or faults
REST = "rest"  # further fields, as words KEY=VALUE
BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
LONGEST_NUMBER = 64  # characters. Python cannot print integers of more than 4300 digits

Line = Mapping[str, str]  # by part


class BottleneckTable(TypedDict):
    """What a bottleneck needs to become a line."""

    at: str
    ranks: list[Any]


class FaultTable(TypedDict):
    """The fields of a fault that its line in the form shows."""

    kind: Any
    rank: Any
    step: Any


SHAPES = {"bottleneck": list[BottleneckTable], "fault": list[FaultTable]}


class Kind(NamedTuple):
    """What a line consists of: parts with a label, what a new one begins with, and a sentence."""

    labels: Mapping[str, str]
    usual: Line
    abouts: Mapping[str, str]


KINDS = {
    "bottleneck": Kind(
        {"at": "at", "ranks": "on ranks", "amount": "for ms", REST: "and"},
        {"at": "aggregate", "ranks": "1", "amount": "10", REST: ""},
        {
            "at": "where a rank is delayed: as it starts, while it fetches data, after forward or backward, before a "
            "collective; or a slow link",
            "ranks": "the ranks, with commas between them: 0,2",
            "amount": "milliseconds of a delay; of a link, how many Mbit/s it lets through",
            REST: "further words: every=2 from_step=10 to_step=20 jitter=uniform (or exponential) per=call",
        },
    ),
    "fault": Kind(
        {"kind": "kind", "rank": "on rank", "step": "in step"},
        {"kind": "kill", "rank": "1", "step": "5"},
        {
            "kind": "what happens to the rank: it ends, hangs, leaves the loop, or calls the wrong collectives",
            "rank": "the rank that it happens to",
            "step": "the step in which it happens, once; steps count from 0",
        },
    ),
}


def amount_field(at: str) -> str:
    """Return the field that holds the amount of a bottleneck at this site."""
    return "mbit" if at == LINK else "sleep_ms"


def value(field: str, lines: Iterable[Line]) -> str:
    """Return the value of a field with a bottleneck, or a fault, for each line."""
    tables = (_bottleneck(line) if field == "bottleneck" else _fault(line) for line in lines)
    return f"[{', '.join('{' + ', '.join(table) + '}' for table in tables)}]"


def lines(field: str, value: str) -> list[Line]:
    """Return the lines of a value; the inverse of `value`. A text that is no such value has no lines."""
    try:
        return [_line(field, table) for table in _tables(field, value)]
    except (ValueError, RecursionError):  # a number, or a list of lists, that Python cannot print
        return []


def repeated(value: str) -> str | None:
    """Return a word with a key that its bottleneck has already: `every=3` after `every=2`. None: there is none."""
    return next((key for table in _tables("bottleneck", value) for key in table if _is_again(key)), None)


def usual_lines(field: str, preset: Preset | None) -> list[Line]:
    """Return what the lines begin with: what the trials have that have any, if they agree on it."""
    values = {getattr(trial, field) for trial in preset.trials} - {()} if preset else set()
    if len(values) != 1:
        return [KINDS[field].usual]
    return [_line(field, msgspec.to_builtins(each)) for each in values.pop()]


def number_or_text(text: str) -> str:
    """Return a number as it is, and all else as a TOML string, so that the loader's error names the place."""
    text = text.strip()
    may_be = len(text) <= LONGEST_NUMBER and "#" not in text  # a comment would hide what follows in the line
    value = parse_assignment(f"number={text}")[1] if may_be else text
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return text if is_number else quoted(text)


def quoted(text: str) -> str:
    """Return a text as a TOML string."""
    return msgspec.json.encode(text).decode()


def _tables(field: str, value: str) -> list[dict[str, Any]]:
    """Return the tables of a value; none if one of them lacks what a line needs."""
    tables: list[dict[str, Any]] = parse_assignment(f"{field}={value}")[1]
    try:
        msgspec.convert(tables, SHAPES[field])
    except msgspec.ValidationError:
        return []
    return tables


def _line(field: str, table: Mapping[str, Any]) -> Line:
    if field == "fault":
        return {key: str(table[key]) for key in KINDS[field].labels}
    amount = amount_field(table["at"])
    shown = {"at": table["at"], "ranks": ",".join(map(str, table["ranks"])), "amount": str(table.get(amount, ""))}
    rest = {key: value for key, value in table.items() if key not in ("at", "ranks", amount)}
    return shown | {REST: " ".join(_word(*item) for item in rest.items())}


def _word(key: str, value: object) -> str:
    return key if _is_again(key) else f"{key}={value if isinstance(value, str) else literal(value)}"


def _is_again(key: str) -> bool:
    return "=" in key  # as no key of a word has


def _bottleneck(line: Line) -> list[str]:
    ranks = ", ".join(number_or_text(rank) for rank in line["ranks"].split(",") if rank.strip())
    amount = number_or_text(line["amount"])
    table = {"at": quoted(line["at"]), "ranks": f"[{ranks}]", amount_field(line["at"]): amount}
    for word in line[REST].split():
        key, _, value = word.partition("=")
        spelled = key if BARE_KEY.fullmatch(key) else quoted(key)
        if spelled in table:  # TOML has no repeated keys: the whole word becomes one, and so comes back in the form
            table[quoted(f"{key}={value}")] = quoted("")
        else:
            table[spelled] = number_or_text(value)
    return [f"{key} = {value}" for key, value in table.items()]


def _fault(line: Line) -> list[str]:
    return [f'kind = "{line["kind"]}"', *(f"{key} = {number_or_text(line[key])}" for key in ("rank", "step"))]

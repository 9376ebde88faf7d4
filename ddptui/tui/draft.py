"""A preset with changes that nobody has run yet: what the console's form holds, and the command line that says it too.

A change is kept as the text that `--set KEY=VALUE` takes, so that both mean the same by construction.
"""

import re
import shlex
from contextlib import suppress
from typing import Any, NamedTuple

import msgspec

from ddptui.config.parser import PresetError
from ddptui.config.preset import Preset
from ddptui.config.trial import Trial
from ddptui.config.trial_text import describe_bottleneck, parse_assignment
from ddptui.engines.preflight import prepare
from ddptui.store.presets import find, load
from ddptui.text.printable import printable
from ddptui.text.units import NOTHING

LENGTH = "length"  # epochs or steps, as the preset counts
REPEATS = "repeats"  # a change like any other here; on the command line an option of its own
VARIES = "varies"
NO_BOTTLENECK = "[]"
LINK = "link"  # the one bottleneck that is no delay
# Where the form has a word of its own.
LABELS = {"world_size": "ranks", "dataset": "data", "sleep_ms": "ms", "mbit": "Mbit/s"}
ALL = "all"
LISTS = ("operations", "reduce_ops")  # fields that are typed as words with commas between them
KINDS = {"int": "a whole number", "float": "a number", "str": "text", "bool": "true or false", "array": "a list"}
OF_TRAINING = ("launch", "world_size", "strategy", "average", "model", "dataset", LENGTH, REPEATS, "bottleneck")
OF_SEEING = ("launch", "world_size", "operations", "reduce_ops", "root", REPEATS)
OF_MEASURING = ("launch", "world_size", "operations", "root", "max_bytes", "iterations", "cadence", REPEATS)
LONGEST_QUOTE = 20  # characters of a number that nobody can have meant


def label(field: str) -> str:
    """What a field of a trial is called in the form."""
    return LABELS.get(field, field)


class Draft(msgspec.Struct, frozen=True):
    """`changes`: by field of a trial (or `repeats`), its value as the command line takes it; for all trials."""

    name: str
    changes: dict[str, str] = {}


def preset(draft: Draft) -> Preset:
    """The preset with the changes in it. Raises PresetError: one line, without the file that is drafted from."""
    assignments = dict(parse_assignment(f"{key}={value}") for key, value in draft.changes.items() if key != REPEATS)
    try:
        loaded = load(draft.name, assignments)
    except PresetError as error:
        raise PresetError(_in_the_forms_words(_without_place(str(error), draft.name), draft.changes)) from None
    return msgspec.structs.replace(loaded, repeats=_repeats(draft, loaded.repeats))


class Validation(NamedTuple):
    """preset: the changes make one; settled: it can be run here; reason: why not, in one line."""

    preset: Preset | None
    settled: Preset | None
    reason: str


def validate(draft: Draft) -> Validation:
    """What would come of it, if it were run now."""
    made = None
    try:
        made = preset(draft)
        return Validation(made, prepare(made, to_be_started=False), "")
    except PresetError as error:
        return Validation(made, None, str(error))


def command_line(draft: Draft) -> str:
    """What runs the draft without the console."""
    words = ["ddptui", "--preset", draft.name]
    for key, value in draft.changes.items():
        words += ["--repeats", value] if key == REPEATS else ["--set", f"{key}={value}"]
    return shlex.join([*words, "--no-ui"])


def as_it_is(preset: Preset, field: str) -> str:
    """What all trials have in a field, or that it varies."""
    if field == REPEATS:
        return str(preset.repeats)
    values = {_shown(trial, field) for trial in preset.trials}
    return values.pop() if len(values) == 1 else VARIES


def fields(preset: Preset) -> tuple[str, ...]:
    """What a form asks for: the fields that mean something to these trials, and that one wants to change."""
    if preset.kind == "training":
        return OF_TRAINING
    return OF_SEEING if all(trial.primitives == "see" for trial in preset.trials) else OF_MEASURING


def listed(words: str) -> str:
    """The value of one of LISTS: `reduce, gather` is `["reduce", "gather"]`. What is a list already, stays one."""
    if words.lstrip().startswith("["):
        return words
    names = [word.strip() for word in words.split(",") if word.strip()]
    return f"[{', '.join(msgspec.json.encode(printable(name)).decode() for name in names)}]"


def unlisted(value: str) -> str:
    """The inverse."""
    names = parse_assignment(f"names={value}")[1]
    return ", ".join(map(str, names)) if isinstance(names, list) else value


def length_field(preset: Preset) -> str:
    """The field that says how long the trials train: epochs mean nothing where a trial counts steps."""
    return "steps" if any(trial.steps is not None for trial in preset.trials) else "epochs"


def bottleneck(at: str, ranks: str, amount: str) -> str:
    """The value of `bottleneck` for one delay of so many ms, or slow links of so many Mbit/s. What is no number goes in
    as text, for the loader to say where."""
    listed = ", ".join(_number_or_text(rank) for rank in ranks.split(",") if rank.strip())
    return f'[{{at = "{at}", ranks = [{listed}], {amount_field(at)} = {_number_or_text(amount)}}}]'


def bottleneck_fields(value: str) -> tuple[str, str, str]:
    """The inverse: where, on which ranks, how many ms or Mbit/s."""
    fields: dict[str, Any] = parse_assignment(f"bottleneck={value}")[1][0]
    return fields["at"], ",".join(map(str, fields["ranks"])), str(fields[amount_field(fields["at"])])


def amount_field(at: str) -> str:
    """Which field of a bottleneck says how much of one it is."""
    return "mbit" if at == LINK else "sleep_ms"


def at_fault(draft: Draft, reason: str) -> str | None:
    """The change that a refusal speaks of first; the first one, where it names none."""
    places = {key: re.search(rf"\b({key}|{label(key)})\b", reason) for key in draft.changes}
    named = {key: place.start() for key, place in places.items() if place}
    return min(named or draft.changes, key=lambda key: named.get(key, 0), default=None)


def _repeats(draft: Draft, usual: int) -> int:
    text = draft.changes.get(REPEATS)
    if text is None:
        return usual
    if not (text.isdecimal() and text.isascii() and 1 <= int(text[:9]) <= 1000):
        raise PresetError(f"{REPEATS}: expected 1 to 1000, got {text[:LONGEST_QUOTE]}")
    return int(text)


def _without_place(why: str, name: str) -> str:
    """Neither the file, which is the one on the screen, nor `--set `, which nobody has typed."""
    with suppress(PresetError):  # the file is gone, and that is what is wrong
        why = why.removeprefix(f"{find(name)}: ")
    return " ".join(why.removeprefix("--set ").splitlines())


def _in_the_forms_words(why: str, changes: dict[str, str]) -> str:
    """What is refused of the changes, for somebody who sees the form and no file: `ranks: a whole number is wanted, …`.
    Of a file, its own words say where to look."""
    key, _, rest = why.partition(": ")
    field, _, part = re.sub(r"\[\d+\]", "", key).partition(".")
    if field not in changes:
        return why
    where = f"{label(field)}, {label(part)}" if part else label(field)
    return f"{where}: {_wanted(rest, '' if part else changes[field][:LONGEST_QUOTE])}"


def _wanted(why: str, text: str) -> str:
    """Of a wrong kind of value, without the names that a programming language has for it. text: the value, if known."""
    found = re.fullmatch(r"expected (\w+)( [<>]=? [\d.]+)?(?:, got (\w+))?", why)
    if found is None:
        return why
    kind, limit, got = found.groups()
    known = f"text {text!r}" if got == "str" else text
    what = known if text else KINDS.get(got, got)
    return f"{KINDS.get(kind, kind)}{limit or ''} is wanted" + (f", got {what}" if what else "")


def _shown(trial: Trial, field: str) -> str:
    if field == "bottleneck":
        return describe_bottleneck(trial.bottleneck)
    value = getattr(trial, field)
    if isinstance(value, tuple):
        return ", ".join(value) or ALL
    return NOTHING if value is None else str(value)


def _number_or_text(text: str) -> str:
    """As TOML takes it."""
    value = parse_assignment(f"number={text.strip()}")[1]
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return text.strip() if is_number else msgspec.json.encode(printable(text.strip())).decode()

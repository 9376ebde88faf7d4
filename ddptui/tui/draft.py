"""A draft: a preset with changes that the console's form holds, and the command line that means the same.

A change is the text that `--set KEY=VALUE` takes, so the form and the command line cannot differ.
"""

import re
import shlex
from contextlib import suppress
from typing import Any, NamedTuple

import msgspec

from ddptui.config.parser import MOST_REPEATS, PresetError
from ddptui.config.preset import Preset
from ddptui.config.trial import Trial
from ddptui.config.trial_text import describe_bottleneck, parse_assignment
from ddptui.engines.preflight import prepare
from ddptui.store.presets import find, load
from ddptui.text.units import NOTHING
from ddptui.text.words import printable

LENGTH = "length"  # epochs or steps, as the preset counts
REPEATS = "repeats"  # a change like any other here; on the command line an option of its own
VARIES = "varies"
NO_BOTTLENECK = "[]"
LINK = "link"  # the one bottleneck that is no delay
# Labels of the form that are shorter than the field's name.
LABELS = {"world_size": "ranks", "dataset": "data", "sleep_ms": "ms", "mbit": "Mbit/s"}
ALL = "all"
LISTS = ("operations", "reduce_ops")  # fields that are typed as words separated by commas
OF_TRAINING = ("launch", "world_size", "strategy", "average", "model", "dataset", LENGTH, REPEATS, "bottleneck")
OF_SEEING = ("launch", "world_size", "operations", "reduce_ops", "root", REPEATS)
OF_COMMAND = (REPEATS, "bottleneck")
OF_MEASURING = ("launch", "world_size", "operations", "root", "max_bytes", "iterations", "cadence", REPEATS)
LONGEST_QUOTE = 20  # characters of a wrong value that an error repeats


class Draft(msgspec.Struct, frozen=True):
    """A preset's name and its changes for all trials: by field, or `repeats`, the text that the command line takes."""

    name: str
    changes: dict[str, str] = {}


def preset(draft: Draft) -> Preset:
    """Return the preset with the changes. Raises PresetError: one line, without the preset's file."""
    assignments = dict(parse_assignment(f"{key}={value}") for key, value in draft.changes.items() if key != REPEATS)
    try:
        loaded = load(draft.name, assignments)
    except PresetError as error:
        raise PresetError(_in_words_of_the_form(str(error), draft)) from None
    repeats = draft.changes.get(REPEATS)
    if repeats is None:
        return loaded
    digits = repeats[:9]  # int() fails at 4300 digits
    if not (repeats.isdecimal() and repeats.isascii() and 1 <= int(digits) <= MOST_REPEATS):
        raise PresetError(f"{REPEATS}: expected 1 to {MOST_REPEATS}, got {repeats[:LONGEST_QUOTE]}")
    return msgspec.structs.replace(loaded, repeats=int(repeats))


class Validation(NamedTuple):
    """Whether a draft could run."""

    preset: Preset | None  # with the changes, if valid
    prepared: Preset | None  # the same, if it can run here
    reason: str  # why not, in one line


def validate(draft: Draft) -> Validation:
    """Check whether a draft could run now, without the slow checks."""
    made = None
    try:
        made = preset(draft)
        return Validation(made, prepare(made, to_be_started=False), "")
    except PresetError as error:
        return Validation(made, None, str(error))


def command_line(draft: Draft) -> str:
    """Return the command that runs the draft without the console."""
    words = ["ddptui", "run", draft.name]
    for key, value in draft.changes.items():
        words += ["--repeats", value] if key == REPEATS else ["--set", f"{key}={value}"]
    return shlex.join([*words, "--no-ui"])


def as_it_is(preset: Preset, field: str) -> str:
    """Return the value that all trials have in a field, or VARIES."""
    if field == REPEATS:
        return str(preset.repeats)
    values = {_shown(trial, field) for trial in preset.trials}
    return values.pop() if len(values) == 1 else VARIES


def fields(preset: Preset) -> tuple[str, ...]:
    """Return the fields of the form: those that matter to these trials and are worth changing."""
    if preset.kind == "training":
        return OF_TRAINING
    if preset.kind == "command":
        return OF_COMMAND
    return OF_SEEING if all(trial.primitives == "see" for trial in preset.trials) else OF_MEASURING


def listed(words: str) -> str:
    """Return the value of one of LISTS: `reduce, gather` becomes `["reduce", "gather"]`. A list stays as it is."""
    if words.lstrip().startswith("["):
        return words
    names = [word.strip() for word in words.split(",") if word.strip()]
    return f"[{', '.join(msgspec.json.encode(printable(name)).decode() for name in names)}]"


def unlisted(value: str) -> str:
    """Return the words of a list; the inverse of `listed`."""
    names = parse_assignment(f"names={value}")[1]
    return ", ".join(map(str, names)) if isinstance(names, list) else value


def length_field(preset: Preset) -> str:
    """Return the field that sets how long the trials train: epochs mean nothing where a trial counts steps."""
    return "steps" if any(trial.steps is not None for trial in preset.trials) else "epochs"


def bottleneck(at: str, ranks: str, amount: str) -> str:
    """Return the value of `bottleneck` for one delay in ms, or for slow links in Mbit/s."""
    listed = ", ".join(_number_or_text(rank) for rank in ranks.split(",") if rank.strip())
    return f'[{{at = "{at}", ranks = [{listed}], {amount_field(at)} = {_number_or_text(amount)}}}]'


def bottleneck_fields(value: str) -> tuple[str, str, str]:
    """Return site, ranks and amount of a `bottleneck`; the inverse of `bottleneck`."""
    fields: dict[str, Any] = parse_assignment(f"bottleneck={value}")[1][0]
    return fields["at"], ",".join(map(str, fields["ranks"])), str(fields[amount_field(fields["at"])])


def amount_field(at: str) -> str:
    """Return the field that holds the amount of a bottleneck at this site."""
    return "mbit" if at == LINK else "sleep_ms"


def label(field: str) -> str:
    """Return what the form calls a field."""
    return LABELS.get(field, field)


def at_fault(draft: Draft, reason: str) -> str | None:
    """Return the change that a refusal names first, or the first change if it names none."""
    places = {key: re.search(rf"\b({key}|{label(key)})\b", reason) for key in draft.changes}
    named = {key: place.start() for key, place in places.items() if place}
    return min(named or draft.changes, key=lambda key: named.get(key, 0), default=None)


def _in_words_of_the_form(why: str, draft: Draft) -> str:
    """Return an error in one line, without the file, which is on the screen, and `--set `, which the user has not
    typed; with the form's labels if it is about a change: `ranks: expected …`."""
    with suppress(PresetError):  # the file is gone: then the reason is just that
        why = why.removeprefix(f"{find(draft.name)}: ")
    why = " ".join(why.removeprefix("--set ").splitlines())
    key, _, rest = why.partition(": ")
    field, _, part = re.sub(r"\[\d+\]", "", key).partition(".")  # bottleneck[0].sleep_ms
    if field not in draft.changes:
        return why
    return ", ".join(filter(None, [label(field), label(part)])) + f": {rest}"


def _shown(trial: Trial, field: str) -> str:
    if field == "bottleneck":
        return describe_bottleneck(trial.bottleneck)
    value = getattr(trial, field)
    if isinstance(value, tuple):
        return ", ".join(value) or ALL
    return NOTHING if value is None else str(value)


def _number_or_text(text: str) -> str:
    """Return a number as it is, and all else as a TOML string, so that the loader's error names the place."""
    value = parse_assignment(f"number={text.strip()}")[1]
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return text.strip() if is_number else msgspec.json.encode(printable(text.strip())).decode()

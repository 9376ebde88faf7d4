"""A draft: a preset with changes that the console's form holds, and the command line that means the same.

A change is the text that `--set KEY=VALUE` takes, so the form and the command line cannot differ.
"""

import re
import shlex
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import NamedTuple

import msgspec

from ddptui.config.fields import FIELDS, choices, kind, meaningless, work_of
from ddptui.config.parser import BOTTLENECK, MOST_REPEATS, PresetError, left_as_it_is
from ddptui.config.preset import Preset
from ddptui.config.trial import Trial
from ddptui.config.trial_text import describe_bottleneck, describe_fault, parse_assignment
from ddptui.engines.preflight import prepare
from ddptui.store.presets import find, load
from ddptui.text.units import NOTHING
from ddptui.tui.form_lines import KINDS, NOTHING_IN, REST, number_or_text, quoted, repeated

REPEATS = "repeats"  # of the preset; a change like any other here, on the command line an option of its own
COMMON = (
    "launch", "world_size", "strategy", "average", "model", "dataset", "operations", "reduce_ops", "root", "max_bytes",
    "iterations", "cadence", "epochs", "steps", REPEATS, "bottleneck",
)  # fmt: skip
OTHERS = (
    "batch_size", "warmup_steps", "num_workers", "pin_memory", "data_dir", "download", "shape", "samples", "classes",
    "seed", "width", "depth", "batch_norm", "dtype", "amp", "channels_last", "compile", "optimizer", "lr", "momentum",
    "weight_decay", "clip_norm", "every", "reduction", "bucket_mb", "gradient_as_bucket_view", "static_graph",
    "powersgd_rank", "sync_batchnorm", "mistake", "composites", "min_bytes", "step_factor", "cell_s", "command", "env",
    "device", "backend", "gpus_per_rank", "share_gpu", "threads", "sched_batch", "start", "start_method", "init_method",
    "stall_s", "fault", "hash_every", "instruments", "save",
)  # fmt: skip
# Labels that are shorter than the field's name.
LABELS = {
    "world_size": "ranks",
    "dataset": "data",
    "sleep_ms": "ms",
    "mbit": "Mbit/s",
    "gradient_as_bucket_view": "bucket_view",
    "sync_batchnorm": "sync_bn",
}
ABOUT_REPEATS = "launches of each trial, one after the other; medians are over them"
VARIES = "varies"
ALL = "all"
ALL_IF_NONE = ("operations", "reduce_ops")
LONGEST_QUOTE = 20  # characters of a wrong value that an error repeats


class Draft(msgspec.Struct, frozen=True):
    """A preset's name and its changes for all trials: by field, or `repeats`, the text that the command line takes."""

    name: str
    changes: dict[str, str] = {}


def preset(draft: Draft) -> Preset:
    """Return the preset with the changes. Raises PresetError, whose message is one line and does not name the file."""
    if word := repeated(draft.changes.get(BOTTLENECK, NOTHING_IN)):
        place, key = KINDS[BOTTLENECK].labels[REST], word.partition("=")[0]
        raise PresetError(f"{BOTTLENECK}, {place}: {key} is given twice: remove {word[:LONGEST_QUOTE]}")
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


def without_old_figures(changed: Preset, before: Preset) -> Preset:
    """Return the preset without the published figures of trials that were changed. `before`: what was changed. Of a run
    it may be a draft, or what `--set` had made: the trials of the preset's file count, too."""
    unchanged = {*before.trials}
    with suppress(PresetError):  # the file is gone, or is not in a folder of presets
        own = load(before.name)
        unchanged &= {*own.trials, *prepare(own, to_be_started=False).trials}
    names = {trial.name for trial in changed.trials if trial in unchanged}
    references = tuple(reference for reference in changed.references if reference.trial in names)
    return msgspec.structs.replace(changed, references=references)


class Validation(NamedTuple):
    """Whether a draft could run."""

    preset: Preset | None  # with the changes, if valid
    prepared: Preset | None  # the same, if it can run here
    reason: str  # why not, in one line
    left: Mapping[str, str] = {}  # why trials are left without the bottleneck, by name


def validate(draft: Draft) -> Validation:
    """Check whether a draft could run now, without the slow checks."""
    made, left = None, dict[str, str]()
    try:
        made = preset(draft)
        if BOTTLENECK in draft.changes:
            left = left_as_it_is(made.trials, parse_assignment(f"{BOTTLENECK}={draft.changes[BOTTLENECK]}")[1])
        return Validation(made, prepare(made, to_be_started=False), "", left)
    except PresetError as error:
        return Validation(made, None, str(error), left)


def command_line(draft: Draft) -> str:
    """Return the command that runs the draft without the console."""
    words = ["ddptui", "run", draft.name]
    for key, value in draft.changes.items():
        words += ["--repeats", value] if key == REPEATS else ["--set", f"{key}={value}"]
    return shlex.join([*words, "--no-ui"])


def label(key: str) -> str:
    """Return what the form calls a field."""
    return LABELS.get(key, key)


def about(key: str) -> str:
    """Return a sentence about a field."""
    if key == REPEATS:
        return f"{REPEATS}: {ABOUT_REPEATS}"
    is_typed = not choices(key) and kind(key) not in ("true or false", "list of tables")  # not chosen from a list
    type_of_it = f" ({kind(key)})" if is_typed else ""
    return f"{key}: {FIELDS[key].description}{type_of_it}"


def offered(preset: Preset, changed: Preset) -> set[str]:
    """Return the fields that the form offers: the common ones that mean something in the preset's kinds of work,
    whatever is changed, and the others that mean something to at least one of the changed trials."""
    works = {work_of(trial.launch, trial.primitives) for trial in preset.trials}
    fields = {key for key in COMMON if key == REPEATS or works & {*FIELDS[key].work}}
    if works == {"watch"}:
        fields.discard("launch")  # a command stays one
    if all(trial.steps is not None for trial in preset.trials):
        fields.discard("epochs")
    useless = [meaningless(trial.launch, trial.strategy, trial.primitives) for trial in changed.trials]
    return fields | {key for key in OTHERS if any(key not in each for each in useless)}


def as_it_is(preset: Preset, field: str) -> str:
    """Return the value that all trials have in a field, or VARIES."""
    if field == REPEATS:
        return str(preset.repeats)
    values = {_shown(trial, field) for trial in preset.trials}
    return values.pop() if len(values) == 1 else VARIES


def is_typed_list(field: str) -> bool:
    """Whether a field is a list that is typed as words: with commas between them, or as a shell takes them."""
    return field != REPEATS and field not in KINDS and kind(field).startswith("list of ")


def listed(field: str, words: str) -> str:
    """Return the value of a list: `reduce, gather` becomes `["reduce", "gather"]`. A list stays as it is."""
    if words.lstrip().startswith("["):
        return words
    if _is_of_shell_words(field):
        with suppress(ValueError):  # a quotation that does not end: refused, as text is no list
            return f"[{', '.join(map(quoted, shlex.split(words)))}]"
        return words
    spelled = number_or_text if "integer" in kind(field) else quoted
    return f"[{', '.join(spelled(word.strip()) for word in words.split(',') if word.strip())}]"


def unlisted(field: str, value: str) -> str:
    """Return the words of a list; the inverse of `listed`."""
    items = parse_assignment(f"{field}={value}")[1]
    return _words(field, items) if isinstance(items, list) else value


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
    value = getattr(trial, field)
    if field == BOTTLENECK:
        return describe_bottleneck(value)
    if field == "fault":
        return describe_fault(value)
    if isinstance(value, tuple):
        return _words(field, value) or (ALL if field in ALL_IF_NONE else NOTHING)
    if isinstance(value, bool):
        return str(value).lower()
    return NOTHING if value is None else str(value)


def _words(field: str, items: Iterable[object]) -> str:
    return shlex.join(map(str, items)) if _is_of_shell_words(field) else ", ".join(map(str, items))


def _is_of_shell_words(field: str) -> bool:
    return kind(field) == "list of text"

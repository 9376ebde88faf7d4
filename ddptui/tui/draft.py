"""A draft: a preset with changes that the console's form holds, and the command line that means the same.

A change is the text that `--set [TRIAL:]KEY=VALUE` takes, so the form and the command line cannot differ.
"""

import re
import shlex
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import NamedTuple

import msgspec

from ddptui.config.fields import FIELDS, kind, meaningless, work_of
from ddptui.config.parser import BOTTLENECK, Edits, PresetError, edited, read_changes, skipped_overrides
from ddptui.config.preset import MOST_REPEATS, Preset
from ddptui.config.trial import FIELDS as OWN_FIELDS
from ddptui.config.trial import Trial, TrialError
from ddptui.config.values import IN_WORDS, describe_bottleneck, parse_assignment
from ddptui.engines.checks import prepare
from ddptui.store.presets import load
from ddptui.text.words import NOTHING, did_you_mean, in_a_row, listed

LINE = "line"  # the form's line of other fields
REPEATS = "repeats"  # of the preset; a change like any other here, on the command line an option of its own
# The fields with a place of their own in the form, in order; the line below them takes all others.
COMMON = (
    "launch", "world_size", "strategy", "model", "dataset", "epochs", "steps", "operations", "max_bytes", "iterations",
    REPEATS, BOTTLENECK,
)  # fmt: skip
ABOUT_REPEATS = "launches of each trial, one after the other; medians are over them"
VARIES = "varies"
LONGEST_QUOTE = 20  # characters of a wrong value that an error repeats


class Draft(msgspec.Struct, frozen=True):
    """A preset's name and its changes: the text of each by KEY, TRIAL:KEY or `repeats`; the copied trial of each new
    one; the names of removed trials; and the form's line of other fields while it cannot be read."""

    name: str
    changes: dict[str, str] = {}
    copies: dict[str, str] = {}
    removed: tuple[str, ...] = ()
    unread: str = ""

    @property
    def is_changed(self) -> bool:
        """Whether it differs from the preset."""
        return bool(self.changes or self.copies or self.removed or self.unread)


def spell(key: str, trial: str | None) -> str:
    """The key of a change of one trial, or of all (None)."""
    return key if trial is None or key == REPEATS else f"{trial}:{key}"


def own(changes: Mapping[str, str], trial: str | None) -> dict[str, str]:
    """The changes of one trial, or those of all trials (None), by field."""
    parts = {key: key.rpartition(":") for key in changes}
    return {field: changes[key] for key, (whose, _, field) in parts.items() if whose == (trial or "")}


def preset(draft: Draft) -> Preset:
    """The preset with the changes. Raises PresetError, whose message is one line and does not name the file."""
    assignments = [f"{key}={value}" for key, value in draft.changes.items() if key != REPEATS]
    try:
        copies = [f"{old}={new}" for new, old in draft.copies.items()]
        overrides, edits = read_changes(assignments, copies, draft.removed)
        loaded = load(draft.name, overrides, edits=edits)
    except (PresetError, TrialError) as error:
        why = str(error).partition(".toml: ")[2] or str(error)
        raise PresetError(" ".join(why.removeprefix("--set ").splitlines())) from None
    repeats = draft.changes.get(REPEATS)
    if repeats is None:
        return loaded
    if not re.fullmatch("[1-9][0-9]{0,3}", repeats) or int(repeats) > MOST_REPEATS:
        raise PresetError(f"{REPEATS}: expected 1 to {MOST_REPEATS}, got {repeats[:LONGEST_QUOTE]}")
    return msgspec.structs.replace(loaded, repeats=int(repeats))


def retyped(draft: Draft, trial: str | None, common: Mapping[str, str], line: str) -> Draft:
    """The draft with these changes of one trial, or of all (None), in place of its former ones: those of the common
    fields, and a line of others. While the line cannot be read, what it said before counts."""
    before = own(draft.changes, trial)
    try:
        others, unread = read_line(line), ""
    except PresetError:
        others, unread = {key: text for key, text in before.items() if key not in COMMON}, line
    replaced = {spell(key, trial) for key in before}
    kept = {key: text for key, text in draft.changes.items() if key not in replaced}
    changes = {spell(key, trial): text for key, text in {**others, **common}.items()}
    return msgspec.structs.replace(draft, changes=kept | changes, unread=unread)


def duplicated(draft: Draft, trial: str, name: str) -> Draft:
    """The draft with a copy of a trial."""
    copied = {spell(key, name): text for key, text in own(draft.changes, trial).items()}
    return msgspec.structs.replace(draft, copies=draft.copies | {name: trial}, changes=draft.changes | copied)


def without(draft: Draft, trial: str) -> Draft:
    """The draft without a trial."""
    changes = {key: text for key, text in draft.changes.items() if not key.startswith(f"{trial}:")}
    if trial in draft.copies and trial not in draft.copies.values():
        copies = {new: old for new, old in draft.copies.items() if new != trial}
        return msgspec.structs.replace(draft, copies=copies, changes=changes)
    return msgspec.structs.replace(draft, removed=(*draft.removed, trial), changes=changes)


def copy_problem(made: Preset, name: str) -> str:
    """Why a copy of a trial cannot have this name; empty if it can."""
    try:
        edited(made, Edits(copies={name: made.trials[0].name}))
    except TrialError as error:
        return error.why
    return ""


def without_old_figures(changed: Preset, before: Preset) -> Preset:
    """The preset without the published figures of trials that were changed. before: what was changed. Of a run it may
    be a draft, or what `--set` had made: the trials of the preset's file count, too."""
    unchanged = {*before.trials}
    with suppress(PresetError):  # the file is gone, or is not in a folder of presets
        in_file = load(before.name)
        unchanged &= {*in_file.trials, *prepare(in_file, to_be_started=False).trials}
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
            left = skipped_overrides(made.trials, parse_assignment(f"{BOTTLENECK}={draft.changes[BOTTLENECK]}")[1])
        read_line(draft.unread)
        return Validation(made, prepare(made, to_be_started=False), "", left)
    except PresetError as error:
        return Validation(made, None, str(error), left)


def command_line(draft: Draft) -> str:
    """The command that runs the draft without the console."""
    words = ["ddptui", "run", draft.name]
    words += [word for new, old in draft.copies.items() for word in ("--duplicate", f"{old}={new}")]
    for key, value in draft.changes.items():
        words += ["--repeats", value] if key == REPEATS else ["--set", f"{key}={value}"]
    words += [word for trial in draft.removed for word in ("--remove", trial)]
    return shlex.join([*words, "--no-ui"])


def became_equal(made: Preset, before: Preset) -> str:
    """A sentence that names trials which the changes have made equal; empty if there are none."""
    were = {trial.name: msgspec.structs.replace(trial, name="") for trial in before.trials}
    groups: dict[Trial, list[str]] = {}
    for trial in made.trials:
        groups.setdefault(msgspec.structs.replace(trial, name=""), []).append(trial.name)
    for names in groups.values():
        # Trials that are equal in the preset are so on purpose; a copy is not in the preset.
        if len({were.get(name, name) for name in names}) > 1:
            return f"{listed(names)} are the same"
    return ""


def about(key: str) -> str:
    """A sentence about a field."""
    if key == REPEATS:
        return f"{REPEATS}: {ABOUT_REPEATS}"
    values = f"e.g. {IN_WORDS[key]}, or none" if key in IN_WORDS else kind(key)
    return f"{key}: {FIELDS[key].description} ({values})"


def common(preset: Preset) -> set[str]:
    """The common fields that mean something in the preset's kinds of work, whatever is changed."""
    works = {work_of(trial.launch, trial.primitives) for trial in preset.trials}
    fields = {key for key in COMMON if key == REPEATS or works & {*FIELDS[key].work}}
    if works == {"watch"}:
        fields.discard("launch")  # a command stays one
    are_limited = all(trial.steps is not None for trial in preset.trials)
    return fields - {"epochs" if are_limited else "steps"}


def others(trials: Iterable[Trial]) -> list[str]:
    """The fields besides the common ones that mean something to at least one of these trials."""
    useless = [meaningless(trial.launch, trial.strategy, trial.primitives) for trial in trials]
    return [key for key in FIELDS if key not in (*COMMON, "name") and any(key not in each for each in useless)]


def as_it_is(preset: Preset, field: str, trial: str | None = None) -> str:
    """The value of a common field in one trial; without a trial, the value that all trials have, or VARIES."""
    if field == REPEATS:
        return str(preset.repeats)
    values = {_shown(each, field) for each in preset.trials if trial in (None, each.name)}
    return values.pop() if len(values) == 1 else VARIES


def read_line(text: str) -> dict[str, str]:
    """The changes in a line of words KEY=VALUE, quoted as in a shell. Raises PresetError."""
    try:
        words = shlex.split(text)
    except ValueError:
        raise PresetError("a quotation does not end: close it") from None
    if wrong := next((word for word in words if "=" not in word.strip("=")), None):
        if (key := wrong.rstrip("=")) in FIELDS and key != wrong:
            raise PresetError(f"{wrong} has no value" + (f"; your own code: {wrong}mine.py:name" * (key in OWN_FIELDS)))
        hint = did_you_mean(wrong, FIELDS, "")
        raise PresetError(in_a_row([f"{wrong[:LONGEST_QUOTE]}: write KEY=VALUE", hint], ";"))
    return {key: value for key, _, value in (word.partition("=") for word in words)}


def at_fault(draft: Draft, reason: str) -> str | None:
    """The field that a refusal names first; if it names none, the field that was changed first. None: nothing was."""
    if draft.unread:
        return LINE
    places = {key.rpartition(":")[2]: re.search(rf"\b{re.escape(key)}\b", reason) for key in draft.changes}
    named = {key: place.start() for key, place in places.items() if place}
    return min(named or places, key=lambda key: named.get(key, 0), default=None)


def _shown(trial: Trial, field: str) -> str:
    """The value of a common field."""
    value = getattr(trial, field)
    if field == BOTTLENECK:
        return describe_bottleneck(value)
    if field == "operations":
        return ", ".join(value) or "all"
    return NOTHING if value is None else str(value)

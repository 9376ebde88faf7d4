"""Builds a Preset from the tables of a TOML file: expands the matrix, and checks every key and value."""

import itertools
import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from ddptui.config.catalog import COMMAND
from ddptui.config.fields import check_columns, meaningless, meaningless_at_work, work_of
from ddptui.config.preset import Chinese, LessonQuestion, Preset, PresetKeys
from ddptui.config.trial import FIELDS as OWN_FIELDS
from ddptui.config.trial import SUFFIX, TRIAL_FIELDS, Trial, TrialError, TrialKind, in_short, is_own, parsed
from ddptui.config.values import convert, make_trial, off_default, parse_assignment
from ddptui.text.words import did_you_mean, listed, printable

# Fields whose values need the field's name in a trial's name. Other names must not change: runs and baselines use them.
NAMED = ("share_gpu", "channels_last", "compile", "clip_norm", "num_workers", "pin_memory")
BOTTLENECK = "bottleneck"
MOST_TRIALS = 1000
MOST_IN_NAME = 64  # characters
CORES = "cores"  # world_size = "cores": one rank for each core of the host that reads the preset
FEWEST_RANKS = 2  # also on a host with one core: a single rank has no other to wait for
NOT_IN_NAME = re.compile(r"[^A-Za-z0-9_.+-]+")
TRIAL_NAME = re.compile(rf"[A-Za-z0-9][A-Za-z0-9_.+-]{{0,{MOST_IN_NAME - 1}}}")  # it names a folder
NAME_RULE = f"use letters, digits and . _ + -, {MOST_IN_NAME} at most, and begin with a letter or a digit"


class PresetError(ValueError):
    """A preset that cannot be used. The message is one line: file, key, what is wrong, the nearest valid spelling."""


class PresetFile(PresetKeys, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The keys of a preset's file. The fields of its trials are checked one trial at a time."""

    defaults: dict[str, Any] = msgspec.field(default_factory=dict)
    matrix: dict[str, Any] = msgspec.field(default_factory=dict)
    trial: tuple[dict[str, Any], ...] = ()


def parse(name: str, table: dict[str, Any], overrides: dict[str, Any], cores: int = FEWEST_RANKS) -> Preset:
    """Build a preset from the tables of its file. cores: the number of the host's cores. Raises TrialError."""
    file = convert(table, PresetFile)
    _check_tables(file, overrides)
    trials = _make_trials(file, overrides, max(cores, FEWEST_RANKS))
    names = [trial.name for trial in trials]
    _check_trials(file.kind, trials, overrides)
    meant = [("baseline", file.baseline or names[0])]
    meant += [(f"reference[{index}].trial", each.trial) for index, each in enumerate(file.references)]
    for index, question in enumerate(file.questions):
        if question.text in (before.text for before in file.questions[:index]):
            raise TrialError(f"question[{index}].text", "another question has this text: word them differently")
        check_columns(question.columns, f"question[{index}].columns")
        meant += [(f"question[{index}].trials", trial) for trial in question.trials]
    for path, trial in meant:
        if trial not in names and not overrides:  # an override may have renamed it
            raise TrialError(path, _no_trial(trial, names))
    keys = {key: getattr(file, key) for key in PresetKeys.__struct_fields__} | {
        "title": printable(file.title or name),  # one line, as for the group
        "group": printable(file.group),
        "baseline": file.baseline if file.baseline in names else names[0],  # an override may have renamed it
        "references": tuple(reference for reference in file.references if reference.trial in names),
        "questions": tuple(_about(question, names) for question in file.questions),
        "zh": Chinese(title=printable(file.zh.title), about=file.zh.about),
    }
    return Preset(name=name, trials=trials, **keys)


def _about(question: LessonQuestion, names: Sequence[str]) -> LessonQuestion:
    """The question, about those of its trials that have these names; about all if none has."""
    trials = tuple(name for name in question.trials if name in names)
    text, chinese = (printable(" ".join(each.split())) for each in (question.text, question.zh))  # one line each
    return msgspec.structs.replace(question, text=text, zh=chinese, trials=trials)


class Edits(msgspec.Struct, frozen=True):
    """Changes to single trials, by name. copies: the copied trial of each new one; own: values of fields; removed:
    names."""

    copies: dict[str, str] = {}
    own: dict[str, dict[str, Any]] = {}
    removed: Sequence[str] = ()


NO_EDITS = Edits()


def read_changes(
    assignments: Iterable[str], copies: Iterable[str] = (), removed: Iterable[str] = ()
) -> tuple[dict[str, Any], Edits]:
    """The fields that `--set KEY=VALUE` changes in every trial, and what `--set TRIAL:KEY=VALUE`, `--duplicate
    TRIAL=NEW` and `--remove TRIAL` change in single ones. Raises TrialError."""
    of_all: dict[str, Any] = {}
    own: dict[str, dict[str, Any]] = {}
    for text in assignments:
        try:
            spelled, value = parse_assignment(text)
        except TrialError as error:
            raise TrialError(f"--set {error.key}", error.why) from None
        trial, colon, key = spelled.rpartition(":")
        fields = own.setdefault(trial, {}) if colon else of_all
        if key in fields:
            raise TrialError(f"--set {spelled}", "is given twice: give it once")
        fields[key] = value
    made: dict[str, str] = {}
    for text in copies:
        old, _, new = text.partition("=")
        if not (old and new):
            raise TrialError(f"--duplicate {text}", "expected TRIAL=NEW, e.g. none=slow")
        if made.setdefault(new, old) != old:
            raise TrialError(f"--duplicate {text}", "a trial has this name: choose another name")
    return of_all, Edits(made, own, tuple(removed))


def edited(preset: Preset, edits: Edits) -> Preset:
    """The preset with changes to single trials: first the copies, then fields, then removals. Raises TrialError."""
    trials = {trial.name: trial for trial in preset.trials}

    def named(name: str, option: str) -> Trial:
        if name not in trials:
            raise TrialError(option, _no_trial(name, [*trials]))
        return trials[name]

    for new, old in edits.copies.items():
        option = f"--duplicate {old}={new}"
        copy = msgspec.structs.replace(named(old, option), name=new)
        _check_name(new, option)
        if new.lower() in map(str.lower, trials):
            raise TrialError(option, "a trial has this name: choose another name")
        after = [*trials].index(old) + 1
        trials = dict([*[*trials.items()][:after], (new, copy), *[*trials.items()][after:]])
    for name, fields in edits.own.items():
        values = off_default(named(name, f"--set {name}:{next(iter(fields))}")) | fields
        if "name" in fields:
            raise TrialError(f"--set {name}:name", "cannot be set: `--duplicate` names a copy")
        try:
            trials[name] = make_trial(_with_effect(values, fields))
        except TrialError as error:
            raise TrialError(f"--set {name}:{error.key}", error.why) from None
    for name in edits.removed:
        named(name, f"--remove {name}")
        if len(trials) == 1:
            raise TrialError(f"--remove {name}", "removes the last trial; leave one")
        del trials[name]
    left = tuple(trials.values())
    _check_trials(preset.kind, left, ())
    return msgspec.structs.replace(
        preset,
        trials=left,
        baseline=preset.baseline if preset.baseline in trials else left[0].name,
        references=tuple(each for each in preset.references if each.trial in trials),
        questions=tuple(_about(question, [*trials]) for question in preset.questions),
    )


def skipped_overrides(trials: Iterable[Trial], bottleneck: Any) -> dict[str, str]:
    """By name, the trials that `--set bottleneck=…` leaves as they are, with the reason why they cannot have it."""
    reasons = {}
    for trial in trials:
        try:
            make_trial(msgspec.to_builtins(trial) | {BOTTLENECK: bottleneck})
        except TrialError as error:
            reasons[trial.name] = error.why
    return reasons


def _check_tables(file: PresetFile, overrides: dict[str, Any]) -> None:
    """Check the tables themselves, before any trial is built from them."""
    for where, fields in (("defaults.", file.defaults), ("--set ", overrides)):
        if "name" in fields:
            raise TrialError(f"{where}name", "trials cannot share a name; set it in each [[trial]]")
    if "repeats" in overrides:
        raise TrialError("--set repeats", "is not a field of a trial; use --repeats N")
    for key, tried in file.matrix.items():
        if not isinstance(tried, list) or not tried:
            raise TrialError(f"matrix.{key}", "expected a list of values to try")
    if (size := math.prod(map(len, file.matrix.values()))) > MOST_TRIALS:
        raise TrialError("matrix", f"makes {size} trials; at most {MOST_TRIALS} are allowed")
    if len(file.trial) > MOST_TRIALS:
        raise TrialError("trial", f"there are {len(file.trial)} trials; at most {MOST_TRIALS} are allowed")
    if not file.matrix and not file.trial:
        raise TrialError("", "has no trial; add a [matrix] or a [[trial]]")
    if file.columns and file.kind == "primitives":
        raise TrialError("columns", "has no effect with kind = 'primitives', whose tables have other columns")
    check_columns(file.columns)


def _check_trials(kind: TrialKind, trials: Sequence[Trial], overrides: Iterable[str]) -> None:
    """Check that trials are of the preset's kind, that each override has an effect, and that names are unique."""
    for trial in trials:
        if trial.kind != kind:
            of_primitives = f"primitives = 'see' or 'measure' in every trial, or kind = {trial.kind!r}"
            wants = of_primitives if kind == "primitives" else f"kind = {trial.kind!r}"
            raise TrialError("kind", f"{kind!r}, but trial {trial.name} is of kind {trial.kind!r}; set {wants}")
    useless = [meaningless_at_work(work_of(trial.launch, trial.primitives)) for trial in trials]
    for key in overrides:
        if all(key in fields for fields in useless):
            raise TrialError(key, f"has no effect with {useless[0][key]}")
    for name, times in Counter(trial.name.lower() for trial in trials).items():
        if times > 1:  # they name folders, and some file systems ignore case
            raise TrialError("trial", f"{times} trials are named {name!r}; rename all but one")


def _make_trials(file: PresetFile, overrides: dict[str, Any], ranks: int) -> tuple[Trial, ...]:
    """The trials. A bottleneck of --set applies to the trials that can have it, and leaves the others as they are."""
    defaults = ({"launch": COMMAND} if file.kind == "command" else {}) | file.defaults
    others = {key: value for key, value in overrides.items() if key != BOTTLENECK}
    made, refused = [], []
    for fields, path in _list_points(file, overrides, ranks):
        try:
            made.append(_make(fields, path, defaults, overrides, ranks))
        except TrialError as error:
            if not error.key.startswith(f"--set {BOTTLENECK}") or BOTTLENECK in file.matrix:
                raise  # --set has replaced the matrix's list of bottlenecks, so there is no other to fall back to
            refused.append(error)
            made.append(_make(fields, path, defaults, others, ranks))
    if len(refused) == len(made):
        raise refused[0]
    return tuple(made)


def _list_points(file: PresetFile, overrides: dict[str, Any], ranks: int) -> Iterable[tuple[dict[str, Any], str]]:
    """Each trial's own fields and their path in the file: first the trials of [matrix], then every [[trial]]."""
    matrix = {key: [overrides[key]] if key in overrides else tried for key, tried in file.matrix.items()}
    if CORES in (sizes := matrix.get("world_size", [])):
        counted = [size for size in sizes if size != CORES or ranks not in sizes]
        matrix["world_size"] = [ranks if size == CORES else size for size in counted]
    for values in itertools.product(*matrix.values()) if matrix else ():
        point = dict(zip(matrix, values, strict=True))
        yield {"name": _name_of(point)} | point, "matrix"
    for index, trial in enumerate(file.trial):
        yield {"name": str(index + 1)} | trial, f"trial[{index}]"


def _make(fields: dict[str, Any], path: str, defaults: dict[str, Any], overrides: dict[str, Any], ranks: int) -> Trial:
    """A trial from its own fields, the overrides, and the defaults that have an effect with its launch and strategy."""
    merged = defaults | fields | overrides
    values = _with_effect(merged, fields)
    if values.get("world_size") == CORES:
        values["world_size"] = ranks
    try:
        trial = make_trial(values)
    except TrialError as error:
        key = error.key if error.key in merged else re.split(r"[.\[]", error.key)[0]
        where = "--set " if key in overrides else "defaults." if key in defaults and key not in fields else f"{path}."
        raise TrialError(where + error.key, error.why) from None
    _check_name(trial.name, f"{path}.name")
    return trial


def _with_effect(values: Mapping[str, Any], own: Collection[str]) -> dict[str, Any]:
    """The values without fields that have no effect in such a trial. Its own fields stay: they are then an error."""
    launch, strategy = (str(values.get(key, TRIAL_FIELDS[key].default)) for key in ("launch", "strategy"))
    useless = meaningless(launch, strategy, values.get("primitives"))
    return {key: value for key, value in values.items() if key in own or key not in useless}


def _check_name(name: str, where: str) -> None:
    if not TRIAL_NAME.fullmatch(name):
        raise TrialError(where, f"{name!r} cannot be the name of a folder; {NAME_RULE}")


def _name_of(point: dict[str, Any]) -> str:
    """The name of a trial of [matrix], e.g. all_reduce-4; with field names if all values are numbers, e.g. seed-2."""
    point = {key: _own_name(value) if key in OWN_FIELDS and is_own(value) else value for key, value in point.items()}
    named = point if all(isinstance(value, int | float) for value in point.values()) else NAMED  # bools are ints
    name = "-".join(f"{key}-{_short(value)}" if key in named else _short(value) for key, value in point.items())
    return NOT_IN_NAME.sub("-", name) if "env" in point else name  # env values contain =


def _own_name(value: str) -> str:
    """The user's own code as a part of its trial's name, e.g. mine.average."""
    own = parsed(in_short(value))
    return f"{own.source.removesuffix(SUFFIX)}.{own.name}"


def _short(value: Any) -> str:
    """A value of [matrix] as a part of its trial's name."""
    if isinstance(value, list):
        return "+".join(_short(item) for item in value) or "none"
    if isinstance(value, dict):
        return "_".join(_short(item) for item in value.values())
    return str(value).lower() if isinstance(value, bool) else str(value)


def _no_trial(name: str, names: list[str]) -> str:
    return f"no trial {name!r}; {did_you_mean(name, names, f'there is {listed(names)}')}"

"""From the tables of a TOML file to a Preset: expands the matrix, and says precisely what is wrong."""

import itertools
import math
import re
import shlex
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, get_args

import msgspec

from ddptui.config.columns import MEANINGS
from ddptui.config.engine import EngineName, EngineOptions
from ddptui.config.fields import SHOWN_AS, meaningless, meaningless_at_work, misnamed, takes, work_of
from ddptui.config.launch_modes import COMMAND
from ddptui.config.preset import Preset, PresetKind, Reference
from ddptui.config.trial import TRIAL_FIELDS, Bottleneck, Fault, Trial, TrialError, choices
from ddptui.config.trial_text import literal
from ddptui.config.trial_values import convert, make_trial, value_at
from ddptui.text.words import did_you_mean, printable

TABLES = {"defaults": dict, "matrix": dict, "engine": dict, "trial": list, "reference": list, "columns": list}
TOP_LEVEL = TABLES | dict.fromkeys(("title", "kind", "group", "about", "baseline"), str) | {"repeats": int}
TABLES_OF_A_TRIAL = {"bottleneck": Bottleneck.__struct_fields__, "fault": Fault.__struct_fields__}
# Fields whose bare values would be unclear in a trial's name. Others keep theirs: runs and baselines depend on them.
NAMED = ("share_gpu", "channels_last", "compile", "clip_norm", "num_workers", "pin_memory")
BOTTLENECK = "bottleneck"
MOST_TRIALS = 1000
MOST_REPEATS = 1000
MOST_NAMED = 8  # trials that an error lists
MOST_IN_NAME = 64  # characters
CORES = "cores"  # as a world_size: a rank for each core of the host that reads the preset
FEWEST_RANKS = 2  # for fewer cores, too: one rank has nobody to wait for
NOT_IN_NAME = re.compile(r"[^A-Za-z0-9_.+-]+")
TRIAL_NAME = re.compile(rf"[A-Za-z0-9][A-Za-z0-9_.+-]{{0,{MOST_IN_NAME - 1}}}")  # it names a folder


class PresetError(ValueError):
    """A preset cannot be used. One line: the file, the key's path, what is wrong, and the nearest valid spelling."""


def parse(name: str, table: dict[str, Any], overrides: dict[str, Any], cores: int = FEWEST_RANKS) -> Preset:
    """Build a preset from the tables of its file. cores: of the host. Raises TrialError."""
    _check_shape(table)
    table, overrides = _count_cores(table, cores), _with_ranks(overrides, cores)
    trials = _trials(table, overrides)
    table = _override(table, overrides)
    names = [trial.name for trial in trials]
    if not trials:
        raise TrialError("", "has no trial: give it a [matrix] or a [[trial]]")
    kind = _kind_of_preset(table, trials)
    useless = [meaningless_at_work(work_of(trial.launch, trial.primitives)) for trial in trials]
    for key in overrides:
        if all(key in fields for fields in useless):
            raise TrialError(key, f"means nothing with {useless[0][key]}")
    for name_in_any_case, times in Counter(map(str.lower, names)).items():
        if times > 1:  # they name folders, and some file systems ignore case
            raise TrialError("trial", f"{times} trials are called {name_in_any_case!r}: rename all but one")
    baseline = table.get("baseline", names[0])
    if baseline not in names and not overrides:
        raise TrialError("baseline", _no_trial(baseline, names))
    repeats = table.get("repeats", 1)
    if not 1 <= repeats <= MOST_REPEATS:
        raise TrialError("repeats", f"expected 1 to {MOST_REPEATS}, got {repeats}")
    return Preset(
        name=name,
        title=printable(table.get("title") or name),  # a line, as the group
        group=printable(table.get("group", "other")),
        about=table.get("about", ""),
        baseline=baseline if baseline in names else names[0],  # an override may have renamed it
        repeats=repeats,
        trials=trials,
        kind=kind,
        references=tuple(_references(table, names, bool(overrides))),
        columns=tuple(_columns(table.get("columns", []), kind)),
        engine=make_engine(table.get("engine", {})),
    )


def left_as_it_is(trials: Iterable[Trial], bottleneck: Any) -> dict[str, str]:
    """Why a trial cannot have a bottleneck of `--set`, and is left as it is: by name, of those that cannot."""
    reasons = {}
    for trial in trials:
        try:
            make_trial(msgspec.to_builtins(trial) | {BOTTLENECK: bottleneck})
        except TrialError as error:
            reasons[trial.name] = error.why
    return reasons


def make_engine(table: dict[str, Any]) -> EngineOptions:
    """The engine's options from the table `[engine]`. Raises TrialError."""
    try:
        return convert(table, EngineOptions, "engine.")
    except TrialError as error:
        hint = _nearest(table.get("name"), get_args(EngineName)) if error.key == "engine.name" else ""
        raise TrialError(error.key, error.why + hint) from None


def _kind_of_preset(table: dict[str, Any], trials: Sequence[Trial]) -> PresetKind:
    kind: PresetKind = table.get("kind", "training")
    if kind not in get_args(PresetKind):
        raise TrialError("kind", f"{kind!r} is none of {', '.join(map(repr, get_args(PresetKind)))}")
    for trial in trials:
        if (trial.launch == COMMAND) != (kind == "command"):
            wants = "kind = 'command'" if trial.launch == COMMAND else "launch = 'command'"
            has = f"trial {trial.name} has launch = {trial.launch!r}"
            raise TrialError("kind", f"{kind!r}, but {has}: that wants {wants}")
        if (trial.primitives is not None) != (kind == "primitives"):
            does = "trains" if trial.primitives is None else f"has primitives = {trial.primitives!r}"
            wants = "primitives = 'see' or 'measure' in every trial" if kind == "primitives" else "kind = 'primitives'"
            raise TrialError("kind", f"{kind!r}, but trial {trial.name} {does}: that wants {wants}")
    return kind


def _check_shape(table: dict[str, Any]) -> None:
    """Refuse unknown keys and wrong types, before anything is read."""
    _check_keys(table, TOP_LEVEL, "")
    for key, value in table.items():
        if not isinstance(value, TOP_LEVEL[key]) or isinstance(value, bool):  # to Python, true is an integer
            raise TrialError(key, f"expected {_kind(TOP_LEVEL[key])}, got {_kind(type(value))}")
    _check_fields(table.get("defaults", {}), "defaults.")
    if "name" in table.get("defaults", {}):
        raise TrialError("defaults.name", "every trial has a name of its own")
    for index, trial in enumerate(table.get("trial", ())):
        _check_fields(trial, f"trial[{index}].")
    for key, values in table.get("matrix", {}).items():
        if not isinstance(values, list) or not values:
            raise TrialError(f"matrix.{key}", "expected a list of values to try")
        for value in values:
            _check_fields({key: value}, "matrix.")
    for index, reference in enumerate(table.get("reference", ())):
        _check_keys(reference, Reference.__struct_fields__, f"reference[{index}].")
    _check_keys(table.get("engine", {}), EngineOptions.__struct_fields__, "engine.")


def _check_fields(fields: Any, before: str) -> None:
    """Check the fields of a trial, and of its bottlenecks and faults. before: the start of each key's path."""
    _check_keys(fields, TRIAL_FIELDS, before)
    for name, known in TABLES_OF_A_TRIAL.items():
        tables = fields.get(name, ())
        for index, table in enumerate(tables if isinstance(tables, list) else ()):
            _check_keys(table, known, f"{before}{name}[{index}].")


def _check_keys(table: Any, known: Iterable[str], before: str) -> None:
    if not isinstance(table, dict):
        raise TrialError(before.rstrip("."), f"expected a table, got {_kind(type(table))}")
    for key in table:
        if key not in known:
            why = misnamed(key) if known is TRIAL_FIELDS else ""
            raise TrialError(f"{before}{key}", why or f"unknown key{_nearest(key, known)}")


def _override(table: dict[str, Any], overrides: dict[str, Any]) -> dict[str, Any]:
    """Put overrides (--set) over the defaults, and over other tables that name the same field."""
    if "name" in overrides:
        raise TrialError("--set name", "every trial has a name of its own")
    if "repeats" in overrides:
        typed = overrides["repeats"]
        number = typed if type(typed) is int and 1 <= typed <= MOST_REPEATS else "N"
        raise TrialError("--set repeats", f"is no field of a trial: --repeats {number}")
    for key, value in overrides.items():
        if why := misnamed(key):
            better = " or ".join(f"--set {field}={_typed_for(field, value)}" for field in SHOWN_AS[key][1])
            raise TrialError(f"--set {key}", f"{why}: {better}")
    _check_fields(overrides, "--set ")
    matrix = {key: [overrides[key]] if key in overrides else tried for key, tried in table.get("matrix", {}).items()}
    trials = [
        trial | {key: value for key, value in overrides.items() if key in trial} for trial in table.get("trial", ())
    ]
    laid_over = table | {"defaults": table.get("defaults", {}) | overrides, "matrix": matrix, "trial": trials}
    return {key: value for key, value in laid_over.items() if value not in ({}, [])}


def _typed_for(field: str, value: Any) -> str:
    """The value as a shell takes it, if it is plain and the field takes it; else dots."""
    typed = literal(value, bare=True)
    return typed if takes(field, value) and shlex.quote(typed) == typed else "…"


def _count_cores(table: dict[str, Any], cores: int) -> dict[str, Any]:
    """Put numbers of ranks in place of `cores`."""
    trials = [_with_ranks(trial, cores) for trial in table.get("trial", ())]
    laid_over = table | {"defaults": _with_ranks(table.get("defaults", {}), cores), "trial": trials}
    sizes = table.get("matrix", {}).get("world_size", [])
    if CORES in sizes:
        ranks = _with_ranks({"world_size": CORES}, cores)["world_size"]
        counted = [ranks if size == CORES else size for size in sizes if size != CORES or ranks not in sizes]
        laid_over["matrix"] = table["matrix"] | {"world_size": counted}
    return laid_over


def _with_ranks(fields: dict[str, Any], cores: int) -> dict[str, Any]:
    return fields | {"world_size": max(cores, FEWEST_RANKS)} if fields.get("world_size") == CORES else fields


Point = tuple[dict[str, Any], str, dict[str, Any]]  # a trial's own fields, their path in the file, the defaults


def _trials(table: dict[str, Any], overrides: dict[str, Any]) -> tuple[Trial, ...]:
    """The trials. An overriding bottleneck goes to those that can have it; the others are left as they are."""
    made: list[Trial | TrialError] = []
    for point in _points(_override(table, overrides)):
        try:
            made.append(_make(*point, {*overrides}))
        except TrialError as error:
            if not error.key.startswith(f"--set {BOTTLENECK}") or BOTTLENECK in table.get("matrix", {}):
                raise  # a matrix of bottlenecks has become one of this bottleneck: there is nothing to go back to
            made.append(error)
    trials = tuple(each for each in made if isinstance(each, Trial))
    if len(trials) == len(made):
        return trials
    if not trials:
        raise next(each for each in made if isinstance(each, TrialError))
    others = {key: value for key, value in overrides.items() if key != BOTTLENECK}
    left = _points(_override(table, others))
    return tuple(
        each if isinstance(each, Trial) else _make(*point, {*others}) for each, point in zip(made, left, strict=True)
    )


def _points(table: dict[str, Any]) -> Iterable[Point]:
    """The product of the matrix, then the trials that are listed."""
    of_kind = {"launch": COMMAND} if table.get("kind") == "command" else {}
    defaults = of_kind | table.get("defaults", {})
    matrix = table.get("matrix", {})
    if (size := math.prod(map(len, matrix.values()))) > MOST_TRIALS:
        raise TrialError("matrix", f"makes {size} trials; {MOST_TRIALS} are the most")
    if (listed := len(table.get("trial", ()))) > MOST_TRIALS:
        raise TrialError("trial", f"there are {listed} of them; {MOST_TRIALS} are the most")
    for values in itertools.product(*matrix.values()) if matrix else ():
        point = dict(zip(matrix, values, strict=True))
        yield {"name": _name_of(point)} | point, "matrix", defaults
    for index, trial in enumerate(table.get("trial", ())):
        yield {"name": str(index + 1)} | trial, f"trial[{index}]", defaults


def _make(fields: dict[str, Any], path: str, defaults: dict[str, Any], overridden: set[str]) -> Trial:
    """A trial from its fields, over the defaults that mean something in its launch mode and with its strategy."""
    launch, strategy = (str((defaults | fields).get(key, TRIAL_FIELDS[key].default)) for key in ("launch", "strategy"))
    useless = meaningless(launch, strategy, (defaults | fields).get("primitives"))
    values = {key: value for key, value in defaults.items() if key not in useless} | fields
    for key in fields:
        if key in useless:
            raise TrialError(f"{path}.{key}", f"means nothing with {useless[key]}")
    try:
        trial = make_trial(values)
    except TrialError as error:
        key = re.split(r"[.\[]", error.key)[0]
        where = "--set " if key in overridden else "defaults." if key in defaults and key not in fields else f"{path}."
        raise TrialError(where + error.key, error.why + _nearest_choice(key, error.key, values)) from None
    if why := _no_folder(trial.name):
        raise TrialError(f"{path}.name", f"{trial.name!r} cannot name a folder: {why}")
    return trial


def _no_folder(name: str) -> str:
    """Why a trial's name cannot name a folder, and what to do; empty if it can."""
    if TRIAL_NAME.fullmatch(name):
        return ""
    if len(name) > MOST_IN_NAME:
        return f"it has {len(name)} characters, at most {MOST_IN_NAME} are possible"
    if not name:
        return "it is empty"
    if wrong := NOT_IN_NAME.search(name):
        return f"{wrong[0][0]!r} cannot be in a name: use letters, digits and . _ + -"
    return f"{name[0]!r} cannot come first: begin with a letter or a digit"


def _nearest_choice(key: str, path: str, values: dict[str, Any]) -> str:
    """The choices of a field that has a list of them, with the nearest spelling."""
    last, value = re.sub(r"\[\d+\]$", "", path.rpartition(".")[2]), value_at(values, path)
    if key == "world_size" and isinstance(value, str):
        return f'; "{CORES}" means one for each core of this host'
    options = choices(last)
    if not options or value in options:
        return ""
    without = "; a [[trial]] that leaves it out has none" if last == key and TRIAL_FIELDS[key].default is None else ""
    return f"; one of {', '.join(options)}{_nearest(value, options)}{without}"


def _references(table: dict[str, Any], names: list[str], overridden: bool) -> Iterable[Reference]:
    for index, fields in enumerate(table.get("reference", ())):
        reference = convert(fields, Reference, f"reference[{index}].")
        if reference.trial in names:
            yield reference
        elif not overridden:
            raise TrialError(f"reference[{index}].trial", _no_trial(reference.trial, names))


def _columns(keys: list[Any], kind: str) -> Iterable[str]:
    """The columns of the comparison that the preset wants seen."""
    if keys and kind == "primitives":
        raise TrialError("columns", "means nothing with kind = 'primitives', whose tables have other columns")
    for index, key in enumerate(keys):
        if not isinstance(key, str) or key not in MEANINGS:
            hint = _nearest(key, MEANINGS) or "; `ddptui columns` lists them"
            raise TrialError(f"columns[{index}]", f"no column {key!r}{hint}")
        yield key


def _name_of(point: dict[str, Any]) -> str:
    """The name of a trial of the matrix: all_reduce-4; of numbers alone, with their fields: seed-2."""
    named = point if all(isinstance(value, int | float) for value in point.values()) else NAMED  # or bools
    name = "-".join(f"{key}-{_short(value)}" if key in named else _short(value) for key, value in point.items())
    return NOT_IN_NAME.sub("-", name) if "env" in point else name  # a variable has a = in it


def _short(value: Any) -> str:
    """A value of the matrix as a part of its trial's name."""
    if isinstance(value, list):
        return "+".join(_short(item) for item in value) or "none"
    if isinstance(value, dict):
        return "_".join(_short(item) for item in value.values())
    return str(value).lower() if isinstance(value, bool) else str(value)


def _nearest(word: Any, known: Iterable[str]) -> str:
    hint = did_you_mean(word, known)
    return f"; {hint}" if hint else ""


def _no_trial(name: str, names: list[str]) -> str:
    some = f"; there is {', '.join(names[:MOST_NAMED])}" + (" …" if len(names) > MOST_NAMED else "")
    return f"no trial {name!r}{_nearest(name, names) or some}"


def _kind(kind: type) -> str:
    words = {dict: "a table", list: "a list", str: "text", int: "a whole number", bool: "true or false"}
    return words.get(kind, kind.__name__)

"""Descriptions and types of a trial's fields, and the launch modes, strategies and kinds of work that use each."""

import textwrap
from collections.abc import Sequence
from functools import cache
from typing import Literal, get_args, get_origin, get_type_hints

import msgspec

from ddptui.config.launch_modes import COMMAND, LAUNCH_MODES
from ddptui.config.strategies import LACKS, STRATEGIES
from ddptui.config.trial import KNOWN, PRIMITIVES, TRAIN, TRIAL_FIELDS, WATCH, About, Bottleneck, Fault, Trial
from ddptui.text.words import count, did_you_mean

WIDTH = 100  # of the listing, in columns
_ANNOTATIONS = get_type_hints(Trial, include_extras=True)
FIELDS = {
    name: next(fact for fact in _ANNOTATIONS[name].__metadata__ if isinstance(fact, About)) for name in TRIAL_FIELDS
}


def misnamed(word: str) -> str:
    """The error message for a word that is a column's header but not a field's name; empty for any other word."""
    fields = [name for name, facts in FIELDS.items() if word and facts.column == word]
    return f"no such field; write {' or '.join(fields)}" if fields else ""


def choices(key: str, *structs: type) -> tuple[str, ...]:
    """The values that a field of these structs allows, beside the user's own code; empty if it takes any value.
    Default: the structs of a trial, a delay and a fault."""
    if key in KNOWN and structs != (Fault,):
        return KNOWN[key]
    for struct in structs or (Trial, Bottleneck, Fault):
        if annotation := get_type_hints(struct).get(key):
            options = [annotation, *get_args(annotation)]  # the Literal stands alone, in a union, or in a tuple
            return tuple(name for option in options if get_origin(option) is Literal for name in get_args(option))
    return ()


def completions(incomplete: str) -> list[str]:
    """How the beginning of a KEY=VALUE may go on: the fields with a =; after it, the values of a field that has a list
    of them."""
    field, equals, _ = incomplete.partition("=")
    is_flag = field in TRIAL_FIELDS and isinstance(TRIAL_FIELDS[field].default, bool)
    values = ("true", "false") if is_flag else choices(field)
    words = [f"{field}={value}" for value in values] if equals else [f"{name}=" for name in FIELDS if name != "name"]
    return [word for word in words if word.startswith(incomplete)]


def work_of(launch: str, primitives: str | None) -> str:
    """The kind of work that a trial does: train, see, measure or watch."""
    return "watch" if launch == COMMAND else primitives or "train"


def meaningless(launch: str, strategy: str | None, primitives: str | None) -> dict[str, str]:
    """The fields that have no effect with this launch mode, strategy and kind of work, with the reason for each."""
    # In a [[trial]] or [matrix] such a field is an error. [defaults] and --set are for all trials: it is ignored there.
    work = work_of(launch, primitives)
    useless = meaningless_at_work(work)
    if work != "train":
        return useless
    for name, facts in FIELDS.items():
        if strategy in STRATEGIES and facts.needs and not getattr(STRATEGIES[strategy], facts.needs):
            useless[name] = f"strategy = {strategy!r}: {LACKS[facts.needs]}"
        alone = launch in LAUNCH_MODES and LAUNCH_MODES[launch].one_process and facts.alone
        if why := alone or facts.modes.get(launch):
            useless[name] = f"launch = {launch!r}: {why}"
    return useless


def meaningless_at_work(work: str) -> dict[str, str]:
    """The fields that have no effect in this kind of work, with the reason for each."""
    why = {
        "train": "training: it is for primitives",
        "see": "primitives = 'see': each primitive is called once, with a small tensor",
        "measure": "primitives = 'measure': the ranks do not train",
        "watch": "a command: the command itself decides what it trains",
    }

    def reason(facts: About) -> str:
        if facts.work == WATCH:
            return "ddptui's own ranks: it is for kind = 'command'"
        trains_nothing = facts.work == TRAIN and work in PRIMITIVES
        return f"primitives = {work!r}: the ranks do not train" if trains_nothing else why[work]

    return {name: reason(facts) for name, facts in FIELDS.items() if work not in facts.work}


def remedies(value: object, options: Sequence[str], *, may_be_unset: bool = False) -> list[str]:
    """What to write instead of a value that is none of a field's options."""
    found = [f"one of {', '.join(options)}", did_you_mean(str(value), options)]
    return [*found, "leave it out for none"] if may_be_unset else found


def listing() -> str:
    """The text of `ddptui presets --fields`: every field of a trial with its default, type and description."""
    lines = [f"A [[trial]] of a preset, its [defaults] and --set KEY=VALUE take {count(len(FIELDS), 'field')}:", ""]
    for name, facts in FIELDS.items():
        default = msgspec.to_builtins(TRIAL_FIELDS[name].default)
        preset_to = "" if default is None else f" = {msgspec.json.encode(default).decode()}"
        lines.append(f"{name}{preset_to}  ({kind(name)})")
        lines += textwrap.wrap(facts.description, WIDTH, initial_indent="    ", subsequent_indent="    ")
    return "\n".join(lines) + "\n"


@cache  # it takes 0.3 ms, and each text of each trial is asked for it
def kind(name: str) -> str:
    """The type of a field with its bounds, e.g. `integer, 1 to 1,024`."""
    return _kind(msgspec.inspect.type_info(_ANNOTATIONS[name]), choices(name))


def _kind(kind: msgspec.inspect.Type, options: tuple[str, ...]) -> str:
    match kind:
        case msgspec.inspect.Metadata(type=inner):
            return _kind(inner, options)
        case msgspec.inspect.UnionType(types=types):
            return _kind(next(one for one in types if not isinstance(one, msgspec.inspect.NoneType)), options)
        case msgspec.inspect.VarTupleType(item_type=item):
            return f"list of {_kind(item, options)}"
        case msgspec.inspect.LiteralType(values=values):
            return " | ".join(options or map(str, values))
        case msgspec.inspect.StrType() if options:
            return " | ".join((*options, "your own"))
        case msgspec.inspect.IntType() | msgspec.inspect.FloatType():
            return f"{'integer' if isinstance(kind, msgspec.inspect.IntType) else 'number'}{_bounds(kind)}"
    return {msgspec.inspect.BoolType: "true or false", msgspec.inspect.StructType: "tables"}.get(type(kind), "text")


def _bounds(kind: msgspec.inspect.IntType | msgspec.inspect.FloatType) -> str:
    if kind.gt is not None:
        return f", more than {kind.gt}" + (f", {kind.le:,} at most" if kind.le is not None else "")
    most = f" to {kind.le:,}" if kind.le is not None else " or more"
    return "" if kind.ge is None else f", {kind.ge:,}{most}"

"""What a trial's fields say of themselves: their documentation, and where each of them means something."""

import textwrap
from typing import Any, get_type_hints

import msgspec

from ddptui.config.launch_modes import COMMAND, LAUNCH_MODES
from ddptui.config.strategies import STRATEGIES, missing_needs
from ddptui.config.trial import PRIMITIVES, TRAIN, TRIAL_FIELDS, WATCH, About, Trial, choices
from ddptui.text.words import count

WIDTH = 100  # of the listing, in columns


_ANNOTATIONS = get_type_hints(Trial, include_extras=True)
FIELDS = {
    name: next(fact for fact in _ANNOTATIONS[name].__metadata__ if isinstance(fact, About)) for name in TRIAL_FIELDS
}

# What tables and the form call fields that have another name, in words; and those fields.
SHOWN_AS: dict[str, tuple[str, tuple[str, ...]]] = {
    column: (words, tuple(name for name, facts in FIELDS.items() if facts.column == column))
    for column, words in {
        "ranks": "the number of ranks",
        "averages": "what is averaged, or how often,",
        "data": "the data set",
        "batch": "the global batch",
        "length": "the length of training",
        "by": "the operator of a reduction",
        "sizes": "a limit of the message sizes",
        "calls": "the number of calls",
    }.items()
} | {"sync_bn": ("BatchNorm over the global batch", ("sync_batchnorm",))}


def misnamed(word: str) -> str:
    """What to write instead of a word that tables show, but no field has: the number of ranks is world_size; empty for
    any other word."""
    if word not in SHOWN_AS:
        return ""
    words, fields = SHOWN_AS[word]
    return f"no such field; {words} is {' or '.join(fields)}"


def takes(name: str, value: Any) -> bool:
    """Whether a field by itself takes a value."""
    try:
        msgspec.convert(value, _ANNOTATIONS[name])
    except msgspec.ValidationError:
        return False
    return not choices(name) or value in choices(name)


def work_of(launch: str, primitives: str | None) -> str:
    """The kind of work that a trial is."""
    return "watch" if launch == COMMAND else primitives or "train"


def meaningless(launch: str, strategy: str | None, primitives: str | None) -> dict[str, str]:
    """The fields that a launch mode, a strategy or a kind of work has no use for, and why."""
    # Such a field is refused in a [[trial]] or [matrix], but ignored in [defaults] and --set: those are for all trials.
    work = work_of(launch, primitives)
    useless = meaningless_at_work(work)
    if work != "train":
        return useless
    if strategy in STRATEGIES:
        missing = missing_needs(strategy)
        useless |= {
            name: f"strategy = {strategy!r}: {missing[facts.needs]}"
            for name, facts in FIELDS.items()
            if facts.needs in missing
        }
    if mode := LAUNCH_MODES.get(launch):
        alone = {name: facts.alone for name, facts in FIELDS.items() if facts.alone and mode.one_process}
        useless |= {name: f"launch = {launch!r}: {why}" for name, why in {**mode.meaningless, **alone}.items()}
    return useless


def meaningless_at_work(work: str) -> dict[str, str]:
    """The fields that mean nothing to a kind of work, and why."""
    why = {
        "train": "training: it is for primitives",
        "see": "primitives = 'see': each one is called once, with a small tensor",
        "measure": "primitives = 'measure'",
        "watch": "a command: what it trains is its own",
    }
    only_training = f"primitives = {work!r}: the ranks train nothing"

    def reason(facts: About) -> str:
        if facts.work == WATCH:
            return "the lab's own ranks: kind = 'command' has a command"
        return only_training if facts.work == TRAIN and work in PRIMITIVES else why[work]

    return {name: reason(facts) for name, facts in FIELDS.items() if work not in facts.work}


def listing() -> str:
    """Every field of a trial with its default, its type and its description, as `ddptui presets --fields` prints it."""
    lines = [f"A [[trial]] of a preset, its [defaults] and --set KEY=VALUE take {count(len(FIELDS), 'field')}:", ""]
    for name, facts in FIELDS.items():
        default = msgspec.to_builtins(TRIAL_FIELDS[name].default)
        preset_to = "" if default is None else f" = {msgspec.json.encode(default).decode()}"
        lines.append(f"{name}{preset_to}  ({kind(name)})")
        lines += textwrap.wrap(facts.description, WIDTH, initial_indent="    ", subsequent_indent="    ")
    return "\n".join(lines) + "\n"


def kind(name: str) -> str:
    """The type of a field with its bounds: `integer, 1 to 1024`."""
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
        case msgspec.inspect.IntType() | msgspec.inspect.FloatType():
            return f"{'integer' if isinstance(kind, msgspec.inspect.IntType) else 'number'}{_bounds(kind)}"
    return {msgspec.inspect.BoolType: "true or false", msgspec.inspect.StructType: "tables"}.get(type(kind), "text")


def _bounds(kind: msgspec.inspect.IntType | msgspec.inspect.FloatType) -> str:
    if kind.gt is not None:
        return f", more than {kind.gt}" + (f", {kind.le:,} at most" if kind.le is not None else "")
    most = f" to {kind.le:,}" if kind.le is not None else " or more"
    return "" if kind.ge is None else f", {kind.ge:,}{most}"

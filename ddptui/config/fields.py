"""Descriptions of a trial's fields and of the columns of tables: what each shows, which launch modes and strategies
use it.

The keys are those that `columns` of a preset takes. ddptui/report/columns.py fills the columns.
"""

import textwrap
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Literal, get_args, get_origin, get_type_hints

import msgspec

from ddptui.config.catalog import COMMAND, LACKS, LAUNCH_MODES, STRATEGIES
from ddptui.config.trial import (
    KNOWN,
    TRIAL_FIELDS,
    About,
    Bottleneck,
    Fault,
    Trial,
    TrialError,
)
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


WORK_NAMES = {
    "train": "training", "see": "primitives = 'see'", "measure": "primitives = 'measure'", "watch": "a command",
}  # fmt: skip


def meaningless_at_work(work: str) -> dict[str, str]:
    """The fields that have no effect in this kind of work, with the reason for each."""
    return {
        name: f"{WORK_NAMES[work]}: it is for {' or '.join(WORK_NAMES[each] for each in facts.work)}"
        for name, facts in FIELDS.items()
        if work not in facts.work
    }


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


MEDIAN = "median over repeats"

MEANINGS: dict[str, str] = {
    "trial": "The trial's name; ◆ marks the baseline.",
    "launch": "The launch mode: what starts the ranks.",
    "ranks": "The world size: the number of ranks, or of replicas under nn.DataParallel.",
    "strategy": "How the ranks average gradients or parameters; empty for launch modes without a process group.",
    "backend": "The library that carries out the collectives: gloo or nccl; empty without a process group.",
    "average": "What is averaged, and how often; empty if it is the gradients of every step.",
    "mistake": "The mistake that the trial makes on purpose; empty if it makes none.",
    "split": "The most samples that each replica of nn.DataParallel got in a step; empty in other launch modes.",
    "memory": "The peak GPU memory of each rank's tensors in the last repeat, in GB of 2^30 bytes; empty without GPUs.",
    "reserved": "The peak GPU memory that torch reserved for each rank in the last repeat; empty without GPUs.",
    "bottleneck": "The delays and slow links that the trial injects: where, how long, on which ranks; else empty.",
    "fault": "The fault that the trial injects: what, in which step, on which rank; empty without one.",
    "slept": f"The length of all delays together, and how often they fired, {MEDIAN}; or empty.",
    "train": f"Seconds from the first measured step to the slowest rank's last optimizer step, {MEDIAN} ± deviation.",
    "spread": "The shortest and the longest train time of the repeats, in seconds; empty for a single repeat.",
    "ratio": f"Train time divided by the baseline's in the same repeat; {MEDIAN}, ± as in train s.",
    "published": "The published ratio to the baseline; empty if the preset has no reference.",
    "speedup": "Samples per second divided by the baseline's; empty if either trial has no figures.",
    "startup": f"Seconds from the launch to the slowest rank's first step, {MEDIAN}; cold: with the import of torch.",
    "samples": f"Samples of all ranks per second of train time, {MEDIAN}.",
    "tflops": "10^12 floating-point operations per second of a rank in its measured steps, counted in forward and "
    f"backward: mean over ranks, {MEDIAN}; empty if they are not counted.",
    "mfu": "Model FLOPs utilization: the TFLOP/s of all ranks in percent of the peak of their GPUs in that precision, "
    f"each GPU counted once; {MEDIAN}; empty if the peak is not known.",
    "energy": f"Joules per step of all GPUs, other programs' use included; {MEDIAN}; empty if the driver reports none.",
    "step": f"Milliseconds per step: median over measured steps of all ranks, {MEDIAN}; empty without instruments.",
    "epoch": "The time of an epoch on the slowest rank, from its first step to its last: median over complete epochs "
    f"without warm-up steps, {MEDIAN}; ~ if none is complete: batch time × batches; empty if these are not known.",
    "batch_time": "The mean time of a batch: train time divided by the number of steps, so with long steps and the "
    f"time between steps, which step ms leaves out; {MEDIAN}.",
    "aggregate": "Milliseconds of a step's aggregation: median over steps, mean over ranks, then "
    f"{MEDIAN}; in bwd: torch DDP does it during backward, whose time includes it; in some: in some steps only.",
    "wait": "Milliseconds that a rank waits for late ranks in a step: median over steps, mean over ranks, then "
    f"{MEDIAN}; empty if one process trains or the clock error exceeds the waits.",
    "transfer": "Milliseconds in a step in which collectives run and no rank is late, including those in which the "
    "rank computes (Δ transfer counts idle time only): median over steps, mean over ranks, then "
    f"{MEDIAN}; empty like wait ms.",
    "overlap": "The share of the time in collectives during which ranks compute: mean over ranks, "
    f"{MEDIAN}; empty for strategies that send after backward.",
    "culprit": "The rank that the others wait for, and the phase in which it loses its time; empty if none stands out.",
    "loss": f"The mean loss over the last tenth of the steps, {MEDIAN}; for a watched command, the loss of a step "
    "is the sum of all losses on which it called backward(); nan if the mean is not finite.",
    "accuracy": f"Percent of test samples that the trained model gets right, {MEDIAN}; empty without test samples.",
    "sync": "Whether all ranks ended the last repeat with the same parameters and buffers; empty for one process.",
    "mean": "How far the ranks' averaged gradients were from the true mean in the last repeat; empty for one process.",
    "order": "`same` if every epoch of the last repeat had the samples in the same order; else empty.",
    "delta": "Seconds by which the trial took longer than the baseline: the sum of the columns that follow. All are of "
    "the repeat with the median train time; empty for the baseline.",
    "delta_work": "The part of Δ s in own work: mean over the ranks that wait, all but the rank under waits for.",
    "delta_delay": "The part of Δ s in delays injected into these ranks; empty if none was.",
    "delta_wait": "The part of Δ s in which these ranks waited for late ranks.",
    "delta_transfer": "The part of Δ s in which these ranks stood idle for transfers. Unlike transfer ms, it leaves "
    "out transfers during which they compute.",
    "delta_rest": "The rest of Δ s: steps that cannot be compared, standstills, and time that was not measured.",
}


def check_columns(keys: Iterable[str], path: str = "columns") -> None:
    """Check that each key is a column's. path: where the keys stand. Raises TrialError."""
    for index, key in enumerate(keys):
        if key not in MEANINGS:
            hint = did_you_mean(key, MEANINGS, "`ddptui columns` lists them")
            raise TrialError(f"{path}[{index}]", f"no column {key!r}; {hint}")

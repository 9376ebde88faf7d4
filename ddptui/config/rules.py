"""What may go together in a trial: the rules that no single field can keep, and what means nothing with what."""

import math
from typing import Any

import msgspec

from ddptui.config import operations_rules as of_primitives
from ddptui.config import strategies
from ddptui.config.rules_delays import check_bottleneck, check_fault
from ddptui.config.rules_devices import check_devices
from ddptui.config.trial import SHAPES, TRIAL_FIELDS, Trial, TrialError, is_own_model

NO_GROUP = {
    "backend": "one process has no group",
    "init_method": "one process has nobody to meet",
    "gpus_per_rank": "one process with several GPUs is launch = 'dp'",
    "share_gpu": "one process has nobody to share a GPU with",
    "average": "one process has nobody to average with",
    "reduction": "one process has nobody to average with",
    "bucket_mb": "one process sends no gradients",
    "gradient_as_bucket_view": "one process has no buckets",
    "static_graph": "it is an option of torch DDP",
    "powersgd_rank": "one process sends no gradients",
    "sync_batchnorm": "one process has nobody to share statistics with",
    "hash_every": "there is one copy of the model",
}
MEANINGLESS_IN_MODE: dict[str, dict[str, str]] = {
    "single": {
        "strategy": "one process has nobody to agree with",
        "world_size": "one process is one rank",
        "start_method": "the process is started directly",
        **NO_GROUP,
    },
    "dp": {
        "strategy": "the gather on the output device is the aggregation",
        "instruments": "its replicas are seen from within their forward, and cannot be left unseen",
        "start_method": "the replicas are threads of one process",
        "compile": "nn.DataParallel copies the model anew in every step, and torch.compile compiles one",
        **NO_GROUP,
    },
    "launch": {
        "start_method": "torch.distributed.launch starts the ranks itself",
        "init_method": "torch.distributed.launch tells the ranks where they meet",
    },
    "process": {},
    "spawn": {},
    "task": {"start_method": "somebody else starts the ranks"},
}


def make_trial(values: dict[str, Any]) -> Trial:
    """Build a trial from plain values. Raises TrialError when it cannot be."""
    launch = values.get("launch", "spawn")
    fixed: dict[str, Any] = {}
    if launch in ("single", "dp") or values.get("primitives") is not None:
        fixed["strategy"] = None
    if launch == "single":
        fixed["world_size"] = 1
    for key, value in values.items():
        if not _is_text(value):
            raise TrialError(key, "is no text: it cannot be written as UTF-8")
    try:
        trial = msgspec.convert(fixed | values, Trial)
    except msgspec.ValidationError as error:
        raise _readable(error) from None
    _check(trial)
    return trial


def meaningless(launch: str, strategy: str | None, primitives: str | None) -> dict[str, str]:
    """The fields that a launch mode, a strategy or what the ranks do at all has no use for, and why. Such a field is
    refused in a [[trial]] or [matrix], and passed over in [defaults] and --set, which speak to all trials at once."""
    work = of_primitives.meaningless_with_primitives(primitives)
    if primitives is not None:
        return work
    of_strategy = strategies.meaningless_with_strategy(strategy) if strategy in strategies.STRATEGIES else {}
    fields = {field: f"strategy = {strategy!r}: {why}" for field, why in of_strategy.items()}
    of_mode = MEANINGLESS_IN_MODE.get(launch, {})
    return work | fields | {field: f"launch = {launch!r}: {why}" for field, why in of_mode.items()}


def _is_text(value: Any) -> bool:
    """Whether what a command line or a file gave can be written down again: bytes that are no UTF-8 cannot."""
    match value:
        case str():
            return value.encode("utf-8", "replace").decode() == value
        case dict():
            return all(_is_text(key) and _is_text(item) for key, item in value.items())
        case list() | tuple():
            return all(map(_is_text, value))
    return True


def _readable(error: msgspec.ValidationError) -> TrialError:
    """msgspec says «Expected `int`, got `str` - at `$.world_size`»: turn it round, key first."""
    what, _, place = str(error).partition(" - at `$")
    return TrialError(
        place.rstrip("`").lstrip("."), what[:1].lower() + what[1:].replace("`", "").replace(" | null", "")
    )


def _check(trial: Trial) -> None:
    """The rules that no single field can keep."""
    for key in TRIAL_FIELDS:
        value = getattr(trial, key)
        if isinstance(value, float) and not math.isfinite(value):
            raise TrialError(key, "must be a finite number")
    if trial.primitives is not None:
        _check_primitives(trial)
    elif trial.launch not in ("single", "dp") and trial.strategy is None:
        raise TrialError("strategy", f"launch = {trial.launch!r} needs one; `none` aggregates nothing")
    for key, why in meaningless(trial.launch, trial.strategy, trial.primitives).items():
        unset = None if key == "strategy" else TRIAL_FIELDS[key].default
        if key != "world_size" and getattr(trial, key) != unset:
            raise TrialError(key, f"means nothing with {why}")
    _check_agreement(trial)
    if trial.launch == "single" and trial.world_size != 1:
        raise TrialError("world_size", "launch = 'single' is one rank; choose another launch mode for more")
    if trial.steps is not None and trial.steps <= trial.warmup_steps:
        raise TrialError("steps", f"{trial.steps} steps leave none after {trial.warmup_steps} warm-up steps")
    if trial.steps is not None and trial.hash_every is not None and trial.hash_every > trial.steps:
        raise TrialError("hash_every", f"every {trial.hash_every} of {trial.steps} steps: it would never happen")
    if trial.batch_size < trial.world_size and trial.primitives is None:
        raise TrialError("batch_size", f"a global batch of {trial.batch_size} cannot feed {trial.world_size} ranks")
    if trial.shape is not None and trial.dataset != "random":
        raise TrialError("shape", "only dataset = 'random' can take any shape")
    if is_own_model(trial.model) and not _names_an_attribute(trial.model):
        raise TrialError("model", f"{trial.model!r} is not of the form 'module:attribute', as 'mymodels:Net' is")
    if trial.model == "linears" and (trial.dataset, trial.classes) != ("random", 3):
        raise TrialError("model", "linears has 3 inputs and 3 outputs: it goes with dataset = 'random', classes = 3")
    if trial.shape is not None and not _takes(trial.model, trial.shape):
        raise TrialError("shape", f"the model {trial.model} cannot take samples of shape {list(trial.shape)}")
    check_devices(trial)
    for index, bottleneck in enumerate(trial.bottleneck):
        check_bottleneck(trial, bottleneck, f"bottleneck[{index}]")
    for index, fault in enumerate(trial.fault):
        check_fault(trial, fault, f"fault[{index}]")


def _check_primitives(trial: Trial) -> None:
    """Primitives want a group of ranks, and something to call."""
    if trial.launch in ("single", "dp"):
        raise TrialError("launch", f"{trial.launch!r} has no process group: primitives need one, as 'spawn' makes it")
    if found := of_primitives.problem(
        trial.operations,
        trial.composites,
        root=trial.root,
        world_size=trial.world_size,
        sizes=(trial.min_bytes, trial.max_bytes),
        shows=trial.primitives == "see",
    ):
        raise TrialError(*found)


def _check_agreement(trial: Trial) -> None:
    """What is averaged, when, and with which mistake."""
    facts = strategies.STRATEGIES[trial.strategy or "none"]
    if trial.average == "parameters" and trial.strategy == "none":
        raise TrialError("average", "strategy = 'none' averages nothing")
    if trial.average == "parameters" and facts.overlaps:
        why = "averages gradients as backward brings them; parameters change only after it"
        raise TrialError("average", f"strategy = {trial.strategy!r} {why}")
    if trial.static_graph and trial.every > 1:
        raise TrialError("static_graph", "with every > 1: torch DDP fails with it in no_sync, where gradients add up")
    if trial.sync_batchnorm and trial.gpus_per_rank > 1:
        raise TrialError("sync_batchnorm", "with gpus_per_rank > 1: each of a rank's replicas would call a collective")
    if trial.sync_batchnorm and trial.device == "cpu":
        raise TrialError("sync_batchnorm", "torch's SyncBatchNorm runs on GPUs only")
    if trial.mistake is None:
        return
    possible = strategies.MISTAKES[trial.mistake]
    if possible and trial.strategy not in possible:
        with_which = " or ".join(repr(name) for name in possible)
        raise TrialError("mistake", f"{trial.mistake!r} is made with strategy = {with_which}")
    if possible and trial.world_size == 1:
        raise TrialError("mistake", f"{trial.mistake!r} shows with two ranks or more")
    if trial.mistake == "no_first_broadcast" and trial.average == "parameters":
        raise TrialError("mistake", "'no_first_broadcast' is healed by the first average of the parameters")
    if trial.mistake in ("group_of_one", "no_division") and trial.reduction == "avg":
        raise TrialError("mistake", f"{trial.mistake!r} sums: it does not ask for a reduction")
    if trial.mistake == "no_set_epoch" and trial.steps is None and trial.epochs == 1:
        raise TrialError("mistake", "'no_set_epoch' shows in the second epoch, and there is only one")


def _takes(model: str, shape: tuple[int, ...]) -> bool:
    """Whether a model takes samples of this shape: the mlp any, torchvision's images of three channels. Of a model of
    the user's own only the rank can tell."""
    if model == "mlp" or is_own_model(model):
        return True
    return shape == SHAPES[model] if model in SHAPES else len(shape) == 3 and shape[0] == 3


def _names_an_attribute(model: str) -> bool:
    module, _, attribute = model.partition(":")
    return attribute.isidentifier() and all(part.isidentifier() for part in module.split("."))

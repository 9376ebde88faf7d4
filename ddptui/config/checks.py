"""Refuses what cannot go together in a trial: the rules that no single field can keep. Each raises TrialError."""

import math

import msgspec

from ddptui.config.device_checks import check_devices
from ddptui.config.fields import meaningless
from ddptui.config.launch_modes import COMMAND, ONE_PROCESS
from ddptui.config.primitives import OPERATIONS
from ddptui.config.strategies import MISTAKES, STRATEGIES
from ddptui.config.trial import (
    BOTTLENECK_FIELDS,
    SHAPES,
    TRIAL_FIELDS,
    Bottleneck,
    Fault,
    Trial,
    TrialError,
    is_own_model,
)

MOST_RANKS_ON_LINKS = 250  # they share a /24 network with their switch (engines/local/links.py)


def check_bottleneck(trial: Trial, bottleneck: Bottleneck, path: str) -> None:
    """Refuse a delay that could never happen in this trial, or a link that it cannot have. Raises TrialError."""
    if not bottleneck.ranks or len(set(bottleneck.ranks)) < len(bottleneck.ranks):
        raise TrialError(f"{path}.ranks", "names a rank twice" if bottleneck.ranks else "names no rank")
    for rank in bottleneck.ranks:
        if trial.ranks and rank >= trial.ranks:  # how many a command has, it decides itself
            raise TrialError(f"{path}.ranks", _no_rank(rank, trial, trial.world_size))
    if bottleneck.at == "link":
        _check_link(trial, bottleneck, path)
    else:
        _check_delay(trial, bottleneck, path)


def _no_rank(rank: int, trial: Trial, ranks: int) -> str:
    """Why the trial has no such rank. In dp all replicas are one process, rank 0."""
    name = f"trial {trial.name}" if trial.name else "the trial"
    if trial.launch == "dp" and ranks == 1:
        return f"no rank {rank}: dp is one process, rank 0"
    return f"no rank {rank}: {name} has " + ("only rank 0" if ranks == 1 else f"ranks 0 to {ranks - 1}")


def _check_link(trial: Trial, link: Bottleneck, path: str) -> None:
    if link.mbit is None or not math.isfinite(link.mbit):
        raise TrialError(f"{path}.mbit", "a link needs it: what it lets through, in 1e6 bits a second")
    for key in ("sleep_ms", "per", "every", "from_step", "to_step", "jitter"):
        if getattr(link, key) != BOTTLENECK_FIELDS[key].default:
            why = "means nothing with at = 'link', which delays no rank and is always there"
            raise TrialError(f"{path}.{key}", why)
    if trial.launch in ONE_PROCESS:
        raise TrialError(f"{path}.at", f"launch = {trial.launch!r} is one process, which has no links")
    if trial.world_size > MOST_RANKS_ON_LINKS:
        why = f"{trial.world_size} ranks: at most {MOST_RANKS_ON_LINKS} get links of their own"
        raise TrialError(f"{path}.at", why)
    if trial.download:
        raise TrialError(f"{path}.at", "with download = true: ranks on links of their own have no way to the internet")
    if any(other.at == "link" and other is not link and {*other.ranks} & {*link.ranks} for other in trial.bottleneck):
        raise TrialError(f"{path}.ranks", "names a rank whose link another bottleneck limits already")


def _check_delay(trial: Trial, delay: Bottleneck, path: str) -> None:
    if trial.primitives is not None:
        raise TrialError(f"{path}.at", f"with primitives = {trial.primitives!r} no rank trains; a link can be slow")
    if not math.isfinite(delay.sleep_ms) or delay.sleep_ms == 0:
        raise TrialError(f"{path}.sleep_ms", "a delay needs it: how long, in ms, more than 0")
    if delay.mbit is not None:
        raise TrialError(f"{path}.mbit", f"goes with at = 'link'; a delay at {delay.at!r} has sleep_ms")
    if delay.at == "start" and (delay.every, delay.from_step, delay.to_step) != (1, 0, None):
        why = "a rank starts once, before its steps: every, from_step and to_step mean nothing"
        raise TrialError(f"{path}.at", why)
    if trial.steps is not None and delay.from_step >= trial.steps:
        raise TrialError(f"{path}.from_step", f"step {delay.from_step} of {trial.steps}: it would never happen")
    if delay.to_step is not None and delay.to_step < delay.from_step:
        raise TrialError(f"{path}.to_step", f"ends at {delay.to_step}, before from_step = {delay.from_step}")
    if delay.per == "call" and (delay.at != "aggregate" or trial.launch == "dp"):  # dp calls no collective
        raise TrialError(f"{path}.per", "'call' goes with at = 'aggregate' and a process group")
    if delay.at == "aggregate" and trial.launch not in ("dp", COMMAND) and trial.strategy in (None, "none"):
        raise TrialError(f"{path}.at", "this trial aggregates nothing, so the delay would never happen")
    if delay.at == "backward" and trial.launch == "dp":
        raise TrialError(f"{path}.at", "dp has one backward for all replicas: use 'forward' or 'aggregate'")


def check_fault(trial: Trial, fault: Fault, path: str) -> None:
    """Refuse a fault that could never happen in this trial. Raises TrialError."""
    processes = trial.world_size if trial.launch != "dp" else 1  # a fault strikes a process, and dp has one
    if fault.rank >= processes:
        raise TrialError(f"{path}.rank", _no_rank(fault.rank, trial, processes))
    if trial.steps is not None and fault.step >= trial.steps:
        raise TrialError(f"{path}.step", f"step {fault.step} of {trial.steps}: it would never happen")
    if fault.kind in ("skip", "mismatch") and trial.strategy in (None, "none"):
        raise TrialError(f"{path}.kind", f"this trial aggregates nothing: there is nothing to {fault.kind}")


def check_trial(trial: Trial) -> None:
    """Refuse what no single field can refuse. Raises TrialError: the first problem."""
    for key, value in msgspec.structs.asdict(trial).items():
        if isinstance(value, float) and not math.isfinite(value):  # TOML has inf and nan; nan passes every bound
            raise TrialError(key, "must be a finite number")
    if trial.launch == COMMAND:
        _check_command(trial)
    elif trial.primitives is not None:
        _check_primitives(trial)
    elif trial.launch not in ONE_PROCESS and trial.strategy is None:
        raise TrialError("strategy", f"launch = {trial.launch!r} needs one; `none` aggregates nothing")
    for key, why in meaningless(trial.launch, trial.strategy, trial.primitives).items():
        unset = None if key == "strategy" else TRIAL_FIELDS[key].default
        if key != "world_size" and getattr(trial, key) != unset:  # world_size has an error of its own below
            raise TrialError(key, f"means nothing with {why}")
    _check_agreement(trial)
    if trial.launch == "single" and trial.world_size != 1:
        raise TrialError("world_size", "launch = 'single' is one rank; choose another launch mode for more")
    if trial.steps is not None and trial.steps <= trial.warmup_steps:
        raise TrialError("steps", f"{trial.steps} steps leave none after {trial.warmup_steps} warm-up steps")
    if trial.trains_until_stopped and trial.instruments == "off":
        raise TrialError("epochs", "0 trains until you stop it, but without instruments no rank reports before its end")
    if trial.steps is not None and trial.hash_every is not None and trial.hash_every > trial.steps:
        raise TrialError("hash_every", f"every {trial.hash_every} of {trial.steps} steps: it would never happen")
    if trial.batch_size < trial.world_size and trial.primitives is None:
        raise TrialError("batch_size", f"a global batch of {trial.batch_size} cannot feed {trial.world_size} ranks")
    if trial.shape is not None and trial.dataset != "random":
        raise TrialError("shape", "only dataset = 'random' can take any shape")
    if is_own_model(trial.model):
        module, _, attribute = trial.model.partition(":")
        if not all(part.isidentifier() for part in [*module.split("."), attribute]):
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


def _check_command(trial: Trial) -> None:
    if not trial.command or not trial.command[0]:
        raise TrialError("command", 'names no program, as in ["torchrun", "--nproc_per_node=2", "train.py"]')
    for key, texts in (("command", trial.command), ("env", trial.env)):
        if any("\0" in text for text in texts):
            raise TrialError(key, "holds a NUL, which no program can be given")
    for variable in trial.env:
        if variable.find("=") < 1:
            raise TrialError("env", f"expected NAME=VALUE, got {variable!r}")
    for index, bottleneck in enumerate(trial.bottleneck):
        if bottleneck.at in ("link", "start"):
            why = "a command starts its own ranks, in the host's network: delay data, forward, backward or aggregate"
            raise TrialError(f"bottleneck[{index}].at", why)


def _check_primitives(trial: Trial) -> None:
    if trial.launch in ONE_PROCESS:
        raise TrialError("launch", f"{trial.launch!r} has no process group: primitives need one, as 'spawn' makes it")
    for key in ("operations", "composites"):
        if len(set(getattr(trial, key))) < len(getattr(trial, key)):
            raise TrialError(key, "names one twice")
    if trial.primitives == "see" and "local_sum" in trial.operations:
        raise TrialError("operations", "local_sum sends nothing: there is nothing to be seen")
    if trial.primitives == "measure" and trial.cadence == "pipelined":
        if trial.composites:
            why = "with cadence = 'pipelined': a composite waits for each of its primitives; use 'back_to_back'"
            raise TrialError("composites", why)
        if done := [name for name in trial.operations if not OPERATIONS[name].pipelines]:
            other = "isend_irecv can be in flight" if done[0] == "send_recv" else "time it with 'back_to_back'"
            raise TrialError("operations", f"{done[0]} with cadence = 'pipelined': it is over when it returns; {other}")
    if trial.world_size < 2:
        raise TrialError("world_size", "primitives are between ranks: two at least")
    if trial.root >= trial.world_size:
        raise TrialError("root", _no_rank(trial.root, trial, trial.world_size))
    if trial.min_bytes > trial.max_bytes:
        raise TrialError("min_bytes", f"{trial.min_bytes} is more than max_bytes = {trial.max_bytes}")


def _check_agreement(trial: Trial) -> None:
    """What is averaged, when, and with which mistake."""
    facts = STRATEGIES[trial.strategy or "none"]
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
    possible = MISTAKES[trial.mistake]
    if possible and trial.strategy not in possible:
        raise TrialError("mistake", f"{trial.mistake!r} is made with strategy = {' or '.join(map(repr, possible))}")
    if possible and trial.world_size == 1:
        raise TrialError("mistake", f"{trial.mistake!r} shows with two ranks or more")
    if trial.mistake == "no_first_broadcast" and trial.average == "parameters":
        raise TrialError("mistake", "'no_first_broadcast' is healed by the first average of the parameters")
    if trial.mistake in ("group_of_one", "no_division") and trial.reduction == "avg":
        raise TrialError("mistake", f"{trial.mistake!r} sums: it does not ask for a reduction")
    if trial.mistake == "no_set_epoch" and trial.steps is None and trial.epochs == 1:
        raise TrialError("mistake", "'no_set_epoch' shows in the second epoch, and there is only one")


def _takes(model: str, shape: tuple[int, ...]) -> bool:
    """Whether a model takes samples of this shape."""
    if model == "mlp" or is_own_model(model):  # an mlp takes any; for a user's own model only the rank can tell
        return True
    return shape == SHAPES[model] if model in SHAPES else len(shape) == 3 and shape[0] == 3  # torchvision's: images

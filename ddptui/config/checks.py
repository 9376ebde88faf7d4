"""Checks the rules that involve several fields of a trial, and the delays that the user injects while a trial runs.

A broken rule raises TrialError.
"""

import math
from collections.abc import Iterable, Sequence
from typing import get_args

import msgspec

from ddptui.config.catalog import COMMAND, MISTAKES, ONE_PROCESS, OPERATIONS, facts_of
from ddptui.config.fields import meaningless, remedies
from ddptui.config.trial import (
    BOTTLENECK_FIELDS,
    KNOWN,
    LINK,
    SHAPES,
    TRIAL_FIELDS,
    Bottleneck,
    Fault,
    Site,
    Trial,
    TrialError,
    check_spelling,
    is_own,
    values_of,
)
from ddptui.text.words import in_a_row

MOST_RANKS_ON_LINKS = 250  # they share a /24 network with their switch (engines/local/links.py)
NO_IMAGES = ("mlp", "linears")  # models without convolutions
# The primitives that gloo cannot carry out with tensors on GPUs. For collectives it copies such tensors to the host.
# It builds reduce_scatter from all_reduces, from torch 2.8 on; older versions lack it, on the CPU too.
NOT_BY_GLOO = ("send_recv", "isend_irecv")
# Faults after which ranks call different collectives, like `skip` and `mismatch`, which one rank alone may have, too.
DESYNCHRONIZE = ("uneven_inputs", "early_stop", "lone_collective", "other_shape", "wrong_order")
NO_SENDING = "gloo cannot send or receive tensors on a GPU"

Rule = tuple[object, str, str]  # whether the rule is broken, the field, and the error message


def _keep(rules: Iterable[Rule], before: str = "") -> None:
    """Raise TrialError for the first broken rule. before: the start of each field's path."""
    for is_broken, key, why in rules:
        if is_broken:
            raise TrialError(f"{before}{key}", why)


def check_trial(trial: Trial) -> None:
    """Check the rules that involve several fields. Raises TrialError for the first problem."""
    for key, value in msgspec.structs.asdict(trial).items():
        if isinstance(value, float) and not math.isfinite(value):  # TOML has inf and nan; nan passes every bound
            raise TrialError(key, "must be a finite number")
    if trial.kind == "command":
        _check_command(trial)
    elif trial.kind == "primitives":
        _check_primitives(trial)
    _check_names(trial)
    for key, why in meaningless(trial.launch, trial.strategy, trial.primitives).items():
        unset = None if key == "strategy" else TRIAL_FIELDS[key].default
        if key != "world_size" and getattr(trial, key) != unset:  # world_size has an error of its own below
            raise TrialError(key, f"has no effect with {why}")
    _check_averaging(trial)
    _check_length_and_samples(trial)
    _check_devices(trial)
    for index, bottleneck in enumerate(trial.bottleneck):
        check_bottleneck(trial, bottleneck, f"bottleneck[{index}]")
    for index, fault in enumerate(trial.fault):
        _check_fault(trial, fault, f"fault[{index}]")


def _check_names(trial: Trial) -> None:
    """Check the fields that take one of several names, or the user's own code."""
    for path, value in values_of(trial).items():
        options = KNOWN.get(path.rpartition(".")[2], ())
        if value is None:
            continue
        if is_own(value):
            check_spelling(path, value)
        elif options and value not in options:
            why = [f"unknown value {value!r}", *remedies(value, options), "or your own code: mine.py:name"]
            raise TrialError(path, in_a_row(why, ";"))


# fmt: off
def _check_command(trial: Trial) -> None:
    wrong = next((variable for variable in trial.env if variable.find("=") < 1), None)
    here = "a command starts its own ranks, in the host's network; use data, forward, backward or aggregate"
    _keep([
        (not trial.command or not trial.command[0], "command",
         'names no program; write it as ["torchrun", "--nproc_per_node=2", "train.py"]'),
        *((any("\0" in text for text in texts), key, "contains a NUL character, which no program accepts; remove it")
          for key, texts in (("command", trial.command), ("env", trial.env))),
        (wrong is not None, "env", f"expected NAME=VALUE, got {wrong!r}"),
        *((delay.at in (LINK, "start") or is_own(delay.at), f"bottleneck[{index}].at", here)
          for index, delay in enumerate(trial.bottleneck)),
    ])


def _check_primitives(trial: Trial) -> None:
    is_shown, in_flight = trial.primitives == "see", (trial.primitives, trial.cadence) == ("measure", "pipelined")
    least, most = trial.min_bytes, trial.max_bytes
    done = next((name for name in trial.operations if not OPERATIONS[name].pipelines), "")
    other = "use isend_irecv instead" if done == "send_recv" else "use cadence = 'back_to_back'"
    _keep([
        (trial.launch in ONE_PROCESS, "launch", f"{trial.launch!r} has no process group for primitives; use 'spawn'"),
        (len({*trial.operations}) < len(trial.operations), "operations", "lists an operation twice"),
        (len({*trial.composites}) < len(trial.composites), "composites", "lists a composite twice"),
        (is_shown and "local_sum" in trial.operations, "operations", "local_sum sends nothing to show; leave it out"),
        (in_flight and trial.composites, "composites",
         "cannot be pipelined: a composite waits for each of its primitives; use cadence = 'back_to_back'"),
        (in_flight and done, "operations", f"{done} cannot be pipelined: it is complete when it returns; {other}"),
        (trial.world_size < 2, "world_size", "primitives need at least two ranks"),
        (trial.root >= trial.world_size, "root", _no_rank(trial.root, trial, trial.world_size)),
        (least > most, "min_bytes", f"{least} is more than max_bytes = {most}"),
    ])


def _check_averaging(trial: Trial) -> None:
    """Check what is averaged, how often, and with which mistake."""
    of_parameters, mistake = trial.average == "parameters", trial.mistake
    needs_strategy = trial.kind == "training" and trial.launch not in ONE_PROCESS
    possible = MISTAKES[mistake] if mistake else ()
    _keep([
        (needs_strategy and trial.strategy is None, "strategy",
         f"launch = {trial.launch!r} needs a strategy; 'none' averages nothing"),
        (of_parameters and trial.strategy == "none", "average", "strategy = 'none' averages no parameters"),
        (of_parameters and facts_of(trial.strategy).overlaps, "average",
         f"strategy = {trial.strategy!r} averages gradients during backward, but parameters change only after it; set "
         "it for other trials alone: `--set TRIAL:average=parameters`"),
        (trial.static_graph and trial.every > 1, "static_graph",
         "cannot be combined with every > 1: torch DDP fails with static_graph in no_sync"),
        (possible and trial.strategy not in possible, "mistake",
         f"{mistake!r} needs strategy = {' or '.join(map(repr, possible))}"),
        (possible and trial.world_size == 1, "mistake", f"{mistake!r} needs at least two ranks to have an effect"),
        (mistake == "no_first_broadcast" and of_parameters, "mistake",
         "'no_first_broadcast' has no effect: the first average of the parameters makes the ranks equal"),
        (mistake in ("group_of_one", "no_division") and trial.reduction == "avg", "mistake",
         f"{mistake!r} always sums; use reduction = 'sum'"),
        (mistake == "no_set_epoch" and trial.steps is None and trial.epochs == 1, "mistake",
         "'no_set_epoch' shows only from the second epoch on; set epochs to 2 or more"),
    ])


def _check_length_and_samples(trial: Trial) -> None:
    steps, shape, model = trial.steps or math.inf, trial.shape, trial.model
    any_shape = model == "mlp" or is_own(model)  # only the rank can check the shape for a user's own model
    fits = any_shape or shape is None or (
        shape == SHAPES[model] if model in SHAPES else len(shape) == 3 and shape[0] == 3)  # torchvision: RGB images
    _keep([
        (trial.launch == "single" and trial.world_size != 1, "world_size",
         "launch = 'single' is one rank; choose another launch mode for more"),
        (steps <= trial.warmup_steps, "steps", f"all {steps} are warm-up; set more than {trial.warmup_steps}"),
        (trial.trains_until_stopped and trial.instruments == "off", "epochs",
         "0 trains until you stop it, but without instruments ranks report only at their end; use instruments = 'on'"),
        ((trial.hash_every or 0) > steps, "hash_every", f"{trial.hash_every} is more than the {steps} steps"),
        (trial.batch_size < trial.world_size and trial.kind == "training", "batch_size",
         f"a global batch of {trial.batch_size} is too small for {trial.world_size} ranks"),
        (shape is not None and trial.dataset != "random", "shape", "only dataset = 'random' takes a shape; remove it"),
        (model == "linears" and (trial.dataset, trial.classes) != ("random", 3), "model",
         "linears has 3 inputs and 3 outputs; use dataset = 'random' and classes = 3"),
        (not fits, "shape", f"the model {model} does not accept samples of shape {[*(shape or ())]}"),
    ])


def _check_devices(trial: Trial) -> None:
    """Check for devices, backends and precisions that cannot work together on any machine."""
    on_cpu, several, facts = trial.device == "cpu", trial.gpus_per_rank > 1, facts_of(trial.strategy)
    shares, by_nccl = trial.share_gpu, trial.backend == "nccl"
    by_gloo = trial.backend == "gloo" and trial.device == "cuda" and needs_point_to_point(trial)
    _keep([
        (by_nccl and on_cpu, "backend", "nccl needs GPUs; use 'gloo' with device = 'cpu'"),
        (trial.backend == "mpi" and trial.launch != "task", "backend",
         "mpi needs ranks that mpirun starts: run `mpirun … python -m workers.task …`, with RANK, WORLD_SIZE and so "
         "on set for each rank; or use gloo or nccl"),
        *([(True, *by_gloo)] if by_gloo else []),
        (shares and on_cpu, "share_gpu", "with device = 'cpu' there is no GPU to share; use `--set share_gpu=false`"),
        (shares and several, "share_gpu", "cannot be combined with gpus_per_rank > 1; set one of them only"),
        (shares and by_nccl, "share_gpu", "NCCL refuses two ranks on one GPU; use backend = 'auto' or 'gloo'"),
        (trial.sync_batchnorm and several, "sync_batchnorm",
         "cannot be combined with gpus_per_rank > 1: each replica of a rank would call a collective"),
        (trial.sync_batchnorm and on_cpu, "sync_batchnorm", "torch's SyncBatchNorm runs on GPUs only"),
        (trial.amp and trial.dtype == "float64", "amp", "autocast does not convert float64; use dtype = 'float32'"),
        (trial.amp == "fp16" and facts.low_rank, "amp", "fp16 overflows at times, and PowerSGD would carry the "
         "infinite error into all later steps; use bf16"),
        (trial.channels_last and trial.model in NO_IMAGES, "channels_last",
         f"has no effect: the model {trial.model} has no convolutions; remove it"),
        (trial.pin_memory and on_cpu, "pin_memory", "speeds up copies to a GPU: it has no effect with device = 'cpu'"),
        (trial.compile and facts.is_ddp and (trial.bucket_mb or 1) < 1, "bucket_mb",
         f"torch cannot compile DDP with buckets of {trial.bucket_mb} MB, as the first bucket has 1 MB; use 1 or more, "
         "or compile = false"),
        (trial.compile and several, "compile",
         "cannot be combined with gpus_per_rank > 1: nn.DataParallel copies the model again in every step"),
    ])


def check_bottleneck(trial: Trial, bottleneck: Bottleneck, path: str) -> None:
    """Check that this delay can happen in the trial, or that the trial can have this link. Raises TrialError."""
    ranks = bottleneck.ranks
    missing = next((rank for rank in ranks if 0 < trial.ranks <= rank), 0)  # trial.ranks is 0, unknown, for a command
    _keep([
        (not ranks, "ranks", "lists no rank"),
        (len({*ranks}) < len(ranks), "ranks", "lists a rank twice"),
        (missing, "ranks", _no_rank(missing, trial, trial.world_size)),
        *(_link_rules if bottleneck.at == "link" else _delay_rules)(trial, bottleneck),
    ], f"{path}.")


def _link_rules(trial: Trial, link: Bottleneck) -> list[Rule]:
    ranks, others = trial.world_size, [other for other in trial.bottleneck if other.at == "link" and other is not link]
    return [
        (not 0 < (link.mbit or 0) < math.inf, "mbit", "at = 'link' needs its rate, in Mbit/s"),
        *((getattr(link, key) != BOTTLENECK_FIELDS[key].default, key, "has no effect with at = 'link'; remove it")
          for key in ("sleep_ms", "per", "every", "from_step", "to_step", "jitter")),
        (trial.launch in ONE_PROCESS, "at", f"launch = {trial.launch!r} is one process, which has no links"),
        (ranks > MOST_RANKS_ON_LINKS, "at", f"links are possible for at most {MOST_RANKS_ON_LINKS} ranks, not {ranks}"),
        (trial.download, "at", "ranks on slow links cannot reach the internet; use download = false"),
        (any({*other.ranks} & {*link.ranks} for other in others), "ranks", "limits the link of a rank twice"),
    ]


def _delay_rules(trial: Trial, delay: Bottleneck) -> list[Rule]:
    steps, at, first, last = trial.steps or math.inf, delay.at, delay.from_step, delay.to_step
    in_dp, own = trial.launch == "dp", is_own(delay.at)
    no_average = not in_dp and trial.launch != COMMAND and trial.strategy in (None, "none")
    return [
        (trial.primitives, "at", f"with primitives = {trial.primitives!r} no rank trains; only 'link' is possible"),
        (own and (delay.sleep_ms, delay.jitter) != (0, "none"), "sleep_ms", "your own function returns the length"),
        (not own and not 0 < delay.sleep_ms < math.inf, "sleep_ms", "a delay needs its length in ms, more than 0"),
        (delay.mbit is not None, "mbit", f"is only for at = 'link'; a delay at {at!r} has sleep_ms"),
        (at == "start" and (delay.every, first, last) != (1, 0, None), "at",
         "a rank starts once, before its steps: every, from_step and to_step have no effect"),
        (first >= steps, "from_step", f"the delay would never happen: step {first} of {steps}"),
        (last is not None and last < first, "to_step", f"{last} is before from_step = {first}"),
        (delay.per == "call" and (at != "aggregate" or in_dp), "per",  # dp calls no collective
         "'call' needs at = 'aggregate' and a process group"),
        (at == "aggregate" and no_average, "at", "this trial aggregates nothing, so the delay would never happen"),
        (at == "backward" and in_dp, "at", "dp has one backward for all replicas; use 'forward' or 'aggregate'"),
    ]


def _check_fault(trial: Trial, fault: Fault, path: str) -> None:
    """Check that this fault can happen in the trial."""
    steps, kind, name = trial.steps or math.inf, fault.kind, trial.strategy or "none"
    processes = trial.world_size if trial.launch != "dp" else 1  # a fault affects a process, and dp has only one
    in_average, facts = kind in ("other_shape", "wrong_order"), facts_of(name)
    _keep([
        (fault.rank >= processes, "rank", _no_rank(fault.rank, trial, processes)),
        (fault.step >= steps, "step", f"the fault would never happen: step {fault.step} of {steps}"),
        (kind in ("skip", "mismatch", *DESYNCHRONIZE) and name == "none", "kind",
         f"the ranks of this trial call no collective, so {kind!r} has no effect; choose another strategy or kind"),
        (kind in DESYNCHRONIZE and trial.world_size == 1, "kind", f"{kind!r} needs at least two ranks"),
        (in_average and trial.every > 1, "kind",
         f"{kind!r} changes an average, but with every = {trial.every} some steps have none; use every = 1"),
        (in_average and facts.overlaps, "kind",
         f"strategy = {name!r} sends buckets that {kind!r} cannot change; use strategy = 'all_reduce'"),
        (kind == "wrong_order" and facts.sends is not None and facts.sends.how == "all", "kind",
         f"strategy = {name!r} calls one collective in a step: there is no order; use strategy = 'all_reduce'"),
    ], f"{path}.")
# fmt: on


def _no_rank(rank: int, trial: Trial, ranks: int) -> str:
    """Return the error message for a rank that the trial does not have. In dp all replicas are one process, rank 0."""
    name = f"trial {trial.name}" if trial.name else "the trial"
    if trial.launch == "dp" and ranks == 1:
        return f"no rank {rank}: dp is one process, rank 0"
    return f"no rank {rank}: {name} has " + ("only rank 0" if ranks == 1 else f"ranks 0 to {ranks - 1}")


def needs_point_to_point(trial: Trial) -> tuple[str, str] | None:
    """The field that causes point-to-point messages, and the error message if gloo carries tensors on GPUs; or None."""
    if trial.primitives is None:
        if trial.world_size == 1 or not facts_of(trial.strategy).point_to_point:
            return None
        return "strategy", f"{trial.strategy!r} sends from rank to rank, but {NO_SENDING}; choose another strategy"
    for name in trial.composites:
        if facts_of(name).point_to_point:
            return "composites", f"{name!r} sends from rank to rank, but {NO_SENDING}; leave it out"
    if not trial.operations or set(trial.operations) & set(NOT_BY_GLOO):
        return "operations", f"{NO_SENDING}; list the others, without {' and '.join(NOT_BY_GLOO)}"
    return None


def can_share_gpu(trial: Trial) -> bool:
    """Whether ranks of the trial can share a GPU, over gloo."""
    return trial.gpus_per_rank == 1 and trial.launch not in ONE_PROCESS and needs_point_to_point(trial) is None


TOO_LATE = "start"  # a running rank has already started
LENGTHS_MS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000)  # at most 5 s: a sleep cannot be interrupted
USUAL_MS = 20

Delays = tuple[Bottleneck, ...]


def sites(trial: Trial) -> list[Site]:
    """The sites at which the running ranks of a trial can be delayed."""
    return [at for at in get_args(Site) if at != TOO_LATE and _is_possible(trial, at)]


def _is_possible(trial: Trial, at: str) -> bool:
    try:
        check_bottleneck(trial, Bottleneck(at=at, ranks=(0,), sleep_ms=USUAL_MS), "")
    except TrialError:
        return False
    return True


def still_to_come(bottlenecks: Sequence[Bottleneck]) -> Delays:
    """The delays that can still affect a running rank: all but those at its start, and without slow links."""
    return tuple(delay for delay in bottlenecks if delay.at not in (TOO_LATE, LINK))


def delay_of(delays: Sequence[Bottleneck], rank: int, at: str) -> Bottleneck | None:
    """The delay of a rank at a site, or None."""
    return next((delay for delay in delays if delay.at == at and rank in delay.ranks), None)


def without(delays: Sequence[Bottleneck], rank: int, at: str) -> Delays:
    """The delays without any of this rank at this site. Other ranks keep their delays."""
    left = [(delay, tuple(each for each in delay.ranks if (delay.at, each) != (at, rank))) for delay in delays]
    return tuple(msgspec.structs.replace(delay, ranks=ranks) for delay, ranks in left if ranks)


def with_delay(delays: Sequence[Bottleneck], rank: int, at: Site, sleep_ms: float) -> Delays:
    """The delays with this one added. It replaces the rank's delay at the same site."""
    return (*without(delays, rank, at), Bottleneck(at=at, ranks=(rank,), sleep_ms=sleep_ms))


def next_length(sleep_ms: float, by: int) -> float:
    """The next longer (by = 1) or shorter (-1) of LENGTHS_MS; the same length if there is none."""
    others = [ms for ms in LENGTHS_MS if (ms > sleep_ms if by > 0 else ms < sleep_ms)]
    return min(others, key=lambda ms: abs(ms - sleep_ms), default=sleep_ms)

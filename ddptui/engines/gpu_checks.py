"""Checks before a run starts whether this machine's GPUs can run its trials."""

import os
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from ddptui.config.checks import can_share_gpu, needs_point_to_point
from ddptui.config.parser import PresetError
from ddptui.config.trial import Trial
from ddptui.host import gpus
from ddptui.host.gpus import VISIBLE, Build, Driver
from ddptui.text.words import OLDER, WITH_CUDA

ELSEWHERE = (
    "run it on a machine that has one (a container sees them after `docker run --gpus all`; `ddptui doctor` shows what "
    "a machine has)"
)
OUR_MODELS = ("net", "mlp", "linears")
ABOUT_GPUS = "GPUs"  # the group of presets that make sense only on GPUs


class GpuInfo(NamedTuple):
    """The facts about this machine's GPUs that are known without CUDA. None: not known."""

    surely_none: bool  # whether there is certainly no GPU of any vendor
    driver: Driver | None
    build: Build | None  # the CUDA or HIP version that torch is built for
    visible: str | None  # the value of CUDA_VISIBLE_DEVICES; None: it is not set


def look_at_gpus() -> GpuInfo:
    """Asks the driver, and reads the installed torch's version file."""
    return GpuInfo(gpus.surely_none(), gpus.ask(), gpus.built_for(), os.environ.get(VISIBLE))


def check_gpus(preset: str, trials: Sequence[Trial], *, or_cpu: bool) -> None:
    """Raises PresetError for the first of these trials that this machine's GPUs cannot run. Assumes that all
    ranks run on this machine. or_cpu: whether the error also says how to run the preset on the CPU."""
    if not any(map(wants_to_know, trials)):
        return
    machine, otherwise = look_at_gpus(), without_gpus(trials) if or_cpu else ""
    for trial in trials:
        if why := problem(trial, machine, otherwise):
            raise PresetError(f"{preset}, trial {trial.name}: {why}")


def wants_to_know(trial: Trial) -> bool:
    """Whether this trial depends on GPUs, so that they must be checked."""
    return needs(trial) is not None or _may_send_over_gloo(trial)


def needs(trial: Trial) -> str | None:
    """Which field of this trial requires a GPU, as `field: reason`; None: none does."""
    if trial.device == "cuda":
        return "device: 'cuda' needs an NVIDIA GPU"
    if trial.backend == "nccl":
        return "backend: 'nccl' needs NVIDIA GPUs"
    return "sync_batchnorm: torch's SyncBatchNorm runs on GPUs only" if trial.sync_batchnorm else None


INSTEAD: dict[str, tuple[Any, Any]] = {  # values that need GPUs, and those that take their place on the CPU
    "device": ("cuda", "cpu"),
    "backend": ("nccl", "auto"),
    "sync_batchnorm": (True, False),
    "share_gpu": (True, False),
    "pin_memory": (True, False),
}


def without_gpus(trials: Sequence[Trial]) -> str:
    """The options by which these trials run without a GPU, as a remedy to append: ", or `--set device=cpu`".

    Empty if these options would make some trials equal, which would defeat the purpose of the preset."""
    values = {field: {getattr(trial, field) for trial in trials} for field in INSTEAD}
    fields = {field: value for field, (on_gpus, value) in INSTEAD.items() if on_gpus in values[field]}
    if _different(trials, fields) < _different(trials, {}):
        return ""
    return f", or `{' '.join(f'--set {field}={str(value).lower()}' for field, value in fields.items())}`"


def _different(trials: Sequence[Trial], fields: dict[str, Any]) -> int:
    """How many different trials remain after these fields are set, ignoring names."""
    return len({msgspec.json.encode(msgspec.structs.replace(trial, name="", **fields)) for trial in trials})


def problem(trial: Trial, machine: GpuInfo, otherwise: str) -> str | None:
    """Why this machine's GPUs cannot run this trial, and what to do, as one sentence; None: they can. otherwise: the
    result of `without_gpus`."""
    needed = needs(trial)
    if needed and (lacks := lacking(machine)):
        why, remedy = lacks
        return f"{needed}, but {why}: {remedy}{otherwise}"
    available = gpus.count(machine.driver, {} if machine.visible is None else {VISIBLE: machine.visible})
    if available is None or (available == 0 and not needed):  # None: only the ranks can tell; 0: they run on the CPU
        return None
    total = len(machine.driver.gpus) if machine.driver else available
    if not available:
        numbers = "GPU 0" if total == 1 else f"GPUs 0 to {total - 1}"
        hidden = f"{VISIBLE} is {machine.visible!r}, which names none (this machine has {numbers}): `unset {VISIBLE}`"
        return f"{needed}, but {hidden}{otherwise}"
    but = f"but this machine has {available}"
    if available != total:
        but = f"but {VISIBLE}={machine.visible!r} leaves {available} of {total}"
    return (_too_few(trial, available, but) if needed else None) or _cannot_send(trial, available)


def lacking(machine: GpuInfo) -> tuple[str, str] | None:
    """Why ranks cannot use any GPU, and the remedy; None: they can."""
    driver, build, visible = machine.driver, machine.build, machine.visible
    if machine.surely_none or (driver is not None and not driver.gpus):
        besides = f" (besides, {VISIBLE} is {visible!r}, which hides every GPU)" if gpus.is_empty(visible) else ""
        return f"this machine has none{besides}", ELSEWHERE
    if build == Build(None, None):
        return "this torch is built without CUDA", WITH_CUDA
    if gpus.is_empty(visible):
        return f"{VISIBLE} is {visible!r}, which hides every GPU", f"`unset {VISIBLE}`"
    if driver is not None and build is not None and gpus.is_too_old(driver, build):
        its = f"the driver {driver.version} (CUDA {'.'.join(map(str, driver.cuda or ()))})"
        return f"{its} is too old for this torch, which is built for CUDA {build.cuda}", OLDER
    return None


def _too_few(trial: Trial, available: int, but: str) -> str | None:
    """Why this number of GPUs is not enough; None: it is. but: a clause that says how many there are."""
    needed = trial.world_size * trial.gpus_per_rank
    if needed <= available:
        return None
    if trial.launch == "dp":
        return f"world_size: {needed} replicas need a GPU each, {but}: lower world_size"
    if trial.gpus_per_rank > 1:
        product = f"gpus_per_rank × world_size = {trial.gpus_per_rank} × {trial.world_size}"
        return f"gpus_per_rank: {needed} GPUs are needed ({product}), {but}: lower one of them"
    if trial.share_gpu:  # ranks share the available GPUs
        return None
    also = " --set backend=auto" if trial.backend == "nccl" else ""
    share = f"`--set share_gpu=true{also}` lets them share it over gloo, or " if can_share_gpu(trial) else ""
    what = f"{needed} ranks need {needed} GPUs, {but}; NCCL refuses two ranks on one"
    return f"world_size: {what}: {share}lower world_size"


def _may_send_over_gloo(trial: Trial) -> bool:
    """Whether the trial may send tensors between GPUs over gloo, which gloo does not support."""
    over_gloo = trial.share_gpu or trial.backend == "gloo"
    return trial.device != "cpu" and over_gloo and needs_point_to_point(trial) is not None


def _cannot_send(trial: Trial, available: int) -> str | None:
    """Why the trial cannot run: it would have to send tensors between GPUs over gloo, which gloo cannot. None: it need
    not. available: the number of GPUs, at least 1."""
    sending, is_enough = needs_point_to_point(trial), trial.world_size * trial.gpus_per_rank <= available
    if sending is None or not _may_send_over_gloo(trial):
        return None
    field, why = sending
    if trial.share_gpu and not is_enough:
        return f"{field}: the ranks share a GPU, which only gloo allows; {why}"
    return f"{field}: {why}" if trial.backend == "gloo" and is_enough else None

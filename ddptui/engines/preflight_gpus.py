"""What a trial wants of this machine's GPUs, looked at before anything is started."""

import os
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ddptui.config.checks import can_share_gpu, needs_point_to_point
from ddptui.config.parser import PresetError
from ddptui.config.trial import Trial, is_own_model
from ddptui.host import gpus
from ddptui.host.gpus import VISIBLE, Build, Driver
from ddptui.text.remedies import OLDER, WITH_CUDA

ELSEWHERE = (
    "run it where there is one (a container sees them after `docker run --gpus all`; `ddptui doctor` says what a "
    "machine has)"
)
OUR_MODELS = ("net", "mlp", "linears")
FEW_STEPS = 10  # after the warm-up, of a model that is meant for a GPU: hours become minutes


class GpuInfo(NamedTuple):
    """What can be known of this machine's GPUs without CUDA. `surely_none`: there is no GPU, of whatever make; `driver`
    and `build`, see gpus.py: None, not known; `visible`: the variable that hides GPUs."""

    surely_none: bool
    driver: Driver | None
    build: Build | None
    visible: str | None


def look_at_gpus() -> GpuInfo:
    return GpuInfo(gpus.surely_none(), gpus.ask(), gpus.built_for(), os.environ.get(VISIBLE))


def check_gpus(preset: str, trials: Sequence[Trial]) -> None:
    """Refuse the first of these trials, all ranks of which are on this machine, that its GPUs cannot run. Raises
    PresetError."""
    if not any(map(wants_to_know, trials)):
        return
    machine, otherwise = look_at_gpus(), without_gpus(trials)
    for trial in trials:
        if found := problem(trial, machine, otherwise):
            raise PresetError(f"{preset}, trial {trial.name}: {found}")


def wants_to_know(trial: Trial) -> bool:
    """Whether what this trial does hangs on the GPUs that there are."""
    return needs(trial) is not None or _may_send_over_gloo(trial)


def needs(trial: Trial) -> str | None:
    """The field that only a GPU can satisfy, and how it says so."""
    if trial.device == "cuda":
        return "device: 'cuda' needs an NVIDIA GPU"
    if trial.backend == "nccl":
        return "backend: 'nccl' needs NVIDIA GPUs"
    return "sync_batchnorm: torch's SyncBatchNorm runs on GPUs only" if trial.sync_batchnorm else None


def without_gpus(trials: Iterable[Trial]) -> str:
    """What lays itself over these trials so that they need no GPU."""
    trials = list(trials)
    on_gpus = any(trial.device == "cuda" for trial in trials)
    instead = {
        "device=cpu": on_gpus,
        "backend=auto": any(trial.backend == "nccl" for trial in trials),
        "sync_batchnorm=false": any(trial.sync_batchnorm for trial in trials),
        "share_gpu=false": on_gpus and any(trial.share_gpu for trial in trials),
        "pin_memory=false": on_gpus and any(trial.pin_memory for trial in trials),
        f"steps={FEW_STEPS + max(trial.warmup_steps for trial in trials)}": on_gpus and any(map(_is_large, trials)),
    }
    return f"`{' '.join(f'--set {assignment}' for assignment, is_needed in instead.items() if is_needed)}`"


def _is_large(trial: Trial) -> bool:
    """Whether a trial is made for GPUs: our own models are small, and of the user's own we know nothing."""
    return trial.model not in OUR_MODELS and not is_own_model(trial.model)


def problem(trial: Trial, machine: GpuInfo, otherwise: str) -> str | None:
    """Why this machine's GPUs cannot run this trial, and what to do about it, in one sentence."""
    needed = needs(trial)
    if needed and (lacking := _lacking(machine)):
        why, remedy = lacking
        return f"{needed}, and {why}: {remedy}, or {otherwise}"
    there = gpus.count(machine.driver, {} if machine.visible is None else {VISIBLE: machine.visible})
    if there is None or (there == 0 and not needed):  # unknown: the ranks will tell; none: they are on the CPU
        return None
    if not there:
        return f"{needed}, and {_hidden(machine)}, or {otherwise}"
    return (_too_few(trial, there, machine) if needed else None) or _cannot_send(trial, there)


def _lacking(machine: GpuInfo) -> tuple[str, str] | None:
    """What stands between ranks and any GPU, and what mends it."""
    driver, build, visible = machine.driver, machine.build, machine.visible
    if machine.surely_none or (driver is not None and not driver.gpus):
        besides = f" ({VISIBLE} is {visible!r}, too: that hides every GPU)" if gpus.is_empty(visible) else ""
        return f"this machine has none{besides}", ELSEWHERE
    if build == Build(None, None):
        return "this torch is built without CUDA", WITH_CUDA
    if gpus.is_empty(visible):
        return f"{VISIBLE} is {visible!r}, which hides every GPU", f"`unset {VISIBLE}`"
    if driver is not None and build is not None and gpus.is_too_old(driver, build):
        return too_old(driver, build), OLDER
    return None


def too_old(driver: Driver, build: Build) -> str:
    """That the driver is, and for what."""
    knows = ".".join(map(str, driver.cuda or ()))
    return f"the driver {driver.version} (CUDA {knows}) is too old for this torch, which is built for CUDA {build.cuda}"


def _hidden(machine: GpuInfo) -> str:
    there = len(machine.driver.gpus) if machine.driver else 0
    numbers = "0" if there == 1 else f"0 to {there - 1}"
    return f"{VISIBLE} is {machine.visible!r}, which leaves none of them (here: {numbers}): `unset {VISIBLE}`"


def _too_few(trial: Trial, there: int, machine: GpuInfo) -> str | None:
    """Why so many GPUs are not enough."""
    wanted = trial.world_size * trial.gpus_per_rank
    are_there = _are_there(there, machine)
    if wanted <= there:
        return None
    if trial.launch == "dp":
        return f"world_size: {wanted} replicas want a GPU each, and {are_there}: lower world_size"
    if trial.gpus_per_rank > 1:
        several = f"{trial.world_size} ranks of {trial.gpus_per_rank} GPUs each want {wanted}"
        what = f"1 rank wants {wanted} GPUs" if trial.world_size == 1 else several
        return f"gpus_per_rank: {what}, and {are_there}: lower gpus_per_rank{' or world_size' * (trial.world_size > 1)}"
    if trial.share_gpu:
        return None
    also = " --set backend=auto" if trial.backend == "nccl" else ""
    share = f"`--set share_gpu=true{also}` lets them share it over gloo, or " if can_share_gpu(trial) else ""
    what = f"{wanted} ranks want {wanted} GPUs, and {are_there}; NCCL refuses two ranks on one"
    return f"world_size: {what}: {share}lower world_size"


def _are_there(there: int, machine: GpuInfo) -> str:
    """That so many GPUs are; and what hides the others, if there are others."""
    every = len(machine.driver.gpus) if machine.driver else there
    verb = "is" if there == 1 else "are"
    if there == every:
        return f"{there} {verb} there"
    return f"{there} of {every} {verb} left by {VISIBLE}={machine.visible!r}"


def _may_send_over_gloo(trial: Trial) -> bool:
    """Whether there may be point-to-point messages from GPUs over gloo, which has none."""
    over_gloo = trial.share_gpu or trial.backend == "gloo"
    return trial.device != "cpu" and over_gloo and needs_point_to_point(trial) is not None


def _cannot_send(trial: Trial, there: int) -> str | None:
    """Why with so many GPUs, one at least, there would be such messages."""
    found, is_enough = needs_point_to_point(trial), trial.world_size * trial.gpus_per_rank <= there
    if found is None or not _may_send_over_gloo(trial):
        return None
    if trial.share_gpu and not is_enough:
        return f"{found[0]}: the ranks share a GPU, which only gloo allows; {found[1]}"
    return f"{found[0]}: {found[1]}" if trial.backend == "gloo" and is_enough else None

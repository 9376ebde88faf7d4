"""What a trial wants of this machine's GPUs, backends and compilers, looked at before anything is started."""

import os
import shlex
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from importlib.util import find_spec
from typing import NamedTuple

from ddptui import gpus
from ddptui.gpus import VISIBLE, Build, Driver
from ddptui.preset import Preset, Trial
from ddptui.preset_file import PresetError
from ddptui.trial_devices import sends

WITH_CUDA = "`pip install --force-reinstall torch torchvision` (on Linux: with CUDA)"
OLDER = "update the driver, or install a torch for an older CUDA (pytorch.org/get-started)"
HOW_TO_GET_MPI = (
    "only a torch that was built from source on a machine with an MPI library has it; backend = 'gloo' or 'nccl' do "
    "without"
)


class Machine(NamedTuple):
    """What can be known of this machine's GPUs without CUDA. `surely_none`: there is no GPU, of whatever make; `driver`
    and `build`, see gpus.py: None, not known; `visible`: the variable that hides GPUs."""

    surely_none: bool
    driver: Driver | None
    build: Build | None
    visible: str | None


def look() -> Machine:
    return Machine(gpus.surely_none(), gpus.ask(), gpus.built_for(), os.environ.get(VISIBLE))


def check_devices(preset: str, trials: Sequence[Trial]) -> None:
    """Refuse the first of these trials, all ranks of which are on this machine, that its GPUs cannot run. Raises
    PresetError."""
    if not any(map(wants_to_know, trials)):
        return
    machine, otherwise = look(), without_gpus(trials)
    for trial in trials:
        if found := problem(trial, machine, otherwise):
            raise PresetError(f"{preset}, trial {trial.name}: {found}")


def wants_to_know(trial: Trial) -> bool:
    """Whether what this trial does hangs on the GPUs that there are."""
    return needs(trial) is not None or (trial.device == "auto" and trial.gpus_per_rank > 1)


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
    }
    return f"`{' '.join(f'--set {assignment}' for assignment, is_needed in instead.items() if is_needed)}`"


def problem(trial: Trial, machine: Machine, otherwise: str) -> str | None:
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
    return _too_few(trial, there) if needed or trial.gpus_per_rank > 1 else None


def _lacking(machine: Machine) -> tuple[str, str] | None:
    """What stands between ranks and any GPU, and what mends it."""
    driver, build, visible = machine.driver, machine.build, machine.visible
    if machine.surely_none or (driver is not None and not driver.gpus):
        besides = f" ({VISIBLE} is {visible!r}, too: that hides every GPU)" if gpus.is_empty(visible) else ""
        return f"this machine has none{besides}", "run it where there is one (`ddptui doctor` says what a machine has)"
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


def _hidden(machine: Machine) -> str:
    there = len(machine.driver.gpus) if machine.driver else 0
    numbers = "0" if there == 1 else f"0 to {there - 1}"
    return f"{VISIBLE} is {machine.visible!r}, which leaves none of them (here: {numbers}): `unset {VISIBLE}`"


def _too_few(trial: Trial, there: int) -> str | None:
    """Why so many GPUs are not enough."""
    wanted = trial.world_size * trial.gpus_per_rank
    are_there = f"{there} {'is' if there == 1 else 'are'} there"
    if wanted <= there:
        return None
    if trial.launch == "dp":
        return f"world_size: {wanted} replicas want a GPU each, and {are_there}: lower world_size"
    if trial.gpus_per_rank > 1:
        ranks = f"{trial.world_size} {'rank' if trial.world_size == 1 else 'ranks'}"
        what = f"{ranks} of {trial.gpus_per_rank} GPUs each want {wanted}"
        return f"gpus_per_rank: {what}, and {are_there}: lower gpus_per_rank or world_size"
    if not trial.share_gpu:
        also = " with backend = 'auto'" if trial.backend == "nccl" else ""
        return (
            f"world_size: {wanted} ranks want {wanted} GPUs, and {are_there}; NCCL refuses two ranks on one: "
            f"`--set share_gpu=true`{also} lets them share it over gloo, or lower world_size"
        )
    if found := sends(trial):
        return f"{found[0]}: the ranks share a GPU, which only gloo allows; {found[1]}"
    return None


def check_compiler(preset: str, trial: Trial) -> None:
    """torch.compile writes C++, and on GPUs Triton. Raises PresetError where nobody could compile that."""
    if not trial.compile:
        return
    if lacking := no_compiler(os.environ) or (no_triton() if trial.device == "cuda" else ""):
        raise PresetError(f"{preset}, trial {trial.name}: compile: {lacking}, or `--set compile=false`")


def no_compiler(variables: Mapping[str, str]) -> str:
    """Why torch.compile finds no C++ compiler; empty: it does. It takes CXX, or else the system's usual one."""
    usual = "clang++" if sys.platform == "darwin" else "g++"
    words = shlex.split(variables.get("CXX", usual)) or [""]
    if shutil.which(words[0], path=variables.get("PATH")) is not None:
        return ""
    return f"torch.compile needs a C++ compiler, and {words[0]!r} is not there: install g++, or name another with CXX"


def no_triton() -> str:
    if find_spec("triton") is not None:
        return ""
    return "torch.compile needs Triton on a GPU, and it is not installed: `pip install triton`"


def check_mpi(preset: Preset) -> None:
    """Whether this torch has MPI, if a trial wants it: torch alone can tell, in a process of its own. Raises
    PresetError."""
    trial = next((trial for trial in preset.trials if trial.backend == "mpi"), None)
    if trial is not None and "mpi" not in (there := backends()):
        raise PresetError(f"{preset.name}, trial {trial.name}: backend: {no_mpi(there)}")


def no_mpi(there: Sequence[str]) -> str:
    return f"this torch has no mpi (it has {', '.join(there) or 'none'}): {HOW_TO_GET_MPI}"


def backends() -> list[str]:
    """Those of the installed torch. Raises PresetError."""
    from ddptui.doctor.child import Child, NoAnswer  # now: hardly any preset asks

    try:
        with Child("workers.doctor.probe") as child:
            return list(child.ask("versions")["backends"])
    except NoAnswer as why:
        raise PresetError(f"torch cannot be imported: {why}; `ddptui doctor` says more") from None

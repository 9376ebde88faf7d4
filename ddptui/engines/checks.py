"""Checks before a run starts: this machine has what its trials need, torch and data are installed. Preflight and
the doctor make them."""

import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import msgspec
import psutil

from ddptui.config.catalog import ONE_PROCESS
from ddptui.config.parser import PresetError
from ddptui.config.preset import Preset, fit_to_engine, links_of, start_of
from ddptui.config.trial import Trial, TrialError, is_own, own_codes
from ddptui.engines.gpu_checks import ABOUT_GPUS, OUR_MODELS, check_gpus
from ddptui.engines.local import links
from ddptui.host.folders import expanded, user_data
from ddptui.host.machine import allow_open_files, installed, too_old_torch
from ddptui.host.network import NetworkError, choose_interface
from ddptui.host.source import problem_of
from ddptui.text.words import MB, NEWER_TORCH, did_you_mean

# Lower bounds for the memory of a rank, to reject only hopeless trials. Measured: 390 to 600 MB with torch 2.15 for the
# CPU; 28 MB each for 64 ranks forked from a parent with all imports (PSS, torch 2.14).
RANK_MB, FORKED_MB = 300, 25
DATA_VARIABLE = "DDPTUI_DATA"
IDX = [f"{part}-{what}-ubyte" for part in ("train", "t10k") for what in ("images-idx3", "labels-idx1")]
FILES = {  # files of each dataset within the data folder, in torchvision's layout
    "mnist": [f"MNIST/raw/{name}" for name in IDX],
    "fashion_mnist": [f"FashionMNIST/raw/{name}" for name in IDX],
    "cifar10": [f"cifar-10-batches-py/{name}" for name in ("data_batch_1", "test_batch", "batches.meta")],
}
FEWEST_FILES = 4096  # smallest limit to suggest, if the limit has to be raised anyway


class Requirement(NamedTuple):
    """A requirement that trials may have, and how to check it."""

    field: str  # the field of the trial that causes the requirement, as a prefix: "compile: "; may be empty
    applies: Callable[[Trial], object]  # returns a true value if the trial has the requirement
    probe: Callable[[Trial], str | None]  # why the requirement is not met, and what to do; None or empty: it is met
    remedy: str = ""  # an alternative remedy: how to change the trial


def check_trial(preset: str, trial: Trial, names: Iterable[str]) -> None:
    """Raises PresetError if this machine cannot run a trial, whose ranks are all local. names: the keys of CHECKS to
    use."""
    for check in map(CHECKS.__getitem__, names):
        if check.applies(trial) and (why := check.probe(trial)):
            raise PresetError(f"{preset}, trial {trial.name}: {check.field}{why}{check.remedy}")


def torch_problem() -> tuple[str, str] | None:
    """Why no rank can run with this Python's torch, and the remedy; None if there is no known problem."""
    if missing := [package for package in ("torch", "torchvision") if find_spec(package) is None]:
        are = "is" if len(missing) == 1 else "are"
        return f"{' and '.join(missing)} {are} not installed", f"`pip install {' '.join(missing)}`"
    if problem := too_old_torch(torch := installed("torch")):
        return f"torch {torch} is {problem}", f"`{NEWER_TORCH}`"
    return None


def check_temporary_folder() -> None:
    """Raises PresetError if temporary files cannot be written. The console's socket is one."""
    try:
        with tempfile.TemporaryDirectory(prefix="ddptui-"):
            return
    except OSError as error:
        why = f"{os.environ.get('TMPDIR', '/tmp')}: temporary files cannot be written ({error.strerror})"
        raise PresetError(f"{why}: set TMPDIR to a writable folder") from None


def no_compiler(trial: Trial) -> str | None:
    """Why torch.compile cannot compile the code that it generates (C++, on GPUs Triton); None: it can."""
    default = "clang++" if sys.platform == "darwin" else "g++"
    compiler = os.environ.get("CXX", default).partition(" ")[0]  # CXX may hold options, or a wrapper such as ccache
    if shutil.which(compiler) is None:
        return f"torch.compile needs a C++ compiler, but {compiler!r} is missing: install g++, or set CXX to another"
    if trial.device == "cuda" and find_spec("triton") is None:
        return "torch.compile needs Triton on a GPU, but it is not installed: `pip install triton`"
    return None


def too_little_memory(trial: Trial) -> str | None:
    """An error if this machine certainly has too little memory for a trial; else None."""
    mb = _memory_mb(trial)
    available = (psutil.virtual_memory().total + psutil.swap_memory().total) // MB  # total: used memory may be freed
    if mb <= available:
        return None
    fields = "world_size" + " or max_bytes" * bool(trial.primitives) + " or num_workers" * bool(trial.num_workers)
    return f"{trial.world_size} ranks need at least {mb:,} MB, but this machine has {available:,} MB: lower {fields}"


def _memory_mb(trial: Trial) -> int:
    """A lower bound for the memory of a trial's ranks, in MB."""
    processes = 1 if trial.launch in ONE_PROCESS else trial.world_size  # the replicas of `dp` are threads
    is_forked = start_of(trial)[0] == "warm" or (trial.launch != "launch" and trial.start_method != "spawn")
    mb = processes * ((FORKED_MB if is_forked else RANK_MB) + trial.num_workers * RANK_MB)
    if trial.primitives != "measure":
        return mb
    # Measured primitives: a rank has two tensors of each size, which together are at most four of the largest. A rank
    # that gathers the tensors of all ranks needs one more for each rank.
    gathers = trial.world_size if "all_gather" in trial.composites else "gather_scatter" in trial.composites
    return mb + trial.world_size * (4 + gathers) * trial.max_bytes // MB


def too_few_files(trial: Trial) -> str | None:
    """An error if this machine allows a process too few open files for a trial; else None. Raises the limit of this
    process, which ranks inherit, as far as needed and possible."""
    wanted = files_needed(trial)
    if (allowed := allow_open_files(wanted)) >= wanted:
        return None
    raise_it = f"raise `nofile` in /etc/security/limits.conf (a container: --ulimit nofile={max(FEWEST_FILES, wanted)})"
    return f"{trial.world_size} ranks need {wanted} open files per process, but {allowed} are allowed: {raise_it}"


def files_needed(trial: Trial) -> int:
    """The number of file descriptors that the busiest process of a trial needs, with a margin."""
    # measured with 2 to 16 ranks: a launcher needs 16 + 3 per rank, a forked rank 28 + 3 per rank, `dp` 4 + 7 per
    # replica
    return 16 + 8 * trial.world_size if trial.launch == "dp" else 32 + 4 * trial.world_size


def no_model(trial: Trial) -> str | None:
    """An error if the model of a trial does not exist; else None."""
    known = [*OUR_MODELS, *torchvision_models()]
    if is_own(trial.model) or trial.model in known:
        return None
    kinds = f"one of {', '.join(OUR_MODELS)}, torchvision's, or your own as file.py:name"
    return f"no model {trial.model!r}; " + did_you_mean(trial.model, known, kinds)


def no_own_code(trial: Trial) -> str | None:
    """An error if the user's own code, which a trial names, cannot be used; else None."""
    problems = ((path, problem_of(own)) for path, own in own_codes(trial).items())
    return next((f"{path}: {problem}" for path, problem in problems if problem), None)


@cache
def torchvision_models() -> tuple[str, ...]:
    """The names of torchvision's classification models, read from its source: importing it would import torch."""
    torchvision = find_spec("torchvision")
    if torchvision is None or torchvision.origin is None:
        return ()
    registered = re.compile(r"^@register_model\(.*?\)\n(?:@.*\n)*def (\w+)\(", re.MULTILINE)
    sources = sorted((Path(torchvision.origin).parent / "models").glob("*.py"))
    return tuple(name for path in sources for name in registered.findall(path.read_text(encoding="utf-8")))


def no_data(trial: Trial) -> str | None:
    """An error if a file of the trial's dataset is missing; else None."""
    folder = data_folder(trial)
    missing = next((name for name in FILES[trial.dataset] if not (folder / name).is_file()), None)
    return missing and (
        f"dataset {trial.dataset} is not in {folder} ({missing} is missing): download it with `--set download=true`, "
        f"or copy the files there (another folder: `--set data_dir=FOLDER`, or {DATA_VARIABLE})"
    )


def data_folder(trial: Trial) -> Path:
    """The folder of a trial's dataset: its data_dir, else DDPTUI_DATA, else the user's data folder."""
    named = trial.data_dir or os.environ.get(DATA_VARIABLE)
    return expanded(named) if named else user_data("data")


CHECKS = {
    "memory": Requirement("world_size: ", lambda _: True, too_little_memory),
    "open files": Requirement("world_size: ", lambda _: True, too_few_files, ", or lower world_size"),
    "model": Requirement("model: ", lambda _: True, no_model),
    "own code": Requirement("", own_codes, no_own_code),
    "links' tools": Requirement("bottleneck: ", links_of, lambda _: links.problem(try_it=False)),
    "slow links": Requirement("bottleneck: ", links_of, lambda _: links.problem()),
    "compiler": Requirement("compile: ", lambda trial: trial.compile, no_compiler, ", or `--set compile=false`"),
    "data": Requirement("", lambda trial: trial.dataset in FILES and not trial.download, no_data),
}


# Checks for engines whose ranks run elsewhere. Slurm's nodes see the same folders; models are known to the console.
ELSEWHERE = {"slurm": ("model", "own code", "data"), "join": ("model", "own code")}
ONLY_TO_START = "slow links"  # this check creates a link, so it is made only before a start


def prepare(preset: Preset, *, to_be_started: bool = True) -> Preset:
    """Check a preset. Returns it with the absolute data folder of each trial. to_be_started: False: the preset is only
    shown, so engine and devices need not be available. Raises PresetError if it cannot run here."""
    if problem := torch_problem():
        raise PresetError(": ".join(problem))
    check_temporary_folder()
    try:
        preset = fit_to_engine(preset)
    except TrialError as error:
        raise PresetError(f"{preset.name}: {error}") from None
    if to_be_started:
        _check_engine(preset)
        _check_devices(preset)
    names = ELSEWHERE.get(preset.engine.name, [*CHECKS])
    for trial in preset.trials:
        check_trial(preset.name, trial, [name for name in names if to_be_started or name != ONLY_TO_START])
    trials = map(_with_data, preset.trials) if "data" in names else preset.trials
    return msgspec.structs.replace(preset, trials=tuple(trials))


def why_not_here(preset: Preset) -> str:
    """Why a preset can never run on this machine; empty if it can, once the user's own code is there. Starts
    nothing."""
    trials = tuple(trial for trial in preset.trials if not own_codes(trial))
    try:
        if trials:
            _check_devices(prepare(msgspec.structs.replace(preset, trials=trials), to_be_started=False))
    except PresetError as error:
        return str(error)
    return ""


def prepare_trial(trial: Trial, local_ranks: int) -> Trial:
    """Check a trial from a console on another host, of which this node runs local_ranks ranks. Returns the trial with
    this host's data folder. Raises PresetError."""
    if trial.data_dir is not None and not os.path.isdir(trial.data_dir):  # a folder of the console's host
        trial = msgspec.structs.replace(trial, data_dir=None)
    local_part = msgspec.structs.replace(trial, world_size=local_ranks)
    check_gpus("here", [local_part], or_cpu=False)  # only the console knows the other trials and ranks
    check_trial("here", local_part, CHECKS)
    return _with_data(trial)


def _with_data(trial: Trial) -> Trial:
    """The trial with the absolute folder of its dataset, if that consists of files."""
    return msgspec.structs.replace(trial, data_dir=str(data_folder(trial))) if trial.dataset in FILES else trial


def _check_devices(preset: Preset) -> None:
    """Raises PresetError if this host lacks the GPUs that ranks here need."""
    if preset.engine.name == "local":
        check_gpus(preset.name, preset.trials, or_cpu=preset.group != ABOUT_GPUS)


def _check_engine(preset: Preset) -> None:
    """Raises PresetError if the run's engine cannot start launches from this host."""
    engine = preset.engine
    if engine.name == "local":
        return
    try:
        choose_interface(engine.interface)  # the interface by which the ranks reach the console
    except NetworkError as error:
        raise PresetError(f"--engine {engine.name}: {error}") from None
    if engine.name == "slurm":
        from ddptui.engines.slurm.job import refusal  # imported late: most runs are local

        if why := refusal(engine):
            raise PresetError(f"--engine slurm: {why}")
        return
    in_a_file = [trial.name for trial in preset.trials if trial.init_method == "file"]
    if engine.shared is None and in_a_file:
        where = f"{preset.name}, trial {in_a_file[0]}: init_method"
        raise PresetError(f"{where}: 'file' needs a folder that all nodes see: name it with --shared DIR")
    if engine.shared is not None and not os.path.isdir(engine.shared):
        raise PresetError(f"--shared {engine.shared}: no such folder here: name one that all nodes see")

"""Checks before anything starts: torch is installed, the model and the data are there, the machine is large enough."""

import os
import re
import sys
from functools import cache
from importlib.machinery import PathFinder
from importlib.util import find_spec
from pathlib import Path

import msgspec

from ddptui.config.parser import PresetError
from ddptui.config.preset import Preset, fit_to_engine
from ddptui.config.trial import Trial, TrialError, is_own_model
from ddptui.engines.checks import check_temporary_folder, check_trial, torch_problem
from ddptui.engines.preflight_gpus import ABOUT_GPUS, OUR_MODELS, check_gpus
from ddptui.host.folders import expanded, module_folders, user_data
from ddptui.host.network import NetworkError, choose_interface
from ddptui.text.words import did_you_mean

DATA_VARIABLE = "DDPTUI_DATA"
IDX = [f"{part}-{what}-ubyte" for part in ("train", "t10k") for what in ("images-idx3", "labels-idx1")]
FILES = {  # below the data folder, in torchvision's layout
    "mnist": [f"MNIST/raw/{name}" for name in IDX],
    "fashion_mnist": [f"FashionMNIST/raw/{name}" for name in IDX],
    "cifar10": [f"cifar-10-batches-py/{name}" for name in ("data_batch_1", "test_batch", "batches.meta")],
}


def prepare(preset: Preset, *, to_be_started: bool = True) -> Preset:
    """The preset, checked, with the absolute data folder of each trial. Raises PresetError for what cannot run here."""
    if problem := torch_problem():
        raise PresetError(": ".join(problem))
    check_temporary_folder()
    try:
        preset = fit_to_engine(preset)
    except TrialError as error:
        raise PresetError(f"{preset.name}: {error}") from None
    is_local = preset.engine.name == "local"  # only this host can be looked at
    if to_be_started:  # else it is only shown, so that engine and devices need not be there
        _check_engine(preset)
        if is_local:
            check_gpus(preset.name, preset.trials, or_cpu=preset.group != ABOUT_GPUS)
    has_data = preset.engine.name != "join"  # Slurm's nodes see the same folders; nodes that join have their own
    trials = []
    for trial in preset.trials:
        if is_local:
            check_trial(preset.name, trial, to_be_started=to_be_started)
        trials.append(_prepare(preset.name, trial, has_data=has_data))
    return msgspec.structs.replace(preset, trials=tuple(trials))


def prepare_trial(trial: Trial, local_ranks: int) -> Trial:
    """A trial from a console on another host, checked on a node with `local_ranks` ranks of it. Raises PresetError."""
    local_part = msgspec.structs.replace(trial, world_size=local_ranks)
    check_gpus("here", [local_part], or_cpu=False)  # only the console knows the question, and the other ranks
    check_trial("here", local_part)
    if trial.data_dir is not None and not os.path.isdir(trial.data_dir):  # the console's folder: then this host's own
        trial = msgspec.structs.replace(trial, data_dir=None)
    return _prepare("here", trial)


def _check_engine(preset: Preset) -> None:
    """Raises PresetError if the run's engine cannot start launches from this host."""
    engine = preset.engine
    if engine.name == "local":
        return
    try:
        choose_interface(engine.interface)  # by which the ranks reach the console
    except NetworkError as error:
        raise PresetError(f"--engine {engine.name}: {error}") from None
    if engine.name == "slurm":
        from ddptui.engines.slurm.job import refusal  # here: most runs are local

        if why := refusal(engine):
            raise PresetError(f"--engine slurm: {why}")
        return
    in_a_file = [trial.name for trial in preset.trials if trial.init_method == "file"]
    if engine.shared is None and in_a_file:
        where = f"{preset.name}, trial {in_a_file[0]}: init_method"
        raise PresetError(f"{where}: 'file' needs a folder that all nodes see: name it with --shared DIR")
    if engine.shared is not None and not os.path.isdir(engine.shared):
        raise PresetError(f"--shared {engine.shared}: no such folder here: name one that all nodes see")


def _prepare(preset: str, trial: Trial, *, has_data: bool = True) -> Trial:
    if problem := _problem_with_model(trial.model):
        raise PresetError(f"{preset}, trial {trial.name}: model: {problem}")
    if trial.dataset not in FILES or not has_data:
        return trial
    folder = data_folder(trial)
    missing = [name for name in FILES[trial.dataset] if not (folder / name).is_file()]
    if missing and not trial.download:
        what = f"dataset {trial.dataset} is not in {folder} ({missing[0]} is missing)"
        raise PresetError(
            f"{preset}, trial {trial.name}: {what}: download it with `--set download=true`, or copy the files there "
            f"(another folder: `--set data_dir=FOLDER`, or {DATA_VARIABLE})"
        )
    return msgspec.structs.replace(trial, data_dir=str(folder))


def _problem_with_model(model: str) -> str:
    """Why there is no such model; empty: there is one."""
    if is_own_model(model):  # looked for, but never imported here: it would import torch
        module = model.partition(":")[0].partition(".")[0]
        where = "put its folder on PYTHONPATH (`export PYTHONPATH=FOLDER`)"
        return "" if _can_be_imported(module) else f"no module {module!r} for {model!r}: {where}"
    known = [*OUR_MODELS, *torchvision_models()]
    if model in known:
        return ""
    kinds = f"one of {', '.join(OUR_MODELS)}, torchvision's, or your own as 'module:attribute'"
    return f"no model {model!r}; " + did_you_mean(model, known, kinds)


def _can_be_imported(module: str) -> bool:
    """Whether a rank will find this module."""
    here = ("", os.getcwd())  # a rank starts in another folder
    folders = [*module_folders(), *(folder for folder in sys.path if folder not in here)]
    if PathFinder.find_spec(module, folders) is not None:
        return True
    others = (finder for finder in sys.meta_path if finder is not PathFinder)  # built-in modules, editable installs
    return any(finder.find_spec(module, None) is not None for finder in others)


def data_folder(trial: Trial) -> Path:
    """The folder of a trial's dataset: its data_dir, else DDPTUI_DATA, else the user's data folder."""
    named = trial.data_dir or os.environ.get(DATA_VARIABLE)
    return expanded(named) if named else user_data("data")


@cache
def torchvision_models() -> tuple[str, ...]:
    """torchvision's classification models, read from its source, because importing torchvision imports torch."""
    torchvision = find_spec("torchvision")
    if torchvision is None or torchvision.origin is None:
        return ()
    registered = re.compile(r"^@register_model\(.*?\)\n(?:@.*\n)*def (\w+)\(", re.MULTILINE)
    sources = sorted((Path(torchvision.origin).parent / "models").glob("*.py"))
    return tuple(name for path in sources for name in registered.findall(path.read_text(encoding="utf-8")))

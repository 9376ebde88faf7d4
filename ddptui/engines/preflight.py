"""What can be checked before anything is started: is the data there, does the model exist, is torch installed, is there
room for that many ranks?"""

import os
import re
import sys
from functools import cache
from importlib.machinery import PathFinder
from importlib.util import find_spec
from pathlib import Path

import msgspec
import platformdirs

from ddptui.config.engine import links_of
from ddptui.config.parser import PresetError
from ddptui.config.preset import Preset, fit_to_engine
from ddptui.config.trial import Trial, TrialError, is_own_model
from ddptui.engines.command import module_folders
from ddptui.engines.local import links
from ddptui.engines.preflight_gpus import OUR_MODELS, check_gpus
from ddptui.engines.preflight_machine import check_compiler, check_mpi, check_room, check_temporary_folder
from ddptui.host.network import NetworkError, choose_interface
from ddptui.text.words import did_you_mean

DATA_VARIABLE = "DDPTUI_DATA"
IDX = [f"{part}-{what}-ubyte" for part in ("train", "t10k") for what in ("images-idx3", "labels-idx1")]
FILES = {  # below the data folder, as torchvision lays them out
    "mnist": [f"MNIST/raw/{name}" for name in IDX],
    "fashion_mnist": [f"FashionMNIST/raw/{name}" for name in IDX],
    "cifar10": [f"cifar-10-batches-py/{name}" for name in ("data_batch_1", "test_batch", "batches.meta")],
}


def prepare(preset: Preset, *, to_be_started: bool = True) -> Preset:
    """The preset with every trial's data folder made absolute, and this process allowed the files that the ranks of the
    largest want open. Raises PresetError for what cannot run here."""
    for package in ("torch", "torchvision"):
        if find_spec(package) is None:
            raise PresetError(f"{package} is not installed: `pip install {package}`")
    check_temporary_folder()
    try:
        preset = fit_to_engine(preset)
    except TrialError as error:
        raise PresetError(f"{preset.name}: {error}") from None
    here = preset.engine.name == "local"
    if to_be_started:
        _check_engine(preset)
        check_mpi(preset)
        if here:
            check_gpus(preset.name, preset.trials)
    there_too = preset.engine.name != "join"  # jobs of Slurm see the folders that this host does
    for trial in preset.trials if here else ():
        check_room(preset.name, trial)
    return msgspec.structs.replace(
        preset, trials=tuple(_prepare(preset.name, trial, here=here, data_is_here=there_too) for trial in preset.trials)
    )


def prepare_trial(trial: Trial, ranks_here: int) -> Trial:
    """A trial of a run whose console is elsewhere, checked on the node that starts so many ranks of it: data lies where
    the console says, or where this host keeps it. Raises PresetError."""
    of_here = msgspec.structs.replace(trial, world_size=ranks_here)
    check_room("here", of_here)
    check_gpus("here", [of_here])
    elsewhere = trial.data_dir is not None and not os.path.isdir(trial.data_dir)
    return _prepare("here", msgspec.structs.replace(trial, data_dir=None) if elsewhere else trial, here=True)


def _check_engine(preset: Preset) -> None:
    """Whether the run's engine can do anything from here. Raises PresetError."""
    engine = preset.engine
    try:
        match engine.name:
            case "join":
                choose_interface(engine.interface)
                over_a_file = [trial.name for trial in preset.trials if trial.init_method == "file"]
                if engine.shared is None and over_a_file:
                    raise PresetError(
                        f"{preset.name}, trial {over_a_file[0]}: init_method: 'file' wants a folder that all see: "
                        "--shared DIR"
                    )
                if engine.shared is not None and not os.path.isdir(engine.shared):
                    raise PresetError(f"--shared {engine.shared}: no such folder here; all nodes have to see it")
            case "slurm":
                from ddptui.engines.slurm.check import check

                choose_interface(engine.interface)
                check(engine)
    except NetworkError as error:
        raise PresetError(f"--engine {engine.name}: {error}") from None


def _prepare(preset: str, trial: Trial, *, here: bool, data_is_here: bool = True) -> Trial:
    if problem := _problem_with_model(trial.model):
        raise PresetError(f"{preset}, trial {trial.name}: model: {problem}")
    if here and links_of(trial) and (no_link := links.problem()):
        raise PresetError(f"{preset}, trial {trial.name}: bottleneck: {no_link}")
    if here:
        check_compiler(preset, trial)
    if trial.dataset not in FILES or not data_is_here:
        return trial
    folder = data_folder(trial)
    missing = [name for name in FILES[trial.dataset] if not (folder / name).is_file()]
    if missing and not trial.download:
        raise PresetError(
            f"{preset}, trial {trial.name}: dataset {trial.dataset} is not in {folder} ({missing[0]} is missing): "
            f"let torchvision fetch it with `--set download=true`, or put the files there yourself "
            f"(another folder: `--set data_dir=FOLDER`, or {DATA_VARIABLE})"
        )
    return msgspec.structs.replace(trial, data_dir=str(folder))


def _problem_with_model(model: str) -> str:
    """Why there is no such model; empty: there is. A model of the user's own is looked for, never imported here."""
    if is_own_model(model):
        module = model.partition(":")[0].partition(".")[0]
        where = "put its folder on PYTHONPATH (`export PYTHONPATH=FOLDER`)"
        return "" if _can_be_imported(module) else f"no module {module!r} for {model!r}: {where}"
    known = [*OUR_MODELS, *torchvision_models()]
    if model in known:
        return ""
    kinds = f"one of {', '.join(OUR_MODELS)}, torchvision's, or your own as 'module:attribute'"
    return f"no model {model!r}; " + did_you_mean(model, known, kinds)


def _can_be_imported(module: str) -> bool:
    """Whether a rank will find a module that is in no package: where the ranks look, which is not in this folder."""
    folders = [*module_folders(), *(folder for folder in sys.path if folder not in ("", os.getcwd()))]
    others = (finder for finder in sys.meta_path if finder is not PathFinder)  # what is built in, or installed editable
    found = PathFinder.find_spec(module, folders) or next(
        filter(None, (finder.find_spec(module, None) for finder in others)), None
    )
    return found is not None


def data_folder(trial: Trial) -> Path:
    """Where a trial's dataset is: as it says, or DDPTUI_DATA, or the user's data folder."""
    named = trial.data_dir or os.environ.get(DATA_VARIABLE)
    return Path(os.path.expanduser(named)).absolute() if named else platformdirs.user_data_path("ddptui") / "data"


@cache
def torchvision_models() -> tuple[str, ...]:
    """The classification models that torchvision registers, read from its source: importing it would import torch."""
    torchvision = find_spec("torchvision")
    if torchvision is None or torchvision.origin is None:
        return ()
    registered = re.compile(r"^@register_model\(.*?\)\n(?:@.*\n)*def (\w+)\(", re.MULTILINE)
    sources = sorted((Path(torchvision.origin).parent / "models").glob("*.py"))
    return tuple(name for path in sources for name in registered.findall(path.read_text(encoding="utf-8")))

"""What can be checked before anything is started: is the data there, does the model exist, is torch installed?"""

import os
import re
import sys
from difflib import get_close_matches
from functools import cache
from glob import glob
from importlib.util import find_spec
from pathlib import Path

import msgspec
import platformdirs

from ddptui.preset import Preset, Trial
from ddptui.preset_file import PresetError

OUR_MODELS = ("net", "mlp", "linears")
DATA_VARIABLE = "DDPTUI_DATA"
IDX = [f"{part}-{what}-ubyte" for part in ("train", "t10k") for what in ("images-idx3", "labels-idx1")]
FILES = {  # below the data folder, as torchvision lays them out
    "mnist": [f"MNIST/raw/{name}" for name in IDX],
    "fashion_mnist": [f"FashionMNIST/raw/{name}" for name in IDX],
    "cifar10": [f"cifar-10-batches-py/{name}" for name in ("data_batch_1", "test_batch", "batches.meta")],
}


GPU_DEVICES = ("/dev/nvidia[0-9]*", "/dev/dxg", "/dev/kfd")  # NVIDIA's, through WSL, AMD's


def settle(preset: Preset) -> Preset:
    """The preset with every trial's data folder made absolute. Raises PresetError for what cannot run here."""
    for package in ("torch", "torchvision"):
        if find_spec(package) is None:
            raise PresetError(f"{package} is not installed: `pip install {package}`")
    return msgspec.structs.replace(preset, trials=tuple(_settle(preset.name, trial) for trial in preset.trials))


def _settle(preset: str, trial: Trial) -> Trial:
    if trial.model not in OUR_MODELS and trial.model not in (known := torchvision_models()):
        close = get_close_matches(trial.model, [*OUR_MODELS, *known], n=1)
        suggestion = f"; did you mean {close[0]!r}?" if close else ""
        raise PresetError(f"{preset}, trial {trial.name}: model: no model {trial.model!r}{suggestion}")
    if trial.sync_batchnorm and surely_no_gpu():
        raise PresetError(
            f"{preset}, trial {trial.name}: sync_batchnorm: torch's SyncBatchNorm runs on GPUs only, and this machine "
            "has none; leave it out here"
        )
    if trial.dataset not in FILES:
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


def surely_no_gpu() -> bool:
    """Whether there is no device file of any GPU. Elsewhere than on Linux we cannot tell without torch."""
    return sys.platform == "linux" and not any(glob(pattern) for pattern in GPU_DEVICES)


def data_folder(trial: Trial) -> Path:
    """Where a trial's dataset is: as it says, or DDPTUI_DATA, or the user's data folder."""
    chosen = trial.data_dir or os.environ.get(DATA_VARIABLE)
    return Path(os.path.expanduser(chosen)).absolute() if chosen else platformdirs.user_data_path("ddptui") / "data"


@cache
def torchvision_models() -> tuple[str, ...]:
    """The classification models that torchvision registers, read from its source: importing it would import torch."""
    torchvision = find_spec("torchvision")
    if torchvision is None or torchvision.origin is None:
        return ()
    registered = re.compile(r"^@register_model\(.*?\)\n(?:@.*\n)*def (\w+)\(", re.MULTILINE)
    sources = sorted((Path(torchvision.origin).parent / "models").glob("*.py"))
    return tuple(name for path in sources for name in registered.findall(path.read_text(encoding="utf-8")))

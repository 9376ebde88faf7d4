"""What a trial wants of the installed torch: a compiler for it, or MPI in it. Looked at before anything is started."""

import os
import shlex
import shutil
import sys
from collections.abc import Mapping, Sequence
from importlib.util import find_spec

from ddptui.config.parser import PresetError
from ddptui.config.preset import Preset
from ddptui.config.trial import Trial
from ddptui.text.torch_remedies import WHO_HAS_MPI


def check_compiler(preset: str, trial: Trial) -> None:
    """torch.compile writes C++, and on GPUs Triton. Raises PresetError where nobody could compile that."""
    if not trial.compile:
        return
    if lacking := no_compiler(os.environ) or (no_triton() if trial.device == "cuda" else ""):
        raise PresetError(f"{preset}, trial {trial.name}: compile: {lacking}, or `--set compile=false`")


def no_compiler(variables: Mapping[str, str]) -> str:
    """Why torch.compile finds no C++ compiler; empty: it does. It takes CXX, or else the system's usual one."""
    usual = "clang++" if sys.platform == "darwin" else "g++"
    try:
        words = shlex.split(variables.get("CXX", usual)) or [""]
    except ValueError as why:
        return f"CXX is {variables['CXX']!r}, which cannot be read: {why}; name a C++ compiler, or `unset CXX`"
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
    return f"this torch has no mpi (it has {', '.join(there) or 'none'}): {WHO_HAS_MPI}; gloo and nccl do without"


def backends() -> list[str]:
    """Those of the installed torch. Raises PresetError."""
    from ddptui.host.rank_side import Child, NoAnswer  # now: hardly any preset asks

    try:
        with Child("workers.doctor.probe") as child:
            return list(child.ask("versions")["backends"])
    except NoAnswer as why:
        raise PresetError(f"torch cannot be imported: {why}; `ddptui doctor` says more") from None

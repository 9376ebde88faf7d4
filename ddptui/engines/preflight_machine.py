"""What a trial needs of this machine besides GPUs: memory, open files, a temporary folder, a compiler, MPI."""

import os
import shlex
import shutil
import sys
import tempfile
from collections.abc import Mapping
from importlib.util import find_spec

import psutil

from ddptui.config.launch_modes import ONE_PROCESS
from ddptui.config.parser import PresetError
from ddptui.config.preset import Preset
from ddptui.config.start import start_of
from ddptui.config.trial import Trial
from ddptui.host.machine import allow_open_files
from ddptui.text.units import MB
from ddptui.text.words import WHO_HAS_MPI

# What a rank takes of its own: 390 to 600 MB were measured with torch 2.15 for the CPU. Forked from a parent with all
# imports, 64 ranks took 28 MB each (PSS, torch 2.14). This is to refuse only what is hopeless.
RANK_MB, FORKED_MB = 300, 25


def check_compiler(preset: str, trial: Trial) -> None:
    """Raises PresetError if torch.compile has no compiler for what it generates: C++, and on GPUs Triton."""
    if not trial.compile:
        return
    lacking = no_compiler(os.environ)
    if not lacking and trial.device == "cuda" and find_spec("triton") is None:
        lacking = "torch.compile needs Triton on a GPU, but it is not installed: `pip install triton`"
    if lacking:
        raise PresetError(f"{preset}, trial {trial.name}: compile: {lacking}, or `--set compile=false`")


def no_compiler(variables: Mapping[str, str]) -> str:
    """Why torch.compile finds no C++ compiler; empty: it does. It uses CXX, else the system's default one."""
    usual = "clang++" if sys.platform == "darwin" else "g++"
    try:
        words = shlex.split(variables.get("CXX", usual)) or [""]  # CXX may hold options, or a wrapper such as ccache
    except ValueError as why:
        return f"CXX is {variables['CXX']!r}, which cannot be parsed: {why}; set it to a C++ compiler, or `unset CXX`"
    if shutil.which(words[0], path=variables.get("PATH")) is not None:
        return ""
    return f"torch.compile needs a C++ compiler, but {words[0]!r} is missing: install g++, or set CXX to another"


def check_mpi(preset: Preset) -> None:
    """Raises PresetError if a trial uses MPI and this torch has none. A separate process imports torch to find out."""
    trial = next((trial for trial in preset.trials if trial.backend == "mpi"), None)
    if trial is not None and "mpi" not in (available := backends()):
        has = f"this torch has no mpi (it has {', '.join(available) or 'none'})"
        raise PresetError(f"{preset.name}, trial {trial.name}: backend: {has}: {WHO_HAS_MPI}; gloo and nccl need none")


def backends() -> list[str]:
    """The backends of the installed torch. Raises PresetError."""
    from ddptui.host.rank_side import Child, NoAnswer  # here: hardly any preset needs it

    try:
        with Child("workers.doctor.probe") as child:
            return list(child.ask("backends")["backends"])
    except NoAnswer as why:
        raise PresetError(f"torch cannot be imported: {why}; `ddptui doctor` says more") from None


def check_temporary_folder() -> None:
    """Raises PresetError if temporary files cannot be written: the console's socket is one."""
    try:
        with tempfile.TemporaryDirectory(prefix="ddptui-"):
            return
    except OSError as error:
        why = f"{os.environ.get('TMPDIR', '/tmp')}: temporary files cannot be written ({error.strerror})"
        raise PresetError(f"{why}: set TMPDIR to a writable folder") from None


def check_room(preset: str, trial: Trial) -> None:
    """Raises PresetError if this machine certainly has too little memory, or allows too few open files."""
    mb, where = _memory_mb(trial), f"{preset}, trial {trial.name}: world_size: {trial.world_size} ranks need"
    available = (psutil.virtual_memory().total + psutil.swap_memory().total) // MB  # total: what is in use may be freed
    if mb > available:
        fields = "world_size" + " or max_bytes" * bool(trial.primitives) + " or num_workers" * bool(trial.num_workers)
        raise PresetError(f"{where} at least {mb:,} MB, but this machine has {available:,} MB: lower {fields}")
    wanted = open_files(trial)
    if (allowed := allow_open_files(wanted)) < wanted:
        but = f"{wanted} open files per process, but {allowed} are allowed"
        raise PresetError(f"{where} {but}: run `ulimit -n {wanted}`, or lower world_size")


def _memory_mb(trial: Trial) -> int:
    """The least memory that the ranks of a trial need, in MB."""
    processes = 1 if trial.launch in ONE_PROCESS else trial.world_size  # the replicas of `dp` are threads of one
    is_forked = start_of(trial)[0] == "warm" or (trial.launch != "launch" and trial.start_method != "spawn")
    mb = processes * ((FORKED_MB if is_forked else RANK_MB) + trial.num_workers * RANK_MB)
    if trial.primitives != "measure":
        return mb
    # Measured primitives: a rank has two tensors of each size, up to four of the largest in all. Where each rank, or
    # the root, gathers the tensors of all ranks, it has as many more.
    gathers = trial.world_size if "all_gather" in trial.composites else "gather_scatter" in trial.composites
    return mb + trial.world_size * (4 + gathers) * trial.max_bytes // MB


def open_files(trial: Trial) -> int:
    """How many file descriptors the busiest process of a trial needs, with a margin."""
    # measured with 2 to 16 ranks: a launcher has 16, and 3 a rank; a forked rank 28, and 3 a rank; `dp` 4, and 7 a
    # replica
    return 16 + 8 * trial.world_size if trial.launch == "dp" else 32 + 4 * trial.world_size

"""How ranks are started: a file a launch mode renders the command, local.py runs it on this host."""

import os
import sys
from collections.abc import Callable

from ddptui.lab_root import lab_root
from ddptui.launch import dp, launch, process, single, spawn
from ddptui.preset import Trial, threads_a_rank

MODES: dict[str, Callable[[str, Trial], list[str]]] = {
    "single": single.command,
    "dp": dp.command,
    "process": process.command,
    "launch": launch.command,
    "spawn": spawn.command,
}

LABELS = {
    "single": "one process, no group",
    "dp": "nn.DataParallel; without GPUs: threads, CPU stand-in",
    "process": "mp.Process",
    "launch": launch.module(),
    "spawn": "mp.spawn",
}


def command(trial: Trial, python: str = sys.executable) -> list[str]:
    """The exact command line that starts a trial; `environment` has what it needs besides."""
    return MODES[trial.launch](python, trial)


def environment(trial: Trial, cores: int) -> dict[str, str]:
    """What a rank needs in its environment to run by itself: the lab's modules, and its part of the cores."""
    return {"PYTHONPATH": os.pathsep.join(module_folders()), "OMP_NUM_THREADS": str(threads_a_rank(trial, cores))}


def module_folders() -> list[str]:
    """Where a rank looks for modules first: the lab's own folder, then what the user's PYTHONPATH names, from here: a
    rank starts in another folder."""
    named = os.environ.get("PYTHONPATH", "")
    users = [os.path.abspath(folder) for folder in named.split(os.pathsep)] if named else []
    return list(dict.fromkeys([str(lab_root()), *users]))

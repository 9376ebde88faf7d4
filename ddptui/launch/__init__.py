"""How ranks are started: a file a launch mode renders the command, local.py runs it on this host."""

import os
import sys
from collections.abc import Callable

from ddptui.engine import Part
from ddptui.lab_root import lab_root
from ddptui.launch import dp, launch, links, process, single, spawn, task
from ddptui.preset import Trial, threads_a_rank

MODES: dict[str, Callable[[str, Trial], list[str]]] = {
    "single": single.command,
    "dp": dp.command,
    "process": process.command,
    "launch": launch.command,
    "spawn": spawn.command,
    "task": task.command,
}

LABELS = {
    "single": "one process, no group",
    "dp": "nn.DataParallel; without GPUs: threads, CPU stand-in",
    "process": "mp.Process",
    "launch": launch.module(),
    "spawn": "mp.spawn",
    "task": "a task a rank, started by somebody else",
}


def command(trial: Trial, python: str = sys.executable, part: Part | None = None) -> list[str]:
    """The exact command line that starts a trial, or a node's part of it; `environment` has what it needs besides, and
    the part's own. (torch's launcher reads its part from the command line.)"""
    part = part or links.part(trial)
    rendered = launch.command(python, trial, part) if trial.launch == "launch" else MODES[trial.launch](python, trial)
    return links.wrapped(rendered, trial)


def environment(trial: Trial, cores: int, ranks_here: int | None = None) -> dict[str, str]:
    """What a rank needs in its environment to run by itself: the lab's modules, and its part of the cores."""
    threads = threads_a_rank(trial, cores, ranks_here)
    return {"PYTHONPATH": os.pathsep.join(module_folders()), "OMP_NUM_THREADS": str(threads)}


def module_folders() -> list[str]:
    """Where a rank looks for modules first: the lab's own folder, then what the user's PYTHONPATH names, from here: a
    rank starts in another folder."""
    named = os.environ.get("PYTHONPATH", "")
    users = [os.path.abspath(folder) for folder in named.split(os.pathsep)] if named else []
    return list(dict.fromkeys([str(lab_root()), *users]))

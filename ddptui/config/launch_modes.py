"""The launch modes, one entry each: what starts the ranks. The entry point of a mode is `workers/MODE.py`."""

from typing import NamedTuple


class LaunchModeFacts(NamedTuple):
    """What the console knows of a launch mode."""

    label: str  # what screens and tables call it
    one_process: bool = False  # there is no process group: fields that need one have no effect
    by_torch: bool = False  # torch's launcher starts the ranks; else the entry point does
    by_console: bool = True  # the console can start it; else a user does, by hand
    passes_ranks: bool = False  # the launcher states the number of ranks, so it is no argument of the entry point


COMMAND = "command"  # the launch mode of a training that is watched
LAUNCH_MODES = {
    "single": LaunchModeFacts("one process, no group", one_process=True),
    "dp": LaunchModeFacts("nn.DataParallel; without GPUs: threads, CPU stand-in", one_process=True),
    "process": LaunchModeFacts("mp.Process"),
    "launch": LaunchModeFacts("torch.distributed.launch", by_torch=True, passes_ranks=True),
    "spawn": LaunchModeFacts("mp.spawn"),
    "task": LaunchModeFacts("one task per rank, started by hand", by_console=False, passes_ranks=True),
    COMMAND: LaunchModeFacts("your own command, watched"),
}
ONE_PROCESS = tuple(name for name, facts in LAUNCH_MODES.items() if facts.one_process)

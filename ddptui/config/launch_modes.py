"""The launch modes, one entry each. A mode says what starts the ranks; its entry point is `workers/MODE.py`."""

from typing import NamedTuple


class LaunchModeFacts(NamedTuple):
    """The properties of a launch mode."""

    label: str  # its name on screens and in tables
    one_process: bool = False  # no process group, so fields that need one have no effect
    by_torch: bool = False  # torch's launcher starts the ranks; otherwise the entry point starts them
    by_console: bool = True  # the console can start it; otherwise the user starts the ranks by hand
    passes_ranks: bool = False  # the launcher sets the world size, so the entry point takes no argument for it


COMMAND = "command"  # the launch mode of a watched training
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

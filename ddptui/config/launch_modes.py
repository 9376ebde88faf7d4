"""The launch modes, one entry each: what starts the ranks. The entry point of a mode is `workers/MODE.py`."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple


class LaunchModeFacts(NamedTuple):
    """What the console knows of a launch mode."""

    label: str  # what screens and tables call it
    one_process: bool = False  # there is no process group: fields that need one mean nothing
    by_torch: bool = False  # torch's launcher starts the ranks; else the entry point does
    by_console: bool = True  # the console can start it; else a user does, by hand
    passes_ranks: bool = False  # the launcher states the number of ranks, so it is no argument of the entry point
    meaningless: Mapping[str, str] = MappingProxyType({})  # further fields that mean nothing in this mode, and why


COMMAND = "command"  # the launch mode of a training that is watched
LAUNCH_MODES = {
    "single": LaunchModeFacts("one process, no group", one_process=True, meaningless={
        "strategy": "one process has nobody to agree with",
        "world_size": "one process is one rank",
        "start_method": "the process is started directly",
    }),
    "dp": LaunchModeFacts("nn.DataParallel; without GPUs: threads, CPU stand-in", one_process=True, meaningless={
        "strategy": "the gather on the output device is the aggregation",
        "instruments": "its replicas are seen from within their forward, and cannot be left unseen",
        "start_method": "the replicas are threads of one process",
        "compile": "nn.DataParallel copies the model anew in every step, and torch.compile compiles one",
    }),
    "process": LaunchModeFacts("mp.Process"),
    "launch": LaunchModeFacts("torch.distributed.launch", by_torch=True, passes_ranks=True, meaningless={
        "start_method": "torch.distributed.launch starts the ranks itself",
        "init_method": "torch.distributed.launch tells the ranks where they meet",
    }),
    "spawn": LaunchModeFacts("mp.spawn"),
    "task": LaunchModeFacts("one task per rank, started by hand", by_console=False, passes_ranks=True, meaningless={
        "start_method": "a user starts the ranks, as by srun",
    }),
    COMMAND: LaunchModeFacts("your own command, watched"),
}  # fmt: skip
ONE_PROCESS = tuple(name for name, facts in LAUNCH_MODES.items() if facts.one_process)

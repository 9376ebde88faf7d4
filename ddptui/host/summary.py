"""This machine in a few words, for the console's first line. torch is not imported for it."""

import os
import sys
from collections.abc import Mapping
from glob import glob

from ddptui.host import gpus
from ddptui.host.cores import available_cores
from ddptui.text.words import count


def in_short() -> str:
    """As in «2 cores · no GPU · torch 2.15.0»; of GPUs nothing where only torch could tell."""
    from ddptui.host.environment import installed  # now: it takes as long as a tenth of the first picture

    devices = sum(len(glob(pattern)) for pattern in gpus.DEVICES)
    told = gpus_in_short(devices, os.environ) if sys.platform == "linux" else ""
    torch = installed("torch")
    return " · ".join(filter(None, [count(available_cores(), "core"), told, f"torch {torch}" if torch else "no torch"]))


def gpus_in_short(devices: int, variables: Mapping[str, str]) -> str:
    """As in «2 GPUs», «1 of 2 GPUs», «no GPU»: as device files and the variable that hides GPUs tell. NVML, which knows
    more, is not asked: a driver that sleeps may take seconds to wake."""
    if not devices:
        return "no GPU"
    visible = variables.get(gpus.VISIBLE)
    by_name = (visible or "").startswith(("GPU-", "MIG-"))
    seen = min(devices, len((visible or "").split(","))) if by_name else len(gpus.seen(visible, [""] * devices))
    return count(devices, "GPU") if seen == devices else f"{seen} of {count(devices, 'GPU')}"

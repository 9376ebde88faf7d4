"""This machine in a few words, for the console's first line. torch is not imported for it."""

import sys
from glob import glob

from ddptui.columns import count
from ddptui.preflight import GPU_DEVICES
from ddptui.preset import available_cores


def in_short() -> str:
    """As in «2 cores · no GPU · torch 2.15.0»; of GPUs nothing where only torch could tell."""
    from ddptui.environment import installed  # now: it takes as long as a tenth of the first picture

    gpus = sum(len(glob(pattern)) for pattern in GPU_DEVICES)
    told = (count(gpus, "GPU") if gpus else "no GPU") if sys.platform == "linux" else ""
    torch = installed("torch")
    return " · ".join(filter(None, [count(available_cores(), "core"), told, f"torch {torch}" if torch else "no torch"]))

"""How much of what connects the GPUs a primitive uses: busbw as a part of the most that a GPU can send. Pure.

The peak is no result of a measurement: environment.json has it (ddptui/host/link_peak.py makes it), by how many of the
visible GPUs communicate.
"""

from collections.abc import Mapping
from typing import Any

from ddptui.analysis.primitives.results import Cell, PrimitivesResult
from ddptui.config.engine import EngineOptions

KEY = "gpu_link_peak_gb_s"


def link_peak_gb_s(environment: Mapping[str, Any], engine: EngineOptions, result: PrimitivesResult) -> float | None:
    """The most that a GPU of this launch could send, in GB/s of 1e9 bytes. None: it is not known, or ranks are on other
    hosts, or did not communicate over what connects the GPUs: gloo's tensors go through the host."""
    if result.backend != "nccl" or engine.name != "local":
        return None
    peaks: Mapping[str, float | None] = environment.get(KEY) or {}
    # Each holds from its number of GPUs on, up to the next. NCCL refuses two ranks on one GPU: each rank has its own.
    from_on = max((gpus for gpus in map(int, peaks) if gpus <= result.ranks), default=None)
    return None if from_on is None else peaks[str(from_on)]


def part_of_peak(cell: Cell, peak_gb_s: float | None) -> float | None:
    """busbw as a part of the peak. None: one of them is not known, or the operation sends nothing."""
    if not peak_gb_s or cell.busbw_gb_s is None or cell.operation == "local_sum":
        return None
    return cell.busbw_gb_s / peak_gb_s

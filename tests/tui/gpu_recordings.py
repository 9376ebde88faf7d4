"""A run on two GPUs that never was: the recorded one, with figures of GPUs put into its words. All of them are made up;
it shows how they would be drawn, and nothing of what a GPU does."""

import shutil
from pathlib import Path
from typing import Any

import msgspec

from ddptui.store.runs import Run
from tests.tui.recordings import RECORDED

GB = 2**30
TOTAL, USED, OWN = 16 * GB, (9 * GB // 2, 3 * GB), (4 * GB, 5 * GB // 2)  # by rank
TIED_NS = 25_000
RESERVED = (21 * GB // 4, 3 * GB)
FLOPS = 1.4e11  # of one sample
BUSY, WATTS, CELSIUS, MHZ, HELD_BACK = (97, 64), (241.5, 187.25), (71, 58), (1410, 1980), (True, False)


def made_up(folder: Path) -> Run:
    """Write it down in this folder."""
    run = Run(folder / "made-up-gpus")
    shutil.copytree(RECORDED, run.folder)
    for journal in run.folder.rglob("messages.jsonl"):
        words = [msgspec.json.decode(line) for line in journal.read_bytes().splitlines()]
        lines = [msgspec.json.encode(each) for told in words for each in (_on_gpus(told), *_tied(told))]
        journal.write_bytes(b"\n".join(lines) + b"\n")
    return run


def _tied(words: dict[str, Any]) -> list[dict[str, Any]]:
    """A GPU's clock, once its rank is there."""
    if words["type"] != "Hello":
        return []
    return [{"type": "Tied", "rank": words["rank"], "at_ns": words["at_ns"], "error_ns": TIED_NS}]


def _on_gpus(words: dict[str, Any]) -> dict[str, Any]:
    rank = words.get("rank", 0)
    match words["type"]:
        case "Hello":
            return words | {"device": f"cuda:{rank}", "backend": "nccl", "backend_why": "the ranks are on GPUs"}
        case "Ready":
            return words | {"flops": FLOPS}
        case "Heartbeat":
            gpu = [BUSY[rank], USED[rank], TOTAL, WATTS[rank], CELSIUS[rank], MHZ[rank], HELD_BACK[rank]]
            return words | {"gpu_bytes": OWN[rank], "gpu_reserved_bytes": RESERVED[rank], "gpu": gpu}
        case "Done":
            return words | {"peak_gpu_bytes": OWN[rank], "peak_gpu_reserved_bytes": RESERVED[rank]}
        case _:
            return words

"""Describes the GPUs of a run's host in one line."""

from collections import Counter
from typing import Any

from ddptui.analysis.policy import is_timed_by_device
from ddptui.analysis.results import Results
from ddptui.text.drawing import shorten
from ddptui.text.words import listed

LONGEST = 60  # characters of a GPU's name
MOST_NAMED = 3  # kinds of GPUs or of connections that are listed


def machine(results: Results) -> str:
    """The GPUs in one line, e.g. "GPUs of the console's host: 2 × NVIDIA H100 80GB HBM3, 80 GB; NV18: 0-1; driver
    580.65.06". Empty if no rank was on a GPU, or results.environment, which is not validated, names no GPU."""
    names = Counter(_texts(results.environment.get("gpus")))
    if not names or not _on_gpus(results):
        return ""
    kinds = [f"{number} × {name}" for name, number in names.items()]
    links = _texts(results.environment.get("gpu_links"))
    driver = [f"driver {version}" for version in _texts([results.environment.get("gpu_driver")])]
    parts = [listed(kinds, MOST_NAMED), *([listed(links, MOST_NAMED)] if links else []), *driver]
    return f"GPUs of the console's host: {'; '.join(parts)}"


def _texts(entries: Any) -> list[str]:
    """The strings in a list, made safe to print; empty if `entries` is not a list."""
    texts = [entry for entry in entries if isinstance(entry, str) and entry] if isinstance(entries, list) else []
    return [shorten(text[:LONGEST], LONGEST) for text in texts]


def _on_gpus(results: Results) -> bool:
    ranks = (rank for trial in results.trials for repeat in trial.repeats for rank in repeat.ranks)
    backends = [launch.backend for trial in results.trials for launch in trial.primitives]
    return "nccl" in backends or any(is_timed_by_device(rank.device) for rank in ranks)

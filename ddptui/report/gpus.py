"""The GPUs that a run had at hand, in a line, and what those of its ranks did, in a table."""

from collections import Counter
from typing import Any

from ddptui.analysis.results import Results
from ddptui.analysis.time_source import is_timed_by_device
from ddptui.report.ranks import RANK_COLUMNS
from ddptui.text.drawing import shorten
from ddptui.text.tables import Filled, Table, fill, telling
from ddptui.text.words import listed

LONGEST = 60  # characters of a name
MOST_NAMED = 3  # kinds of GPUs, or of connections
MOST_RANKS = 8  # of a trial
HEADING = f"The ranks' GPUs in each trial's last repeat (at most {MOST_RANKS} ranks a trial)"
LOOKED_AT_FIRST = ("rank", "gpu %", "gpu used", "W", "MHz", "samples/s", "TFLOP/s")  # columns of ranks


def machine(results: Results) -> str:
    """As in "GPUs of the console's host: 2 × NVIDIA H100 80GB HBM3, 80 GB; NV18: 0-1; driver 580.65.06"; empty if no
    rank was on a GPU, or the environment names none. The environment may hold anything."""
    names = Counter(_texts(results.environment.get("gpus")))
    if not names or not _on_gpus(results):
        return ""
    kinds = [f"{number} × {name}" for name, number in names.items()]
    links = _texts(results.environment.get("gpu_links"))
    driver = [f"driver {version}" for version in _texts([results.environment.get("gpu_driver")])]
    parts = [listed(kinds, MOST_NAMED), *([listed(links, MOST_NAMED)] if links else []), *driver]
    return f"GPUs of the console's host: {'; '.join(parts)}"


def of_ranks(results: Results) -> Table | None:
    """What one looks at first, a line a rank, for the first ranks of each trial. None: no rank was on a GPU, or none of
    these figures is known."""
    last = [(trial.name, repeat.ranks[:MOST_RANKS]) for trial in results.trials for repeat in trial.repeats[-1:]]
    lines = [(name, rank) for name, ranks in last for rank in ranks if is_timed_by_device(rank.device)]
    names, ranks = zip(*lines, strict=True) if lines else ((), ())
    trials = [Filled("trial", [*names], worth=1, left=True)] if len({*names}) > 1 else []
    figures = telling(fill((column for column in RANK_COLUMNS if column.header in LOOKED_AT_FIRST), ranks))
    return Table([*trials, *figures]) if len(figures) > 1 else None


def _texts(entries: Any) -> list[str]:
    """Those of a list that are texts, safe to print; of anything else none."""
    texts = [entry for entry in entries if isinstance(entry, str) and entry] if isinstance(entries, list) else []
    return [shorten(text[:LONGEST], LONGEST) for text in texts]


def _on_gpus(results: Results) -> bool:
    repeats = (repeat for trial in results.trials for repeat in trial.repeats)
    launches = (launch for trial in results.trials for launch in trial.primitives)
    on_cuda = (is_timed_by_device(rank.device) for repeat in repeats for rank in repeat.ranks)
    return any(on_cuda) or any(launch.backend == "nccl" for launch in launches)

"""Text about ranks: the columns of their tables, GPUs, memory, devices, and on which lines of code they worked."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import median
from typing import Any

from ddptui.analysis.policy import is_timed_by_device
from ddptui.analysis.primitive_results import NcclUse
from ddptui.analysis.results import PlaceTime, RankResult, Results, TrialResult
from ddptui.config.catalog import facts_of
from ddptui.config.preset import Preset
from ddptui.text.drawing import shorten
from ddptui.text.tables import GAP, Column, Filled, Table, cell_at, fill, fit, grouped, telling, total
from ddptui.text.words import NOTHING, count, digits, listed, part_of, percent, seconds, size, size_unit
from ddptui.wire.phases import BETWEEN, PARTS

LONGEST = 60  # characters of a GPU's name
MOST_NAMED = 3  # kinds of GPUs or of connections that are listed


def gpus_of_machine(results: Results) -> str:
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


SLOWED = "▼"  # beside the clock of a GPU that was held back by heat or power
NCCL2 = "ProcessGroupNCCL2"
# The future of a ProcessGroupNCCL2 collective makes the caller's stream wait for the collective
# (torch/csrc/distributed/c10d/nccl2/WorkNCCL.cpp). torch's comm hooks ask for it in backward
# (ddp_comm_hooks/default_hooks.py, powerSGD_hook.py).
HOOKS_WAIT = (
    f"with {NCCL2}, by torch's source code, comm hooks make backward wait for each bucket and hide no transfer; set "
    "`TORCH_DIST_USE_NCCL2=0` to use the older ProcessGroupNCCL"
)
MOST_PEAKS = 4  # more peaks than this are shown as a range
MOST_RANKS = 8  # ranks per trial in a table
GPU_HEADING = f"The ranks' GPUs in each trial's last repeat (at most {MOST_RANKS} ranks per trial)"
OF_GPUS = ("gpu %", "gpu used", "W", "MHz", "samples/s", "TFLOP/s")  # headers of the columns in the table of GPUs
SHORT = {"aggregate": "aggr.", BETWEEN: "between"}


def known(ranks: Sequence[RankResult], figure: str) -> list[Any]:
    """The values of a figure for the ranks for which it is known. figure: its key in results.json."""
    return [value for rank in ranks if (value := getattr(rank, figure)) is not None]


def memory(held: Sequence[int]) -> str:
    """Memory peaks (bytes) in one unit, e.g. "1.92+1.21 GB"; for many ranks the range; empty without a GPU."""
    if not held:
        return ""
    bytes_in_unit, unit = size_unit(max(held))
    if len(held) > MOST_PEAKS:
        return f"{digits(min(held) / bytes_in_unit)}…{digits(max(held) / bytes_in_unit)} {unit}"
    return f"{'+'.join(digits(peak / bytes_in_unit) for peak in held)} {unit}"


def output_device(ranks: Sequence[RankResult]) -> str:
    """How much more memory the first device of nn.DataParallel used than any other; empty if it did not use more."""
    first, *others = known(ranks, "peak_gpu_bytes") or [0]
    # A replica without a peak is on the CPU, so the peaks cannot be compared.
    if len(others) + 1 < len(ranks) or not others or first <= max(others):
        return ""
    more = size(first - max(others))
    where = "outputs are gathered there, and gradients summed for the optimizer"
    return f"{ranks[0].device} used up to {size(first)}, {more} more than any other device: {where}"


def backends(trials: Sequence[TrialResult], preset: Preset) -> dict[str, list[str]]:
    """Notes on backends: why one was chosen for trials with backend = "auto", and the NCCL version. The keys are the
    notes, the values the trials that they apply to; an empty list means all trials."""
    left_open = {trial.name for trial in preset.trials if trial.backend == "auto"}
    groups = {trial.name: repeat for trial in trials for repeat in trial.repeats[-1:] if repeat.backend}
    whys = {name: repeat.backend_why if name in left_open else "" for name, repeat in groups.items()}
    words = {name: "; ".join(filter(None, [why, describe_nccl(groups[name].nccl)])) for name, why in whys.items()}
    reasons = grouped((f"backend {groups[name].backend}: {why}", name) for name, why in words.items() if why)
    is_of_all = len(reasons) == 1 and len({repeat.backend for repeat in groups.values()}) == 1
    return {reason: [] if is_of_all else names for reason, names in reasons.items()}


def describe_nccl(use: NcclUse | None) -> str:
    """The NCCL version and implementation, e.g. "NCCL 2.28.9 (ProcessGroupNCCL)"; empty for another backend."""
    return f"NCCL {use.version} ({use.implementation})" if use else ""


def waiting_hooks(trials: Sequence[TrialResult], preset: Preset) -> list[str]:
    """The names of the trials whose comm hook waits for each bucket in backward."""
    hooked = {trial.name for trial in preset.trials if facts_of(trial.strategy).comm_hook}
    uses = {trial.name: trial.repeats[-1].nccl for trial in trials if trial.repeats}
    return [name for name, use in uses.items() if name in hooked and use and use.implementation == NCCL2]


def unexpected(results: Results) -> dict[str, list[str]]:
    """Why ranks ran on a device that may surprise the user, with the names of the trials concerned."""
    last = [(trial.name, rank) for trial in results.trials for repeat in trial.repeats[-1:] for rank in repeat.ranks]
    kinds = (("CPU" if rank.device.startswith("cpu") else "GPU", rank.device_why, name) for name, rank in last)
    return grouped((f"on the {kind}: {why}", name) for kind, why, name in dict.fromkeys(kinds) if why)


def rank_tables(results: Results) -> dict[str, Table]:
    """Tables by heading, with one line for each rank in each trial's last repeat: where its time went (for commands),
    and figures of its GPU. Tables without any known figure are left out."""
    commands = [trial for trial in results.trials if trial.kind == "command"]
    made = sorted({repeat.steps for trial in commands for repeat in trial.repeats[-1:]}) or [0]
    steps = f"{made[0]:,} to {made[-1]:,} steps" if len(made) > 1 else count(made[0], "step")
    of_time = _table(commands, TIME_COLUMNS, lambda rank: bool(rank.work_s))
    of_gpus = _table(results.trials, GPU_COLUMNS, lambda rank: is_timed_by_device(rank.device))
    tables = {f"Each rank's time in s, {steps}; between: evaluation, saving, other": of_time, GPU_HEADING: of_gpus}
    return {heading: table for heading, table in tables.items() if table}


def _table(
    trials: Sequence[TrialResult], columns: Iterable[Column[RankResult]], is_shown: Callable[[RankResult], bool]
) -> Table | None:
    last = [(trial.name, repeat.ranks[:MOST_RANKS]) for trial in trials for repeat in trial.repeats[-1:]]
    lines = [(name, rank) for name, ranks in last for rank in ranks if is_shown(rank)]
    names = [name for name, _ in lines]
    of_trials = [Filled("trial", names, worth=1, left=True)] if len({*names}) > 1 else []
    figures = telling(fill(columns, [rank for _, rank in lines]))
    return Table([*of_trials, *figures], at_least=len(of_trials) + 1) if len(figures) > 1 else None


def _waited_for(rank: RankResult) -> str:
    s, late_rank = max(((s, other) for other, s in rank.waited_for_s.items()), default=(0.0, None))
    return NOTHING if late_rank is None else f"rank {late_rank}: {seconds(s)}"


def _delays(rank: RankResult) -> str:
    return in_all(rank.bottleneck_s, rank.bottleneck_fired) if rank.bottleneck_fired else NOTHING


def in_all(slept_s: float, fired: float) -> str:
    """The length of all delays together, in s, and how often they fired, as in "1.21 s, 60×"."""
    return f"{seconds(slept_s)}, {fired:g}×"


def _used(rank: RankResult) -> str:
    if rank.peak_gpu_used_bytes is None or rank.gpu_total_bytes is None:
        return _peak("peak_gpu_used_bytes")(rank)
    return part_of(rank.peak_gpu_used_bytes, rank.gpu_total_bytes)


def _clock(rank: RankResult) -> str:
    return f"{SLOWED if rank.held_back_part and rank.sm_mhz is not None else ''}{digits(rank.sm_mhz)}"


def _peak(figure: str) -> Callable[[RankResult], str]:
    return cell_at(figure, lambda held: memory([held]))


def _percent_of(figure: str, decimals: int = 0) -> Callable[[RankResult], str]:
    return cell_at(figure, lambda part: f"{100 * part:.{decimals}f}")


def _in_s(s: float) -> str:
    return f"{s:.2f}" if s else NOTHING


def _work(part: str) -> Column[RankResult]:
    return Column(SHORT.get(part, part), lambda rank: _in_s(rank.work_s.get(part, 0.0)))


RANK_COLUMNS: tuple[Column[RankResult], ...] = (
    Column("rank", cell_at("rank"), about="The rank's number; ranks count from 0."),
    Column("wait", cell_at("wait_s", seconds), about="Time that the rank waited for late ranks in all steps."),
    Column("waits for", _waited_for, left=True, about="The rank that this rank waited for most, and how long."),
    Column("wait caused", cell_at("wait_caused_s", seconds), about="Time that others waited for its own work, summed."),
    Column("last in", cell_at("last_arrivals"), about="Number of collectives in which the rank arrived last."),
    Column("gpu %", _percent_of("gpu_busy"), 1, about="Percent of time its GPU was busy, including waits in NCCL."),
    Column("gpu used", _used, 1, about="Peak memory of its GPU used by all programs, and the memory that the GPU has."),
    Column("W", cell_at("watts", digits), 1, about="The mean power of its GPU, in watts."),
    Column("MHz", _clock, 1, about=f"The median clock of its GPU; {SLOWED}: its clock was held back at times."),
    Column("samples/s", cell_at("samples_per_s", digits), 1, about="Samples per second of the rank on a GPU."),
    Column("TFLOP/s", cell_at("tflops", digits), 1, about="10^12 operations per second, if they are counted."),
    Column("gpu mem.", _peak("peak_gpu_bytes"), about="Peak memory of its tensors; 1 GB is 2^30 bytes."),
    Column("reserved", _peak("peak_gpu_reserved_bytes"), about="Peak memory that torch reserved for tensors."),
    Column("MFU %", _percent_of("mfu", 1), about="TFLOP/s in percent of the peak of its GPU in that precision."),
    Column("J/step", cell_at("joules_a_step", digits), about="Energy of its GPU per step, in joules."),
    Column("operations", cell_at("collectives"), about="Number of collectives in which the rank took part."),
    Column("transfer", cell_at("transfer_s", seconds), about="Time in collectives after all needed ranks had arrived."),
    Column("exposed", cell_at("exposed_s", seconds), about="Time that the rank stood idle while collectives ran."),
    Column("overlap", cell_at("overlap", percent), about="Share of the time in collectives that the rank computed."),
    Column("sent", cell_at("bytes", size), about="The bytes of all its collectives."),
    Column("delays", _delays, about="How long all delays on the rank took together, and how often they fired."),
    Column("device", cell_at("device"), left=True, about="The device that the rank trained on."),
    Column("pid", cell_at("pid"), about="The process ID of the rank."),
    Column("host", cell_at("host"), left=True, about="The host that the rank ran on."),
)
GPU_COLUMNS = tuple(column for column in RANK_COLUMNS if column.header in ("rank", *OF_GPUS))
TIME_COLUMNS: tuple[Column[RankResult], ...] = (
    RANK_COLUMNS[0],
    *map(_work, PARTS),
    Column("wait", cell_at("wait_s", _in_s)),
    Column("transfer", lambda rank: _in_s(max(0.0, (rank.exposed_s or 0.0) - (rank.wait_s or 0.0)))),
)


MOST_RANKS_WITH_PLACES = 4  # with a column each; of more ranks, one, and the median of the others
MOST_IN_TEXT, MOST_ROWS = 5, 20
LONGEST_PLACE, SHORTEST_SOURCE = 48, 24  # cells
Source = Callable[[str, int, str, str, bool], str]  # ddptui/host/source.py has it
UNREAD: Source = lambda *_: ""  # noqa: E731
Read = Callable[[str, int, int], str]  # a line of a file, where a rank is; empty: not known


def read_for(source: Source, hosts: Mapping[int, str], results: Results, *, is_lab: bool) -> Read:
    """Reads lines for the ranks of a launch. hosts: by rank."""
    started = str(results.environment.get("started", ""))
    return lambda file, line, rank: source(file, line, hosts.get(rank, ""), started, is_lab)


def place_columns(places: Sequence[PlaceTime], late: int | None, read: Read, width: int | None = None) -> list[Filled]:
    """The columns of the table of some places. late: the rank whose times are shown even if there is little room.
    width: of the table, in which the source line takes the room that is left; None: any."""
    ranks = sorted({rank for place in places for rank in place.ms})
    shown = {f"rank {rank} ms": [rank] for rank in ranks}
    if len(ranks) > MOST_RANKS_WITH_PLACES:
        late = late if late in ranks else max(ranks, key=lambda rank: sum(place.ms.get(rank, 0.0) for place in places))
        shown = {f"rank {late} ms": [late], "others ms": [rank for rank in ranks if rank != late]}
    columns: list[Column[PlaceTime]] = [
        Column("where", lambda place: shorten(place.place, LONGEST_PLACE), 9, left=True),
        Column("phase", lambda place: place.phase, 7, left=True),
        *(Column(header, _ms(those), 9 if those == [late] else 8) for header, those in shown.items()),
        Column("called by", lambda place: shorten(place.by or NOTHING, LONGEST_PLACE), 5, left=True),
    ]
    filled = telling(fill(columns, places))
    filled = filled if width is None else fit(filled, width)
    room = None if width is None else width - total([column.width for column in filled]) - GAP
    if room is None or room >= SHORTEST_SOURCE:
        lines = [_source(place, read) for place in places]
        filled.append(Filled("source", [shorten(line, room or len(line)) for line in lines], left=True))
    return telling(filled)


def _source(place: PlaceTime, read: Read) -> str:
    first = read(place.file, place.line, max(place.ms, key=lambda rank: place.ms[rank]))
    return f"{first}{' …' * (place.last > place.line)}" if first else NOTHING


def _ms(ranks: Sequence[int]) -> Callable[[PlaceTime], str]:
    """The cell with the median of some ranks."""

    def cell(place: PlaceTime) -> str:
        ms = median(place.ms.get(rank, 0.0) for rank in ranks)
        return f"{ms:.2f}" if ms else NOTHING

    return cell


def of_trial(trial: TrialResult, results: Results, source: Source) -> tuple[Sequence[PlaceTime], int | None, Read]:
    """The places of a trial's last repeat, its late rank, and how to read source lines: for `place_columns`."""
    last = trial.repeats[-1] if trial.repeats else None
    hosts = {rank.rank: rank.host for rank in last.ranks} if last else {}
    late = last.culprit.rank if last and last.culprit else None
    return last.places if last else (), late, read_for(source, hosts, results, is_lab=trial.kind != "command")


def place_tables(results: Results, source: Source, width: int | None) -> dict[str, Table]:
    """A table by heading for each watched training. width: of a terminal, for which the tables are short, and left out
    unless they explain something; None: any."""
    tables = {}
    for trial in (trial for trial in results.trials if trial.kind == "command" and trial.repeats):
        places, late, read = of_trial(trial, results, source)
        if width is not None:
            explains = late is not None or any(finding.lines for finding in trial.repeats[-1].findings)
            places = places[: MOST_IN_TEXT * explains]
        if places:
            whose = f" of {trial.name}" * (len(results.trials) > 1)
            columns = place_columns(places[:MOST_ROWS], late, read, width)
            tables[f"Where in the code{whose} each rank worked, in ms a step"] = Table(columns)
    return tables

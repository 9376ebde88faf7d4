"""What the results say of ranks: their columns, their memory, and why a backend or device was chosen."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ddptui.analysis.primitives.results import NcclUse
from ddptui.analysis.results import RankResult, Results, TrialResult
from ddptui.analysis.time_source import is_timed_by_device
from ddptui.config.preset import Preset
from ddptui.config.strategies import STRATEGIES
from ddptui.report.rows import grouped
from ddptui.text.tables import Column, Filled, Table, cell_at, fill, telling
from ddptui.text.units import NOTHING, digits, part_of, percent, seconds, size, size_unit
from ddptui.text.words import count
from ddptui.wire.phases import BETWEEN, PARTS

SLOWED = "▼"  # beside a clock that is held back
NCCL2 = "ProcessGroupNCCL2"
# Its future orders the caller's stream after the collective (torch/csrc/distributed/c10d/nccl2/WorkNCCL.cpp), and the
# hooks call it in backward (ddp_comm_hooks/default_hooks.py, powerSGD_hook.py).
HOOKS_WAIT = (
    f"by torch's sources, its comm hooks make backward wait for each bucket under {NCCL2}, so they hide no transfer: "
    "`TORCH_DIST_USE_NCCL2=0` takes the older ProcessGroupNCCL"
)
MOST_PEAKS = 4  # that a cell lists one by one
MOST_RANKS = 8  # of a trial
GPU_HEADING = f"The ranks' GPUs in each trial's last repeat (at most {MOST_RANKS} ranks a trial)"
OF_GPUS = ("gpu %", "gpu used", "W", "MHz", "samples/s", "TFLOP/s")  # what one looks at first
SHORT = {"aggregate": "aggr.", BETWEEN: "between"}


def known(ranks: Sequence[RankResult], figure: str) -> list[Any]:
    """A figure of each rank, by its key in results.json; ranks for which it is not known have none."""
    return [value for rank in ranks if (value := getattr(rank, figure)) is not None]


def memory(held: Sequence[int]) -> str:
    """Peaks in one unit: 1.92+1.21 GB; of many ranks the least and the most; empty without a GPU."""
    if not held:
        return ""
    bytes_in_unit, unit = size_unit(max(held))
    if len(held) > MOST_PEAKS:
        return f"{digits(min(held) / bytes_in_unit)}…{digits(max(held) / bytes_in_unit)} {unit}"
    return f"{'+'.join(digits(peak / bytes_in_unit) for peak in held)} {unit}"


def output_device(ranks: Sequence[RankResult]) -> str:
    """nn.DataParallel: how much more the first device held than any other; empty if it did not."""
    first, *others = known(ranks, "peak_gpu_bytes") or [0]
    # A replica without a peak is on the CPU: then there is nothing to compare with.
    if len(others) + 1 < len(ranks) or not others or first <= max(others):
        return ""
    more = size(first - max(others))
    where = "outputs are gathered there, and gradients added up for the optimizer"
    return f"{ranks[0].device} held up to {size(first)}, {more} more than any other device: {where}"


def backends(trials: Sequence[TrialResult], preset: Preset) -> dict[str, list[str]]:
    """Why a group got its backend, where the trial left that open, and which NCCL it was, with the trials of which both
    are true; no trials, if it is true of all."""
    left_open = {trial.name for trial in preset.trials if trial.backend == "auto"}
    groups = {trial.name: repeat for trial in trials for repeat in trial.repeats[-1:] if repeat.backend}
    whys = {name: repeat.backend_why if name in left_open else "" for name, repeat in groups.items()}
    words = {name: "; ".join(filter(None, [why, describe_nccl(groups[name].nccl)])) for name, why in whys.items()}
    reasons = grouped((f"backend {groups[name].backend}: {why}", name) for name, why in words.items() if why)
    is_of_all = len(reasons) == 1 and len({repeat.backend for repeat in groups.values()}) == 1
    return {reason: [] if is_of_all else names for reason, names in reasons.items()}


def describe_nccl(use: NcclUse | None) -> str:
    """As in "NCCL 2.28.9 (ProcessGroupNCCL)"; empty for another backend."""
    return f"NCCL {use.version} ({use.implementation})" if use else ""


def waiting_hooks(trials: Sequence[TrialResult], preset: Preset) -> list[str]:
    """The trials whose comm hook waits in backward."""
    hooked = {trial.name for trial in preset.trials if STRATEGIES[trial.strategy or "none"].comm_hook}
    uses = {trial.name: trial.repeats[-1].nccl for trial in trials if trial.repeats}
    return [name for name, use in uses.items() if name in hooked and use and use.implementation == NCCL2]


def unexpected(results: Results) -> dict[str, list[str]]:
    """Why ranks were on another device than one might have thought, and the trials of which that is true."""
    last = [(trial.name, rank) for trial in results.trials for repeat in trial.repeats[-1:] for rank in repeat.ranks]
    kinds = (("CPU" if rank.device.startswith("cpu") else "GPU", rank.device_why, name) for name, rank in last)
    return grouped((f"on the {kind}: {why}", name) for kind, why, name in dict.fromkeys(kinds) if why)


def rank_tables(results: Results) -> dict[str, Table]:
    """By heading, a line a rank of each trial's last repeat: where its time went, if the trial is a command; and what
    its GPU did. A table of which no figure is known is left out."""
    commands = [trial for trial in results.trials if trial.kind == "command"]
    made = sorted({repeat.steps for trial in commands for repeat in trial.repeats[-1:]}) or [0]
    steps = f"{made[0]:,} to {made[-1]:,} steps" if len(made) > 1 else count(made[0], "step")
    of_time = _table(commands, TIME_COLUMNS, lambda rank: bool(rank.work_s))
    of_gpus = _table(results.trials, GPU_COLUMNS, lambda rank: is_timed_by_device(rank.device))
    tables = {f"Each rank's time in s, {steps}; between: evaluation, saving, all else": of_time, GPU_HEADING: of_gpus}
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
    return f"{rank.bottleneck_fired}× {seconds(rank.bottleneck_s)}" if rank.bottleneck_fired else NOTHING


def _used(rank: RankResult) -> str:
    if rank.peak_gpu_used_bytes is None or rank.gpu_total_bytes is None:
        return _peak("peak_gpu_used_bytes")(rank)
    return part_of(rank.peak_gpu_used_bytes, rank.gpu_total_bytes)


def _clock(rank: RankResult) -> str:
    return f"{SLOWED if rank.held_back_part and rank.sm_mhz is not None else ''}{digits(rank.sm_mhz)}"


def _peak(figure: str) -> Callable[[RankResult], str]:
    return cell_at(figure, lambda held: memory([held]))  # with as many digits as the others of its column


def _percent_of(figure: str, decimals: int = 0) -> Callable[[RankResult], str]:
    return cell_at(figure, lambda part: f"{100 * part:.{decimals}f}")


def _in_s(s: float) -> str:
    return f"{s:.2f}" if s else NOTHING


def _work(part: str) -> Column[RankResult]:
    return Column(SHORT.get(part, part), lambda rank: _in_s(rank.work_s.get(part, 0.0)))


RANK_COLUMNS: tuple[Column[RankResult], ...] = (
    Column("rank", cell_at("rank"), about="The rank's number; ranks count from 0."),
    Column("wait", cell_at("wait_s", seconds), about="How long it stood idle for late ranks, over all measured steps."),
    Column("waits for", _waited_for, left=True, about="The rank that it waited for longest, and how long of its wait."),
    Column("wait caused", cell_at("wait_caused_s", seconds), about="How long others waited for its own work, summed."),
    Column("last in", cell_at("last_arrivals"), about="In how many operations it arrived last."),
    Column("gpu %", _percent_of("gpu_busy"), about="How busy its GPU was, waiting in NCCL included, in percent."),
    Column("gpu used", _used, about="The most memory of its GPU that all programs took, of all that it has."),
    Column("W", cell_at("watts", digits), about="The mean power of its GPU."),
    Column("MHz", _clock, about=f"The median clock of its GPU; {SLOWED}: it was held back at times."),
    Column("samples/s", cell_at("samples_per_s", digits), about="Samples a second that it trained on, if on a GPU."),
    Column("TFLOP/s", cell_at("tflops", digits), about="10^12 operations a second, if they are counted."),
    Column("gpu mem.", _peak("peak_gpu_bytes"), about="The most that its tensors took, 1 GB being 2^30 bytes."),
    Column("reserved", _peak("peak_gpu_reserved_bytes"), about="The most that torch held for tensors, used or not."),
    Column("MFU %", _percent_of("mfu", 1), about="TFLOP/s in percent of what its GPU can do in that precision."),
    Column("J/step", cell_at("joules_a_step", digits), about="Energy of its GPU per step, in joules."),
    Column("operations", cell_at("collectives"), about="How many collectives it took part in."),
    Column("transfer", cell_at("transfer_s", seconds), about="Time in collectives after the last needed rank came."),
    Column("exposed", cell_at("exposed_s", seconds), about="How long it stood idle while collectives were under way."),
    Column("overlap", cell_at("overlap", percent), about="The part of the time in collectives in which it computed."),
    Column("sent", cell_at("bytes", size), about="The bytes of all its collectives."),
    Column("delays", _delays, about="How often delays fired on it, and how long they took."),
    Column("device", cell_at("device"), left=True, about="The device that it trained on."),
    Column("pid", cell_at("pid"), about="Its process."),
    Column("host", cell_at("host"), left=True, about="The host that it ran on."),
)
GPU_COLUMNS = tuple(column for column in RANK_COLUMNS if column.header in ("rank", *OF_GPUS))
TIME_COLUMNS: tuple[Column[RankResult], ...] = (
    RANK_COLUMNS[0],
    *map(_work, PARTS),
    Column("wait", cell_at("wait_s", _in_s)),
    Column("transfer", lambda rank: _in_s(max(0.0, (rank.exposed_s or 0.0) - (rank.wait_s or 0.0)))),
)

"""What the results say of ranks: their columns, their memory, and why a backend or device was chosen."""

from collections.abc import Sequence

from ddptui.analysis.primitives.results import NcclUse
from ddptui.analysis.results import RankResult, Results, TrialResult
from ddptui.config.preset import Preset
from ddptui.config.strategies import STRATEGIES
from ddptui.report.rows import grouped
from ddptui.text.tables import Column, Filled, Table, fill
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
MOST_TIMED = 8  # ranks of a trial
SHORT = {"aggregate": "aggr.", BETWEEN: "between"}


def peaks(ranks: Sequence[RankResult]) -> list[int]:
    """The peak of each rank's tensors on its GPU, in bytes; ranks without a GPU have none."""
    return [rank.peak_gpu_bytes for rank in ranks if rank.peak_gpu_bytes is not None]


def reserved_peaks(ranks: Sequence[RankResult]) -> list[int]:
    """The most that torch held for them, likewise."""
    return [rank.peak_gpu_reserved_bytes for rank in ranks if rank.peak_gpu_reserved_bytes is not None]


def sub_batches(ranks: Sequence[RankResult]) -> list[int]:
    """nn.DataParallel: the most samples that each replica saw in a step."""
    return [rank.sub_batch for rank in ranks if rank.sub_batch is not None]


def clocks(ranks: Sequence[RankResult]) -> list[float]:
    """The median clock of each rank's GPU, in MHz; ranks without one have none."""
    return [rank.sm_mhz for rank in ranks if rank.sm_mhz is not None]


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
    first, *others = peaks(ranks) or [0]
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
    pairs = []
    for name, repeat in groups.items():
        why = repeat.backend_why if name in left_open else ""
        if words := "; ".join(filter(None, [why, describe_nccl(repeat.nccl) if repeat.nccl else ""])):
            pairs.append((f"backend {repeat.backend or ''}: {words}", name))
    reasons = grouped(pairs)
    if len(reasons) == 1 and len({repeat.backend for repeat in groups.values()}) == 1:
        return {reason: [] for reason in reasons}
    return reasons


def describe_nccl(use: NcclUse) -> str:
    """As in "NCCL 2.28.9 (ProcessGroupNCCL)"."""
    return f"NCCL {use.version} ({use.implementation})"


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


def where_time_goes(results: Results) -> tuple[str, Table] | None:
    """A heading, and the parts of each rank's time, for the first ranks of each trial that is a command. None: there is
    no such trial, or none of its steps is known."""
    last = [
        (trial.name, repeat) for trial in results.trials if trial.kind == "command" for repeat in trial.repeats[-1:]
    ]
    lines = [(name, rank) for name, repeat in last for rank in repeat.ranks[:MOST_TIMED] if rank.work_s]
    if not lines:
        return None
    names, of_ranks = zip(*lines, strict=True)
    made = sorted({repeat.steps for _, repeat in last})
    steps = f"{made[0]:,} to {made[-1]:,} steps" if len(made) > 1 else count(made[0], "step")
    columns = [Column[RankResult]("rank", lambda rank: str(rank.rank)), *map(_part, PARTS)]
    columns += [
        Column("wait", lambda rank: _in_s(rank.wait_s)),
        Column("transfer", lambda rank: _in_s(_transfer(rank))),
    ]
    trials = [Filled("trial", [*names], worth=1, left=True)] if len(last) > 1 else []
    heading = f"Each rank's time in s, {steps}; between: evaluation, saving, all else"
    return heading, Table([*trials, *fill(columns, of_ranks)], at_least=len(trials) + 1)


def _part(part: str) -> Column[RankResult]:
    """A column of own work; of a part that no rank has, it is empty, and not shown."""
    return Column(SHORT.get(part, part), lambda rank: _in_s(rank.work_s.get(part)))


def _in_s(s: float | None) -> str:
    return f"{s:.2f}" if s else NOTHING


def _transfer(rank: RankResult) -> float:
    return max(0.0, (rank.exposed_s or 0.0) - (rank.wait_s or 0.0))


def _waited_for(rank: RankResult) -> str:
    """The rank that this one waited for longest, and how long."""
    if not rank.waited_for_s:
        return NOTHING
    late_rank = max(rank.waited_for_s, key=lambda other: rank.waited_for_s[other])
    return f"rank {late_rank}: {seconds(rank.waited_for_s[late_rank])}"


def _delays(rank: RankResult) -> str:
    return f"{rank.bottleneck_fired}× {seconds(rank.bottleneck_s)}" if rank.bottleneck_fired else NOTHING


def _peak(held: int | None) -> str:
    return NOTHING if held is None else memory([held])  # with as many digits as the others of its column


def _in_percent(part: float | None, form: str) -> str:
    return NOTHING if part is None else format(100 * part, form)


def _used(rank: RankResult) -> str:
    if rank.peak_gpu_used_bytes is None or rank.gpu_total_bytes is None:
        return _peak(rank.peak_gpu_used_bytes)
    return part_of(rank.peak_gpu_used_bytes, rank.gpu_total_bytes)


def _number(value: int | None) -> str:
    return NOTHING if value is None else str(value)


MEANINGS = {  # by header
    "rank": "The rank's number; ranks count from 0.",
    "wait": "How long the rank stood idle for late ranks, over all measured steps; empty for one process, or where "
    "the clock error exceeds the waits.",
    "waits for": "The rank that it waited for longest, and how long of its wait that was; empty if it waited for none.",
    "wait caused": "How long the others waited for this rank's own work, summed over them; empty like wait.",
    "last in": "In how many operations it arrived last; empty like wait.",
    "gpu %": "How busy its GPU was, waiting in NCCL included, in percent of the time; empty if it is not reported.",
    "gpu used": "The most memory of its GPU that all programs took, of all that it has; empty if it is not reported.",
    "W": "The mean power of its GPU; empty if it is not reported.",
    "MHz": f"The median clock of its GPU; {SLOWED}: it was held back at times; empty if it is not reported.",
    "samples/s": "How many samples a second it trained on; empty without a GPU, or if nobody counted them.",
    "TFLOP/s": "10^12 operations a second; empty if none are counted.",
    "gpu mem.": "The most GPU memory that its tensors took, 1 GB being 2^30 bytes; empty without a GPU.",
    "reserved": "The most GPU memory that torch held for its tensors, used or not; empty without a GPU.",
    "MFU %": "TFLOP/s in percent of what its GPU can do in that precision; empty where this peak is not known.",
    "J/step": "Energy of its GPU per step, in joules; empty if the driver does not report it.",
    "operations": "How many collectives it took part in; empty for one process.",
    "transfer": "How long collectives were under way while no rank that it needed was missing; empty like wait.",
    "exposed": "How long it stood idle while collectives were under way, for late ranks or for the transfer; empty "
    "for one process.",
    "overlap": "The part of the time with collectives under way in which it computed; empty for one process.",
    "sent": "The bytes of all its collectives; empty for one process.",
    "delays": "How often delays fired on it, and how long they took; empty if none did.",
    "device": "The device that it trained on.",
    "pid": "Its process.",
    "host": "The host that it ran on.",
}
_COLUMNS: tuple[Column[RankResult], ...] = (
    Column("rank", lambda rank: str(rank.rank)),
    Column("wait", lambda rank: seconds(rank.wait_s)),
    Column("waits for", _waited_for, left=True),
    Column("wait caused", lambda rank: seconds(rank.wait_caused_s)),
    Column("last in", lambda rank: _number(rank.last_arrivals)),
    Column("gpu %", lambda rank: _in_percent(rank.gpu_busy, ".0f")),
    Column("gpu used", _used),
    Column("W", lambda rank: digits(rank.watts)),
    Column(
        "MHz", lambda rank: f"{SLOWED if rank.held_back_part and rank.sm_mhz is not None else ''}{digits(rank.sm_mhz)}"
    ),
    Column("samples/s", lambda rank: digits(rank.samples_per_s)),
    Column("TFLOP/s", lambda rank: digits(rank.tflops)),
    Column("gpu mem.", lambda rank: _peak(rank.peak_gpu_bytes)),
    Column("reserved", lambda rank: _peak(rank.peak_gpu_reserved_bytes)),
    Column("MFU %", lambda rank: _in_percent(rank.mfu, ".1f")),
    Column("J/step", lambda rank: digits(rank.joules_a_step)),
    Column("operations", lambda rank: _number(rank.collectives)),
    Column("transfer", lambda rank: seconds(rank.transfer_s)),
    Column("exposed", lambda rank: seconds(rank.exposed_s)),
    Column("overlap", lambda rank: percent(rank.overlap)),
    Column("sent", lambda rank: size(rank.bytes)),
    Column("delays", _delays),
    Column("device", lambda rank: rank.device, left=True),
    Column("pid", lambda rank: str(rank.pid)),
    Column("host", lambda rank: rank.host, left=True),
)
RANK_COLUMNS = tuple(column._replace(about=MEANINGS[column.header]) for column in _COLUMNS)

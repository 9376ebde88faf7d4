"""Describes in a word or two what each rank is doing."""

from collections.abc import Mapping, Sequence
from statistics import median

from ddptui.analysis.waits import AlignedStep
from ddptui.live.state import Live, RankState, recent
from ddptui.text.words import MS, S
from ddptui.wire.phases import PHASES

SILENT_S = 3.0  # a rank is silent after this time without a message; heartbeats come once a second
STALLED_STEPS = 10  # a rank is stalled when it has finished no step for the time of this many usual steps,
STALLED_S = 3.0  # and for at least this time
STALLED = "stalled"  # how the state of a stalled rank begins
RECENT_STEPS, FEW = 20, 3  # phases are medians over at most and at least this many steps


def states(live: Live, waits_for: Mapping[int, int], now_ns: int) -> dict[int, str]:
    """The state of each rank: starting, running, waiting for rank 1, stalled (5 s), evaluating, done, failed or
    stopped. waits_for: from the Judgement, by waiting rank."""
    silent = [rank.rank for rank in live.ranks.values() if rank.state == "running" and silent_s(rank, now_ns)]
    return {number: _state(live, rank, waits_for, silent, now_ns) for number, rank in live.ranks.items()}


def phases_ms(rank: RankState, joined: Sequence[AlignedStep]) -> list[float] | None:
    """A rank's median time in each phase, in ms, over `joined`, the steps that all ranks have reported; without such
    steps, over the rank's own last ones. None: the rank has reported no step."""
    own = [step.ranks[rank.rank].step for step in joined if rank.rank in step.ranks]
    last = own or recent(list(rank.recent)[-RECENT_STEPS:], lambda step: step.end_ns, FEW)
    return [median(step.phases_ns[place] for step in last) / MS for place in range(len(PHASES))] if last else None


def wait_ms(joined: Sequence[AlignedStep], rank: int) -> float | None:
    """A rank's median wait in these steps, in ms; None if it has no step."""
    waited = [step.ranks[rank].wait_ns for step in joined if rank in step.ranks]
    return median(waited) / MS if waited else None


def _state(live: Live, rank: RankState, waits_for: Mapping[int, int], silent: list[int], now_ns: int) -> str:
    if rank.state != "running":
        return "stopped" if rank.state == "starting" and live.status not in ("running", "idle") else rank.state
    if live.status != "running":
        return "stopped"
    if rank.steps and rank.step >= rank.steps:  # the rank has made all steps, and has not sent Done yet
        return "evaluating"
    if seconds := silent_s(rank, now_ns):
        return f"stalled ({seconds:.0f} s)"
    if seconds := _stalled_s(rank, now_ns):  # the rank is alive: if another one is silent, it waits for that one
        return f"waiting for rank {silent[0]} ({seconds:.0f} s)" if silent else f"stalled ({seconds:.0f} s)"
    late = waits_for.get(rank.rank)
    return f"waiting for rank {late}" if late is not None else "running"


def silent_s(rank: RankState, now_ns: int) -> float:
    """Seconds since the rank's last message, if more than SILENT_S; otherwise 0."""
    # A rank without heartbeats has no instruments: its silence means nothing.
    seconds = (now_ns - rank.heard_ns) / S if rank.rss_bytes is not None else 0.0
    return seconds if seconds > SILENT_S else 0.0


def _stalled_s(rank: RankState, now_ns: int) -> float:
    """Seconds since the rank finished its last step, if it is stalled; otherwise 0."""
    if not rank.ends:
        return 0.0
    seconds = (now_ns - rank.ends[-1].at_ns) / S
    usual_s = 1 / rate if (rate := rank.steps_per_s) else 0.0
    return seconds if seconds > max(STALLED_S, STALLED_STEPS * usual_s) else 0.0

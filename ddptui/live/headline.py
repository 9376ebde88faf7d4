"""How a run goes: in one sentence, how far it has come, and how long it may still take."""

from ddptui.analysis.time_source import HOST_TIME, is_host_time
from ddptui.config.preset import Preset
from ddptui.config.trial_text import describe_bottleneck
from ddptui.diagnosis.positions import RankProgress, describe_positions
from ddptui.findings.culprit import MATTERS
from ddptui.live.fold import RATE_OVER
from ddptui.live.monitor import RunMonitor
from ddptui.live.rank_states import STALLED, silent_s
from ddptui.live.state import Live
from ddptui.text.units import S, seconds
from ddptui.text.words import count
from ddptui.wire.records import Refused

CLOCKS_UNKNOWN = "the ranks' clocks have not been compared yet, so waits are unknown"


def sentence(watched: RunMonitor, states: dict[int, str], preset: Preset, now_ns: int) -> str:
    """Which rank holds the others up right now; or how the launch starts or ended."""
    live, world_size = watched.live, watched.world_size(preset)
    if live.status != "running":
        return " · ".join(filter(None, [_ended(live, preset), _of_trial(watched, preset)]))
    if not live.step or watched.shown is not watched:
        before = _of_trial(watched.before, preset) if watched.before else ""
        return " · ".join(filter(None, [_starting(live, world_size), before]))
    if still := _standing_still(live, states, world_size, now_ns):
        finding = ""  # it would be about steps that are over
    elif watched.mismatch:
        finding = f"ranks call different operations: {watched.mismatch}"
    else:
        finding = _verdict(watched, world_size) if watched.are_clocks_known else CLOCKS_UNKNOWN
    return " · ".join(filter(None, [still, _by_hand(live), finding]))


def _starting(live: Live, world_size: int) -> str:
    if live.notice and not live.ranks:  # it waits for nodes, or in a queue
        return live.notice
    if live.step:
        return "warming up"
    if not world_size:
        return "starting: no rank has computed a gradient yet"
    return f"starting: {len(live.ranks)} of {count(world_size, 'rank')} connected"


def _of_trial(ended: RunMonitor, preset: Preset) -> str:
    """The verdict on the last two seconds of a launch that has ended well; else empty."""
    if ended.live.status != "ok" or not ended.judgement or not ended.are_clocks_known:
        return ""
    return f"{ended.live.trial}: {_verdict(ended, ended.world_size(preset))}"


def refusal(refused: Refused) -> str:
    """How many messages were rejected, and why."""
    return f"{count(refused.count, 'message')} rejected and not recorded: {refused.why}"


def _ended(live: Live, preset: Preset) -> str:
    """The outcome of the last launch, or after the last one, of all."""
    if live.finished == launches(preset, live) and live.failures:  # all is over: say what failed on the way
        return "failed: " + "; ".join(f"{trial} ({why})" for trial, why in live.failures.items())
    if live.error:
        return f"{live.status}: {live.error.splitlines()[0]}"
    return {"ok": "done", "idle": "starting"}.get(live.status, live.status)


def _standing_still(live: Live, states: dict[int, str], world_size: int, now_ns: int) -> str:
    """Which ranks have not arrived at which collective, if a rank is stalled."""
    if not any(state.startswith(STALLED) for state in states.values()):
        return ""
    positions = {}
    for rank in live.ranks.values():
        if rank.state != "done":
            steps, silent = rank.step, silent_s(rank, now_ns) > 0
            positions[rank.rank] = RankProgress(  # state: of its process, which messages do not tell
                position=rank.position, steps=steps, trains=steps > 0, silent=silent, state=None
            )
    return describe_positions(positions, world_size)[0] if positions else ""


def _by_hand(live: Live) -> str:
    if live.injected is None:
        return ""
    return f"injected by hand: {describe_bottleneck(live.injected)}" if live.injected else "delays removed by hand"


def _verdict(watched: RunMonitor, world_size: int) -> str:
    """The verdict on the last two seconds."""
    judgement = watched.judgement
    if behind := [rank.device for rank in watched.live.ranks.values() if is_host_time(rank.device)]:
        unknown = "; who waits is unknown" * (world_size > 1)
        return f"Phases ({HOST_TIME}) are host time: {behind[0]} may be behind{unknown}. See torch.profiler"
    if world_size == 1:
        return "one process, so there is nobody to wait for"
    if judgement is None:
        return "no waits measured yet"
    error = f"±{seconds(judgement.uncertainty.clock_ns / S)}" if judgement.uncertainty else ""
    if error and judgement.withheld:
        return f"the clock error ({error}) exceeds the measured waits, so they are hidden"
    idle = f"{judgement.wait_share:.0%} of the time for a late rank, {judgement.transfer_share:.0%} for the network"
    shares = f"Ranks idle {idle}" + (f"; clock error {error}" if error else "")
    culprit = judgement.culprit
    if culprit is None and judgement.rank_without_core is not None:
        return f"Rank {judgement.rank_without_core} holds everyone up, since other programs have its core. {shares}"
    if culprit is None:
        return shares + ("; no rank stands out" if judgement.wait_share >= MATTERS else "")
    late = seconds(culprit.excess_s.estimate / len(judgement.aligned.steps))
    where = "in every phase" if culprit.slower is not None else f"in {culprit.phase}"  # slower: by a factor
    return f"Rank {culprit.rank} holds everyone up: {late} a step, {where}. {shares}"


def steps(live: Live) -> str:
    """How many steps the launch has made, and of how many; where that is not known, how far this epoch is."""
    if live.steps:
        return f"step {live.step} of {live.steps}"
    if not live.step:
        return ""
    if live.epoch is None:
        return f"step {live.step}"
    number, share = live.epoch
    return f"step {live.step} · {share:.0%} of epoch {number}"


def part_done(preset: Preset, live: Live) -> float:
    """The part of a run's launches that is over, with the steps of the running one."""
    of_launch = min(1.0, live.step / live.steps) if live.status == "running" and live.steps else 0.0
    return min(1.0, (live.finished + of_launch) / max(1, launches(preset, live)))


def launches(preset: Preset, live: Live) -> int:
    """The number of launches of the run; a trial that failed or was skipped has no further repeats."""
    return sum(live.over.get(trial.name, preset.repeats) for trial in preset.trials)


def left_s(preset: Preset, live: Live, now_ns: int) -> float | None:
    """Seconds until the run ends; None if that is not known yet."""
    if live.began_ns is None or live.status == "interrupted" or preset.has_no_end:
        return None
    to_come = launches(preset, live) - live.finished
    finished = live.finished - live.resumed  # of this session, as began_ns is
    if live.status != "running":
        return to_come * (now_ns - live.began_ns) / S / finished if to_come and finished else None
    # The running launch goes on at the pace of its steps, and each further one takes as long as those so far.
    running_s = (now_ns - live.launched_ns) / S
    usual_s = (live.launched_ns - live.began_ns) / S / finished if finished else None
    rest_s = _rest_s(live)
    if rest_s is None and usual_s is not None:
        rest_s = max(0.0, usual_s - running_s)
    if rest_s is None:
        return None
    return rest_s + (to_come - 1) * (usual_s if usual_s is not None else running_s + rest_s)


def _rest_s(live: Live) -> float | None:
    """Seconds until the running launch ends, once enough steps have given a pace."""
    rates = [rank.steps_per_s for rank in live.ranks.values()]
    slowest = min((rate for rate in rates if rate), default=None)
    if live.steps is None or slowest is None or live.step < RATE_OVER:
        return None
    return (live.steps - live.step) / slowest


def clock(seconds: float) -> str:
    """Minutes and seconds, as on a stopwatch."""
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"

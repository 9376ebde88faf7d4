"""A running run in one sentence: who waits for whom, progress, time left; and what each rank is doing, in a word or
two."""

from collections.abc import Mapping, Sequence
from statistics import median

from msgspec.structs import replace

from ddptui.analysis.finding import ABOUT_LATE_RANK, IDLE, Kind
from ddptui.analysis.policy import HOST_TIME, is_host_time
from ddptui.analysis.waits import AlignedStep
from ddptui.config.checks import Delays, still_to_come
from ddptui.config.preset import Preset
from ddptui.config.trial import Bottleneck
from ddptui.diagnosis.positions import describe_positions
from ddptui.findings.judgement import Judgement
from ddptui.findings.words import short
from ddptui.live.fold import RATE_OVER
from ddptui.live.monitor import RunMonitor
from ddptui.live.state import Live, RankState, recent
from ddptui.text.words import MS, MS_PER_S, S, count, in_a_row, listed, seconds
from ddptui.wire.phases import PHASES
from ddptui.wire.records import Refused

SILENT_S = 3.0  # a rank is silent after this time without a message; heartbeats come once a second
STALLED_STEPS = 10  # a rank is stalled when it has finished no step for the time of this many usual steps,
STALLED_S = 3.0  # and for at least this time
STALLED = "stalled"  # how the state of a stalled rank begins
RECENT_STEPS, FEW = 20, 3  # phases are medians over at most and at least this many steps


def rank_states(live: Live, waits_for: Mapping[int, int], now_ns: int) -> dict[int, str]:
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


DISTURBED = "⚠ disturbed"
CLOCKS_UNKNOWN = "the ranks' clocks have not been compared yet, so waits are unknown"


def headline_text(watched: RunMonitor, states: dict[int, str], preset: Preset, now_ns: int) -> str:
    """Which rank holds the others up right now; or how the launch starts or ended."""
    live, world_size = watched.live, watched.world_size(preset)
    if live.status != "running":
        return " · ".join(filter(None, [_ended(live, preset), _of_trial(watched, preset)]))
    if not live.step or watched.shown is not watched:
        before = _of_trial(watched.before, preset) if watched.before else ""
        return " · ".join(filter(None, [_starting(live, world_size), before]))
    if still := _standing_still(live, states, world_size, preset, now_ns):
        finding = ""  # no finding: it would describe steps before the standstill
    elif wrong := [found for found in watched.checked.findings if found.severity == "critical"]:
        finding = short(wrong[0])  # before any verdict on speed
    elif watched.mismatch:
        finding = f"ranks call different operations: {watched.mismatch}"
    else:
        finding = _verdict(watched, preset) if watched.are_clocks_known else CLOCKS_UNKNOWN
    known = _by_hand(watched, with_waits=not still and not watched.mismatch)
    return " · ".join(filter(None, [still, known, finding]))


def _starting(live: Live, world_size: int) -> str:
    if live.notice and not live.ranks:  # the launch waits for nodes, or in a queue
        return live.notice
    if live.step:
        return "warming up"
    if not world_size:
        return "starting: no rank has computed a gradient yet"
    connected = f"starting: {len(live.ranks)} of {count(world_size, 'rank')} connected"
    ready = sum(rank.state == "running" for rank in live.ranks.values())
    if ready == world_size:
        return "starting: the first step is under way"
    return connected + (f", {ready} ready" if len(live.ranks) == world_size else "")


def _of_trial(ended: RunMonitor, preset: Preset) -> str:
    """The verdict on the last two seconds of a launch that has succeeded; otherwise empty."""
    if ended.live.status != "ok" or not ended.judgement or not ended.are_clocks_known:
        return ""
    return f"{ended.live.trial}: {_verdict(ended, preset)}"


def refusal(refused: Refused) -> str:
    """Says how many messages were rejected, and why."""
    return f"{count(refused.count, 'message')} rejected and not recorded: {refused.why}"


def _ended(live: Live, preset: Preset) -> str:
    """The outcome of the launch that ended last; after the whole run, also every trial that failed."""
    if live.finished == launches(preset, live) and live.failures:
        is_one = len(preset.trials) == 1
        return "failed: " + "; ".join(why if is_one else f"{trial} ({why})" for trial, why in live.failures.items())
    if live.error:
        return f"{live.status}: {live.error.splitlines()[0]}"
    imports = preset.kind != "command" and preset.engine.name == "local"
    return {"ok": "done", "idle": "starting" + ": importing torch" * imports}.get(live.status, live.status)


def _standing_still(live: Live, states: dict[int, str], world_size: int, preset: Preset, now_ns: int) -> str:
    """Which ranks have not arrived at which collective, if a rank is stalled."""
    if not any(state.startswith(STALLED) for state in states.values()):
        return ""
    positions = {}  # the states of the processes are unknown: messages do not carry them
    for rank in live.ranks.values():
        is_over = rank.state in ("done", "failed")
        if not is_over or preset.kind == "command":
            silent = not is_over and silent_s(rank, now_ns) > 0
            positions[rank.rank] = replace(rank.progress, silent=silent, is_over=is_over)
    return describe_positions(positions, world_size)[0] if positions else ""


def _by_hand(watched: RunMonitor, *, with_waits: bool) -> str:
    """Which delays the user has injected, and how long the other ranks have waited since."""
    delays = watched.live.injected
    if not delays:
        return "" if delays is None else "You have removed all delays"
    return _delays("You delay", delays) + (_waits(delays, watched.judgement) if with_waits else "")


def _delays(subject: str, delays: Delays) -> str:
    """For example: You delay rank 1 by 20 ms in backward, in 1 step of 5."""
    return f"{subject} {listed([_delay(each) for each in delays], 2)}"


def _delay(delay: Bottleneck) -> str:
    who = f"rank{'s' * (len(delay.ranks) > 1)} {listed([*map(str, delay.ranks)])}"
    length = f"{'about ' * (delay.jitter != 'none')}{delay.sleep_ms:g} ms{' a call' * (delay.per == 'call')}"
    return f"{who} by {length} in {delay.at}{f', in 1 step of {delay.every}' * (delay.every > 1)}"


def _waits(delays: Delays, judgement: Judgement | None) -> str:
    """For example: ; rank 0 waits 25.7 ms a step for it. Empty if several ranks are delayed, or waits are unknown."""
    late = {rank for each in delays for rank in each.ranks}
    if judgement is None:
        return "; no step has shown it yet"
    others = sorted(judgement.steps[0].ranks.keys() - late)
    if len(late) > 1 or not others or judgement.analysis.withheld:
        return ""
    ms = median(wait_ms(judgement.steps, rank) or 0.0 for rank in others)
    who = f"rank {others[0]} waits" if len(others) == 1 else f"the {len(others)} others wait"
    return f"; {who} {seconds(ms / MS_PER_S)} a step{' for it' * (judgement.rank in late)}"


def _verdict(watched: RunMonitor, preset: Preset) -> str:
    """The judgement in words: of the last two seconds, or of the shorter time since the delays were changed."""
    judgement, world_size = watched.judgement, watched.world_size(preset)
    if behind := [rank.device for rank in watched.live.ranks.values() if is_host_time(rank.device)]:
        unknown = "; who waits is unknown" * (world_size > 1)
        return f"Phases ({HOST_TIME}) are host time: {behind[0]} may be behind{unknown}. See torch.profiler"
    if world_size == 1:
        return "one process, so there is nobody to wait for"
    if judgement is None:
        return "" if watched.live.changed_ns else "no waits measured yet"
    analysis = judgement.analysis
    error = f"±{seconds(analysis.uncertainty.clock_ns / S)}" if analysis.uncertainty else ""
    if error and analysis.withheld:
        return f"the clock error ({error}) exceeds the measured waits, so they are hidden"
    idle = f"{analysis.wait_share:.0%} of the time for a late rank, {analysis.transfer_share:.0%} in transfers"
    shares = f"Ranks idle {idle}" + (f"; clock error {error}" if error else "")
    return in_a_row([_late(watched, judgement, preset), DISTURBED * judgement.disturbed, shares], ".")


def _late(watched: RunMonitor, judgement: Judgement, preset: Preset) -> str:
    """Which rank the others wait for. If that is uncertain, the most likely rank, with the reason for the doubt."""
    analysis, by_hand = judgement.analysis, watched.live.injected
    if culprit := analysis.culprit:
        if by_hand and culprit.rank in {rank for each in by_hand for rank in each.ranks}:
            late = seconds(culprit.excess_s.estimate / len(judgement.steps))
            return f"Measured: {late} a step, {'in every phase' if culprit.slower else f'in {culprit.phase}'}"
        return next(short(finding) for finding in analysis.findings if finding.kind is Kind.LATE_RANK)
    if analysis.rank_without_core is not None:
        return next(short(finding) for finding in analysis.findings if finding.kind is Kind.NO_CORE)
    if judgement.rank is not None:  # the rank is delayed, by the trial or by the user (which `_by_hand` has said)
        trial = watched.trial(preset)
        own = still_to_come(trial.bottleneck) if trial and by_hand is None else ()
        return _delays("The trial delays", own) + _waits(own, judgement) if own else ""
    if judgement.doubted:
        return short(judgement.doubted)
    others = [finding for finding in analysis.findings if finding.kind not in (*ABOUT_LATE_RANK, *IDLE, Kind.NOTHING)]
    if others:
        return short(others[0])
    return "Ranks wait by turns: no rank stands out" if judgement.waits_for else ""


def steps(live: Live) -> str:
    """The launch's progress: steps made and their total or, if that is unknown, the share of the current epoch."""
    if live.steps:
        return f"step {live.step} of {live.steps}"
    if not live.step:
        return ""
    if live.epoch is None:
        return f"step {live.step}"
    number, share = live.epoch
    return f"step {live.step} · {share:.0%} of epoch {number}"


def checks(watched: RunMonitor) -> str:
    """How many checks of a watched training are right so far, and the names of those that are not."""
    lights = [light for light in watched.checked.lights if light.state in ("right", "wrong")]
    wrong = [light.name for light in lights if light.state == "wrong"]
    return f"✗ {', '.join(wrong)}" if wrong else f"✓ {count(len(lights), 'check')}" if lights else ""


def part_done(preset: Preset, live: Live) -> float:
    """The part of the run that is done, from 0 to 1: launches that ended, and the running launch by its steps."""
    of_launch = min(1.0, live.step / live.steps) if live.status == "running" and live.steps else 0.0
    return min(1.0, (live.finished + of_launch) / max(1, launches(preset, live)))


def launches(preset: Preset, live: Live) -> int:
    """The number of launches that the whole run has: without the remaining repeats of a failed or skipped trial."""
    return sum(live.over.get(trial.name, preset.repeats) for trial in preset.trials)


def left_s(preset: Preset, live: Live, now_ns: int) -> float | None:
    """Seconds until the run ends; None if unknown."""
    if live.began_ns is None or live.status == "interrupted" or preset.has_no_end:
        return None
    to_come = launches(preset, live) - live.finished
    finished = live.finished - live.resumed  # launches of this session only, like began_ns
    if live.status != "running":
        return to_come * (now_ns - live.began_ns) / S / finished if to_come and finished else None
    # Assume that the running launch keeps its pace, and that each further launch takes as long as those so far.
    running_s = (now_ns - live.launched_ns) / S
    usual_s = (live.launched_ns - live.began_ns) / S / finished if finished else None
    rest_s = _rest_s(live)
    if rest_s is None and usual_s is not None:
        rest_s = max(0.0, usual_s - running_s)
    if rest_s is None:
        return None
    return rest_s + (to_come - 1) * (usual_s if usual_s is not None else running_s + rest_s)


def _rest_s(live: Live) -> float | None:
    """Seconds until the running launch ends; None until enough steps have been made to measure the pace."""
    rates = [rank.steps_per_s for rank in live.ranks.values()]
    slowest = min((rate for rate in rates if rate), default=None)
    if live.steps is None or slowest is None or live.step < RATE_OVER:
        return None
    return (live.steps - live.step) / slowest


def clock(seconds: float) -> str:
    """Formats seconds as minutes and seconds: 1:05."""
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"

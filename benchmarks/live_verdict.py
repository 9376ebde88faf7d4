"""How soon is a rank named that becomes late, how soon is it no longer, and is anybody else named meanwhile?

Goal: within 3 s, never a wrong one first. Each launch trains undisturbed for a while. Then one rank is late in every
step: by a delay of the trial's own, which the console only measures; or by delays put in by hand, as with the key `b`,
which it knows. The stream is folded as it comes, and looked at four times a second.

    python benchmarks/live_verdict.py [LAUNCHES] [BUSY]      BUSY: so many processes that keep a core busy beside it
"""

import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from ddptui.config.preset import Preset
from ddptui.config.trial import Bottleneck
from ddptui.config.values import make_trial
from ddptui.host.machine import describe
from ddptui.live import headline
from ddptui.live.monitor import YOUNG_NS, RunMonitor
from ddptui.run import runner
from ddptui.store.runs import Run
from ddptui.wire.messages import Step
from ddptui.wire.records import Ended, Launched, Message

SITES = ("data", "forward", "backward", "aggregate")
STRATEGIES = ("all_reduce", "ddp")
QUIET_STEPS, LATE_STEPS, SLEEP_MS = 300, 150, 25.0
BY_HAND_MS = (25.0, 500.0)
QUIET_S, LATE_S = 5.0, 6.0
LOOK_EVERY_S = 0.25


class Change(NamedTuple):
    """What came of a delay that set in or, with 0 ms, was taken out."""

    ms: float
    s: float | None = None  # until it was named, or no longer
    wrong: tuple[str, ...] = ()  # whom else the console named meanwhile


def trial(number: int, **fields: Any) -> dict[str, Any]:
    strategy = STRATEGIES[number // 4 % 2]
    return {"name": f"launch-{number}", "strategy": strategy, "threads": 1, "sched_batch": True, "lr": 0.001} | fields


def preset(trials: list[dict[str, Any]]) -> Preset:
    made = tuple(map(make_trial, trials))
    return Preset(name="live", title="", group="", about="", baseline="launch-0", repeats=1, trials=made)


def late(number: int, sleep_ms: float, **fields: Any) -> Bottleneck:
    at: Any = SITES[number % len(SITES)]
    return Bottleneck(at=at, ranks=(random.randrange(2),), sleep_ms=sleep_ms, **fields)


@contextmanager
def stream(chosen: Preset, controls: runner.RunControls | None = None) -> Iterator[Iterator[Message]]:
    with tempfile.TemporaryDirectory() as folder:
        run = Run.create(Path(folder), chosen, describe())
        with closing(runner.run_preset(chosen, run, controls)) as messages:
            yield messages


def measured(launches: int) -> Iterator[Change]:
    """Delays of the trials' own."""
    own = {f"launch-{number}": late(number, SLEEP_MS, from_step=QUIET_STEPS) for number in range(launches)}
    trials = [
        trial(number, steps=QUIET_STEPS + LATE_STEPS, bottleneck=(delay,)) for number, delay in enumerate(own.values())
    ]
    watched, began, change, looked = RunMonitor(), None, Change(SLEEP_MS), 0.0
    with stream(preset(trials)) as messages:
        for message in messages:
            watched.add([message])
            if isinstance(message, Launched):
                began, change, delay = None, Change(SLEEP_MS), own[message.trial]
            if isinstance(message, Step) and message.slept and began is None:
                began = message.slept[0].begin_ns / 1e9
            if change.s is None and time.monotonic() - looked > LOOK_EVERY_S:
                looked = time.monotonic()
                judgement = watched.judge()
                culprit = judgement.analysis.culprit if judgement else None
                if culprit and began is not None and (culprit.rank, culprit.phase) == (delay.ranks[0], delay.at):
                    change = change._replace(s=looked - began)
                elif culprit:
                    change = change._replace(wrong=(*change.wrong, f"rank {culprit.rank} {culprit.phase}"))
            if isinstance(message, Ended):
                yield change


def by_hand(number: int) -> Iterator[Change]:
    """Delays put into a launch by hand, and taken out: what the screen says of each."""
    controls, watched = runner.RunControls(), RunMonitor()
    chosen = preset([trial(0, strategy=STRATEGIES[number // 4 % 2], epochs=0)])
    delays = [late(number, ms) for ms in BY_HAND_MS]
    plan = [change for delay in delays for change in ((delay,), ())]
    change: Change | None = None  # at first nothing has changed
    rank, since, looked = delays[0].ranks[0], None, 0.0
    with stream(chosen, controls) as messages:
        for message in messages:
            watched.add([message])
            now = time.monotonic()
            if now - looked < LOOK_EVERY_S or watched.live.step < QUIET_STEPS // 10:
                continue
            looked = now
            watched.look(time.monotonic_ns())
            words = headline.headline_text(watched, {}, chosen, time.monotonic_ns())
            if since is None:
                since = now  # the first steps are over
            elif now - since > (LATE_S if change and change.ms else QUIET_S):
                if change:
                    yield change
                if not plan:
                    controls.stop()
                    since = now + 1e9
                    continue
                put_in, since = plan.pop(0), now
                change = Change(put_in[0].sleep_ms if put_in else 0)
                rank = put_in[0].ranks[0] if put_in else rank
                controls.inject(put_in, watched.live.launched_ns)
            elif change:
                change = seen(change, watched, words, rank, now - since)


def seen(change: Change, watched: RunMonitor, words: str, rank: int, since_s: float) -> Change:
    judgement = watched.judgement
    doubted = judgement.doubted.rank if judgement and judgement.doubted else None
    named = {watched.culprit, doubted} - {None}
    right = {rank} if change.ms else set()
    if change.s is None and named == right and (not change.ms or f"You delay rank {rank}" in words):
        return change._replace(s=since_s)
    is_wrong = named - right if change.ms else since_s < YOUNG_NS / 1e9 and change.s is not None and named
    return change._replace(wrong=(*change.wrong, f"{words} ({since_s:.1f} s)")) if is_wrong else change


def show(what: str, changes: list[Change]) -> None:
    took = [change.s for change in changes if change.s is not None]
    times = f": after {median(took):.2f} s, at most {max(took):.2f} s" if took else ""
    print(f"{what}: {len(took)} of {len(changes)}{times}")
    for change in changes:
        if change.wrong:
            print("  another name:", *change.wrong[:3], sep="\n    ")


def main() -> None:
    launches = int(sys.argv[1]) if len(sys.argv) > 1 else 16
    busy = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    random.seed(launches)
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(busy)]
    try:
        show(f"{SLEEP_MS:g} ms of the trial's own, measured", [*measured(launches)])
        changes = [change for number in range(launches) for change in by_hand(number)]
        for ms in BY_HAND_MS:
            show(f"{ms:g} ms by hand, named", [change for change in changes if change.ms == ms])
        show("taken out by hand, no longer named", [change for change in changes if not change.ms])
    finally:
        for loop in loops:
            loop.kill()


if __name__ == "__main__":
    main()

"""A minute of more than the console should ever hear: 64 ranks, 20,000 messages a second, strangers who never stop, and
a disk that stands still now and then. Is anything lost, does a rank ever wait, does memory grow?

Everything is real but the training: the hub, the journal, the live state, the results.

    python -m benchmarks.soak [SECONDS [RANKS [MESSAGES_A_SECOND]]]
"""

import multiprocessing
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import msgspec
import psutil
import zmq

from ddptui.analysis import thinning
from ddptui.config.preset import Preset
from ddptui.config.values import make_trial
from ddptui.engines.rank_server import RankServer
from ddptui.findings.compare import RunningResults
from ddptui.live.monitor import RunMonitor
from ddptui.store.journal import RepeatJournal
from ddptui.wire.connection import HUB
from ddptui.wire.messages import VERSION, Collective, Done, Hello, RankMessage, Ready, Step
from ddptui.wire.records import Alive, Ended, Launched, Message

PROCESSES = 4  # for all ranks
TICK_S = 0.05
HOSTILE_A_TICK = 100  # frames
SLOW_S, SLOW_EVERY_S = 0.05, 1.0  # of the disk
STUCK_S, STUCK_AT = 3.0, 0.4  # once, after this part of the time
LOOK_S = 0.25
MB = 2**20
SPAWN = multiprocessing.get_context("spawn")


class SlowDisk:
    """A journal's file on a disk that takes its time, and once stands still."""

    def __init__(self, file: IO[bytes], seconds: float) -> None:
        self._file = file
        self._stuck_at = time.monotonic() + STUCK_AT * seconds
        self._next = 0.0
        self.slowest_s = 0.0
        self.fileno, self.close = file.fileno, file.close

    def write(self, data: bytes) -> int:
        return self._file.write(data)

    def flush(self) -> None:
        begin = time.monotonic()
        if begin > self._stuck_at:
            self._stuck_at = float("inf")
            time.sleep(STUCK_S)
        elif begin > self._next:
            self._next = begin + SLOW_EVERY_S
            time.sleep(SLOW_S)
        self._file.flush()
        self.slowest_s = max(self.slowest_s, time.monotonic() - begin)


def step_of(rank: int, number: int) -> Step:
    now = time.monotonic_ns()
    call = Collective("all_reduce", 0, 8_000, now + 10, now + 10, now + 10, now + 900)
    phases = (100, 200, 300, 400, 0)
    return Step(rank=rank, step=number, epoch=0, warmup=False, begin_ns=now, end_ns=now + 1_000, phases_ns=phases,
                samples=64, loss=0.5, collectives=(call,))  # fmt: skip


def speak(ranks: list[int], world_size: int, a_second: int, seconds: float, hub: tuple[str, str], told: Any) -> None:
    """Ranks with a reporter each, as a training loop uses it. Tells: messages said, dropped, the longest `say`."""
    import os

    endpoint, token = hub
    os.environ[HUB] = endpoint
    from workers.instruments.reporter import Reporter

    reporters = {rank: Reporter(rank, heartbeat=False) for rank in ranks}
    said, slowest = 0, 0.0
    for rank, reporter in reporters.items():
        reporter.send(
            Hello(version=VERSION, token=token, rank=rank, world_size=world_size, at_ns=time.monotonic_ns(),
                  host="here", pid=rank, device="cpu", threads=1, torch="none")
        )  # fmt: skip
        reporter.send(Ready(rank=rank, at_ns=time.monotonic_ns(), steps=10**9, parameters=1))
    per_tick, number, begin = round(a_second * TICK_S), 0, time.monotonic()
    for tick in range(round(seconds / TICK_S)):
        for _ in range(per_tick):
            for rank, reporter in reporters.items():
                message = step_of(rank, number)
                before = time.perf_counter()
                reporter.send(message)
                slowest = max(slowest, time.perf_counter() - before)
                said += 1
            number += 1
        time.sleep(max(0.0, begin + (tick + 1) * TICK_S - time.monotonic()))
    for rank, reporter in reporters.items():
        reporter.send(
            Done(rank=rank, at_ns=time.monotonic_ns(), correct=0, evaluated=0, parameters={}, buffers={},
                 bottleneck_fired=0, bottleneck_ns=0, dropped=reporter.dropped)
        )  # fmt: skip
        reporter.close()
    told.put((said, sum(reporter.dropped for reporter in reporters.values()), slowest))


def disturb(seconds: float, hub: tuple[str, str], told: Any, over: Any) -> None:
    """Strangers: noise, no token, the token with what does not fit, replays. Tells how many frames were sent, and stays
    until all have been heard: what a peer that ends leaves in its socket is lost."""
    endpoint, token = hub
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    chance, sent, begin = random.Random(1), 0, time.monotonic()
    fits = Hello(
        version=VERSION, token=token, rank=0, world_size=1, at_ns=0, host="", pid=0, device="", threads=1, torch=""
    )
    frames = [
        b"noise", msgspec.msgpack.encode([step_of(0, 0)]), msgspec.msgpack.encode([fits]),
        msgspec.msgpack.encode([msgspec.structs.replace(fits, version=9)]),
        msgspec.msgpack.encode([msgspec.structs.replace(fits, token="guessed")]), bytes(100_000),
    ]  # fmt: skip
    strangers = [context.socket(zmq.DEALER) for _ in range(20)]
    for stranger in strangers:
        stranger.connect(endpoint)
    while time.monotonic() - begin < seconds:
        for _ in range(HOSTILE_A_TICK):
            chance.choice(strangers).send(frames[-1] if sent % 1000 == 0 else chance.choice(frames[:-1]))
            sent += 1
        time.sleep(max(0.0, begin + sent / HOSTILE_A_TICK * TICK_S - time.monotonic()))
    told.put(sent)
    over.wait()
    for stranger in strangers:
        stranger.close(linger=0)
    context.term()


class Heard:
    """What the console has kept, and what it took."""

    def __init__(self) -> None:
        self.steps: Counter[int] = Counter()
        self.disorder = 0
        self.rss: list[float] = []
        self.results = RunningResults(preset(2), "soak", {}).results

    def add(self, message: RankMessage) -> None:
        if isinstance(message, Step):
            self.disorder += message.step != self.steps[message.rank]
            self.steps[message.rank] += 1


def preset(ranks: int) -> Preset:
    trial = make_trial({"name": "soak", "world_size": ranks, "batch_size": 1024})
    return Preset(name="soak", title="", group="", about="", baseline="soak", repeats=1, trials=(trial,))


def console(hub: RankServer, repeat: RepeatJournal, talkers: list[Any], heard: Heard) -> None:
    """What lab, headless and session do with a message, until all who speak have ended."""
    monitor, running_results, looked = RunMonitor(), RunningResults(preset(hub.world_size), "soak", {}), 0.0
    process = psutil.Process()

    def take(message: Message) -> None:
        repeat.write(message)
        monitor.add([message])
        running_results.add(message)

    take(Launched(trial="soak", repeat=1, at_ns=time.monotonic_ns(), command=()))
    for messages in received(hub, talkers):
        for message in messages:
            heard.add(message)
            take(message)
        if time.monotonic() - looked > LOOK_S:
            looked = time.monotonic()
            monitor.look(time.monotonic_ns())
            hub.send(Alive())
            heard.rss.append(process.memory_info().rss / MB)
    take(Ended(at_ns=time.monotonic_ns(), status="ok"))
    heard.results = running_results.results
    heard.rss.append(process.memory_info().rss / MB)


def received(hub: RankServer, talkers: list[Any]) -> Iterator[list[RankMessage]]:
    """Until all who speak have ended, and nothing more has come for a while."""
    while any(talker.is_alive() for talker in talkers):
        yield hub.receive(100)
    refused = -1
    while (messages := hub.receive(500)) or refused != hub.refused:
        refused = hub.refused
        yield messages


def main() -> None:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 60.0
    ranks = int(sys.argv[2]) if len(sys.argv) > 2 else 64
    rate = int(sys.argv[3]) if len(sys.argv) > 3 else 20_000
    words, noise, heard = SPAWN.SimpleQueue(), SPAWN.SimpleQueue(), Heard()
    with RankServer(ranks) as hub, tempfile.TemporaryDirectory() as folder:
        where = (hub.endpoint, hub.token)
        shares = [list(range(first, ranks, PROCESSES)) for first in range(min(PROCESSES, ranks))]
        talkers = [
            SPAWN.Process(target=speak, args=(own, ranks, rate // ranks, seconds, where, words)) for own in shares
        ]
        over = SPAWN.Event()
        stranger = SPAWN.Process(target=disturb, args=(seconds, where, noise, over))
        for process in (*talkers, stranger):
            process.start()
        path = Path(folder) / "messages.jsonl"
        begin, before = time.monotonic(), psutil.Process().cpu_times()
        with path.open("wb") as file:
            disk = SlowDisk(file, seconds)
            console(hub, RepeatJournal(Path(folder), 1, disk), talkers, heard)  # type: ignore[arg-type]
        took, after = time.monotonic() - begin, psutil.Process().cpu_times()
        kept = sum(line.startswith(b'{"type":"Step"') for line in path.open("rb"))
        told = [words.get() for _ in shares]
        sent = noise.get()
        over.set()
        for process in (*talkers, stranger):
            process.join()
    report(told, sent, hub.refused, heard, kept, disk.slowest_s)
    busy = after.user + after.system - before.user - before.system
    print(f"console                  {100 * busy / took:.0f} % of a core over {took:.0f} s")


def report(
    told: list[tuple[int, int, float]], sent: int, refused: int, heard: Heard, kept: int, slowest_s: float
) -> None:
    said, dropped, say_s = sum(own[0] for own in told), sum(own[1] for own in told), max(own[2] for own in told)
    steps, rss = sum(heard.steps.values()), heard.rss
    [repeat] = heard.results.trials[0].repeats or [None]
    print(f"steps told               {said:,}; in the journal {kept:,}, lost {said - dropped - steps:,}, "
          f"dropped {dropped:,}, out of order {heard.disorder:,}")  # fmt: skip
    print(f"hostile frames           {sent:,}; refused {refused:,}")
    print(f"longest `say`            {1000 * say_s:.2f} ms; slowest write of the journal {slowest_s:.2f} s")
    print(f"memory of the console    {rss[0]:.0f} MB at first, {rss[len(rss) // 2]:.0f} halfway, "
          f"{rss[-2]:.0f} at the end, {rss[-1]:.0f} with the results")  # fmt: skip
    if repeat is not None:
        print(f"steps looked at          {repeat.looked_at or repeat.steps:,} of {repeat.steps:,} "
              f"(at most {thinning.MOST_EVENTS:,} steps and collectives of all ranks)")  # fmt: skip


if __name__ == "__main__":
    main()

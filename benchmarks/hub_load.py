"""What does it cost the console to hear 4,000 steps a second from 8 ranks: receive, fold, keep in the journal?

Goal: under a tenth of a core. Measured beside the same console with 8 ranks that only beat, in turn.

    python benchmarks/hub_load.py [SECONDS [ROUNDS]]
"""

import multiprocessing
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import msgspec
import psutil
import zmq

from ddptui.engines.rank_server import RankServer
from ddptui.live.fold import fold
from ddptui.live.state import Live
from ddptui.store.journal import RepeatJournal
from ddptui.wire.messages import VERSION, Heartbeat, Hello, Step

RANKS = 8
STEPS_PER_S = 500  # a rank
FRAME_EVERY_S = 0.05


def rank(number: int, endpoint: str, token: str, steps_per_s: int, seconds: float, world_size: int = RANKS) -> None:
    """Say what a rank would say, at its pace, 20 frames a second."""
    context = zmq.Context()
    socket = context.socket(zmq.DEALER)
    socket.connect(endpoint)
    now = time.monotonic_ns()
    first = Hello(version=VERSION, token=token, rank=number, world_size=world_size, at_ns=now, host="here", pid=number,
                  device="cpu", threads=1, torch="none")  # fmt: skip
    socket.send(msgspec.msgpack.encode([first]))
    per_frame = round(steps_per_s * FRAME_EVERY_S)
    step = 0
    begin = time.monotonic()
    for frame in range(round(seconds / FRAME_EVERY_S)):
        messages: list[Step | Heartbeat] = []
        for _ in range(per_frame):
            now = time.monotonic_ns()
            phases = (10_000, 700_000, 800_000, 300_000, 100_000)
            messages.append(Step(rank=number, step=step, epoch=0, warmup=False, begin_ns=now, end_ns=now + 2_000_000,
                                 phases_ns=phases, samples=64, loss=0.1234567))  # fmt: skip
            step += 1
        if frame % 20 == 0:
            messages.append(Heartbeat(rank=number, at_ns=now, cpu_percent=97.0, rss_bytes=5 * 10**8))
        if messages:
            socket.send(msgspec.msgpack.encode(messages))
        time.sleep(max(0.0, begin + (frame + 1) * FRAME_EVERY_S - time.monotonic()))
    socket.close()
    context.term()


def console(steps_per_s: int, seconds: float) -> tuple[float, int]:
    """The share of a core that the console takes, in per cent, and the messages that it has heard."""
    process, live, heard = psutil.Process(), Live(), 0
    with RankServer(RANKS) as hub, tempfile.TemporaryDirectory() as folder:
        spawn = multiprocessing.get_context("spawn")
        ranks = [
            spawn.Process(target=rank, args=(number, hub.endpoint, hub.token, steps_per_s, seconds))
            for number in range(RANKS)
        ]
        for started in ranks:
            started.start()
        with (Path(folder) / "messages.jsonl").open("wb") as journal:
            repeat = RepeatJournal(Path(folder), 1, journal)
            while len(hub.hellos) < RANKS:
                fold(live, hub.receive(100))
            before, begin = process.cpu_times(), time.monotonic()
            while time.monotonic() - begin < seconds - 1:
                messages = hub.receive(100)
                for message in messages:
                    repeat.write(message)
                fold(live, messages)
                heard += len(messages)
            after, took = process.cpu_times(), time.monotonic() - begin
            repeat.close()
        for started in ranks:
            hub.receive(0)
            started.join()
    return 100 * (after.user + after.system - before.user - before.system) / took, round(heard / took)


def main() -> None:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 6.0
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 3
    timed = [(console(STEPS_PER_S, seconds), console(0, seconds)) for _ in range(rounds)]
    loaded, quiet = (median(share for share, _ in side) for side in zip(*timed, strict=True))
    rate = median(rate for (_, rate), _ in timed)
    print(f"{rate:5.0f} messages/s from {RANKS} ranks  {loaded:5.1f} % of a core")
    print(f"heartbeats alone               {quiet:5.1f} %")
    print(f"of the goal (10 %)             {loaded / 10:5.2f}     (median of {rounds} rounds of {seconds:g} s)")


if __name__ == "__main__":
    main()

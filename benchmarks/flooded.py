"""The console with a run that is nothing but messages: through the real hub, journal and panes, without training.

    python -m benchmarks.flooded RUNS RANKS MESSAGES_A_SECOND SECONDS

Says in the end, on stdout, how many messages were sent and how many were drawn from.
"""

import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import NamedTuple

from ddptui.config.preset import Preset
from ddptui.config.values import make_trial
from ddptui.engines.local.warm import WarmParent
from ddptui.engines.rank_server import RankServer
from ddptui.findings.repeat import Outcomes
from ddptui.run import runner
from ddptui.run.runner import RunControls
from ddptui.store.runs import Run
from ddptui.tui.app import Console
from ddptui.tui.start import give_way
from ddptui.wire.messages import Step
from ddptui.wire.records import Ended, Launched, Message

heard = {"steps": 0}


class Flood(NamedTuple):
    """rate: messages a second, of all ranks together."""

    ranks: int
    rate: int
    seconds: float


def speaker(number: int, hub: RankServer, of: Flood) -> "subprocess.Popen[bytes]":
    what = (number, hub.endpoint, hub.token, of.rate // of.ranks, of.seconds, of.ranks)
    return subprocess.Popen([sys.executable, "-c", f"from benchmarks.hub_load import rank; rank(*{what!r})"])


def flood(
    of: Flood, preset: Preset, run: Run, controls: RunControls, *, finished: Outcomes, warm: WarmParent
) -> Iterator[Message]:
    """What lab.run_preset does, with ranks that only talk. `finished` is empty: no run is resumed here."""
    with RankServer(of.ranks) as hub, run.begin("flood", 1) as repeat:
        ranks = [speaker(number, hub, of) for number in range(of.ranks)]
        first: list[Message] = [Launched(trial="flood", repeat=1, at_ns=time.monotonic_ns(), command=())]
        while any(process.poll() is None for process in ranks) and controls.end() is None:
            for message in [*first, *hub.receive(100)]:
                heard["steps"] += isinstance(message, Step)
                repeat.write(message)
                yield message
            first = []
        last: list[Message] = list(hub.receive(0))
        for message in [*last, Ended(at_ns=time.monotonic_ns(), status="interrupted")]:
            heard["steps"] += isinstance(message, Step)
            repeat.write(message)
            yield message
        for process in ranks:
            process.terminate()
            process.wait()


def main() -> None:
    runs, of = Path(sys.argv[1]), Flood(int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4]))
    steps = round(of.rate / of.ranks * of.seconds)
    trial = make_trial({"name": "flood", "world_size": of.ranks, "batch_size": 1024, "steps": steps})
    preset = Preset(name="flood", title="", group="", about="", baseline="flood", repeats=1, trials=(trial,))
    runner.lab.run_preset = partial(flood, of)  # type: ignore[assignment]
    threads = ThreadPoolExecutor(1)
    threads.submit(int).result()
    give_way()
    app = Console(runs, preset, threads=threads)
    app.run()
    if app.session is not None:
        app.session.close()
    threads.shutdown()
    print(f"heard {heard['steps']}")


if __name__ == "__main__":
    main()

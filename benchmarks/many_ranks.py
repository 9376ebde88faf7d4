"""Many ranks on one host: how long from a launch to the first step of all, and to its end; and the memory they take.

The warm parent is ready. Memory is the proportional set size (PSS: of a page that n processes share, each has 1/n),
summed over the ranks in the midst of a second launch; that of the warm parent is taken before.

    python -m benchmarks.many_ranks [RANKS ...]
"""

import sys
import time
from collections.abc import Generator, Iterable
from contextlib import closing

import psutil

from benchmarks.launches import messages
from ddptui.config.preset import Preset
from ddptui.config.values import make_trial
from ddptui.engines.local.warm import WarmParent
from ddptui.wire.messages import Hello, Step
from ddptui.wire.records import Ended, Message

STEPS = 20
LOOK_AT = 10  # the step in which memory is read
ENDLESS = 1_000_000  # steps
S, GB = 1e9, 2**30


def launch(ranks: int, warm: WarmParent, steps: int) -> Generator[Message]:
    """The messages of one launch, each rank with 4 samples a step."""
    trial = make_trial(
        {"name": "many", "strategy": "flat", "world_size": ranks, "threads": 1, "steps": steps, "batch_size": ranks * 4}
    )
    preset = Preset(name="many", title="", group="", about="", baseline="many", repeats=1, trials=(trial,))
    return messages(preset, warm)


def times(ranks: int, warm: WarmParent) -> tuple[float, float]:
    """Seconds to the first step of all ranks, and to the end."""
    first = end = 0
    begin = time.monotonic_ns()
    for message in launch(ranks, warm, STEPS):
        match message:
            case Step(step=0):
                first = max(first, message.end_ns)
            case Ended():
                assert message.status == "ok", message.error
                end = message.at_ns
    return (first - begin) / S, (end - begin) / S


def memory(ranks: int, warm: WarmParent) -> float:
    """GB of all ranks together."""
    pids: list[int] = []
    with closing(launch(ranks, warm, ENDLESS)) as heard:
        for message in heard:
            match message:
                case Hello():
                    pids.append(message.pid)
                case Step(step=step, rank=0) if step == LOOK_AT:
                    return pss(pids)
    raise AssertionError("the ranks ended")


def pss(pids: Iterable[int]) -> float:
    return sum(psutil.Process(pid).memory_full_info().pss for pid in pids) / GB


def main() -> None:
    with closing(WarmParent()) as warm:
        while not warm.is_ready(1):
            pass
        [keeper] = psutil.Process().children()
        print(f"the warm parent at rest: {pss(process.pid for process in keeper.children()):.2f} GB")
        for ranks in map(int, sys.argv[1:] or ("2", "64")):
            first, end = times(ranks, warm)
            print(
                f"{ranks:4} ranks: to the first step of all {first:5.1f} s, to the end {end:5.1f} s; "
                f"memory {memory(ranks, warm):.2f} GB"
            )


if __name__ == "__main__":
    main()

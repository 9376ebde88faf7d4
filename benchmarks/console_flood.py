"""Does the console still answer when 5,000 messages a second come in, and does it lose any of 20,000 from 64 ranks?

Goals: from key to picture 10 ms in the median and 50 ms in 99 of 100; no message lost.

    python -m benchmarks.console_flood [KEYS]
"""

import random
import re
import sys
import tempfile
from itertools import cycle, islice
from statistics import median, quantiles

from benchmarks.terminal import Terminal

KEYS = (("j", 1), ("k", 0))  # and the rank that the cursor is on then: its row is written in bold
UNDER_WAY = rb"0\.1235"  # the loss of every step
TO_SETTLE_S = 3.0
PAUSE_S = (0.1, 0.6)  # between two keys
MANY_RANKS, MANY, MANY_S = 64, 20_000, 20.0


def console(runs: str, ranks: int, rate: int, seconds: float) -> Terminal:
    words = (runs, ranks, rate, seconds)
    return Terminal([sys.executable, "-m", "benchmarks.flooded", *map(str, words)], PYTHONPATH=".")


def key_to_picture_ms(keys: int) -> list[float]:
    with tempfile.TemporaryDirectory() as runs, console(runs, 8, 5_000, keys * max(PAUSE_S) + 60) as terminal:
        terminal.wait_for(UNDER_WAY)
        terminal.idle(TO_SETTLE_S)
        return [1000 * picture_s(terminal, *key) for key in islice(cycle(KEYS), keys)]


def picture_s(terminal: Terminal, key: str, rank: int) -> float:
    terminal.idle(random.uniform(*PAUSE_S))
    seen = len(terminal.painted)
    pressed = terminal.press(key)
    return terminal.wait_for(rb"\x1b\[1;[0-9;]*m +%d " % rank, seen) - pressed


def lost() -> tuple[int, int]:
    """How many of how many steps that ranks have told of."""
    with tempfile.TemporaryDirectory() as runs, console(runs, MANY_RANKS, MANY, MANY_S) as terminal:
        terminal.wait_for(b"interrupted")  # all ranks have said all
        terminal.press("q")
        terminal.wait_for(b"heard ")
        terminal.idle(0.5)
    [heard] = re.findall(rb"heard (\d+)", terminal.painted)
    sent = MANY_RANKS * sent_by_each(MANY // MANY_RANKS, MANY_S)
    return sent - int(heard), sent


def sent_by_each(steps_per_s: int, seconds: float) -> int:
    """As hub_load's ranks count them out, frame by frame."""
    return round(steps_per_s * 0.05) * round(seconds / 0.05)


def main() -> None:
    keys = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    took = key_to_picture_ms(keys)
    print(f"key to picture     {median(took):5.1f} ms in the median, {quantiles(took, n=100)[98]:5.1f} ms in 99 of 100 "
          f"(goals: 10, 50; {keys} keys, 5,000 messages/s)")  # fmt: skip
    missing, sent = lost()
    print(f"messages lost      {missing} of {sent} ({MANY:,} a second for {MANY_S:g} s from {MANY_RANKS} ranks)")


if __name__ == "__main__":
    main()

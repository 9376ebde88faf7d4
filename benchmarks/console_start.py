"""How soon does `ddptui presets` answer, against a Python that only imports its libraries?

Goal: at most 1.5 times. The two in turn, medians of pairs.

    python benchmarks/console_start.py [PAIRS]
"""

import subprocess
import sys
import time
from pathlib import Path
from statistics import median

CONSOLE = [str(Path(sys.executable).with_name("ddptui")), "presets"]
LIBRARIES = [sys.executable, "-c", "import click, msgspec, zmq, rich.table"]


def seconds(command: list[str]) -> float:
    begin = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - begin


def main() -> None:
    pairs = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    seconds(CONSOLE), seconds(LIBRARIES)  # once each unmeasured, for the page cache
    timed = [(seconds(CONSOLE), seconds(LIBRARIES)) for _ in range(pairs)]
    console, libraries = (median(side) * 1000 for side in zip(*timed, strict=True))
    ratio = median(ours / theirs for ours, theirs in timed)
    print(f"ddptui presets      {console:6.0f} ms")
    print(f"importing libraries {libraries:6.0f} ms")
    print(f"ratio               {ratio:6.2f}     (goal: at most 1.50; median of {pairs} pairs)")


if __name__ == "__main__":
    main()

"""How soon after Enter does the console show something, and what does it cost while eight ranks train?

Goals: 0.2 s more than a Textual app of one line, timed in turn with it: Python and Textual take most of the time; and
12 % of a core at four pictures a second in 120 × 40.

    python -m benchmarks.console_picture [STARTS [SECONDS]]
"""

import sys
import tempfile
from pathlib import Path
from statistics import median

from benchmarks.terminal import Terminal

CONSOLE = str(Path(sys.executable).with_name("ddptui"))
ONE_LINE = """
from textual.app import App
from textual.widgets import Static

class OneLine(App):
    def compose(self):
        yield Static("Lessons")

OneLine().run()
"""
EIGHT = """
[[trial]]
name = "eight"
world_size = 8
model = "mlp"
width = 64
steps = 100000
batch_size = 128
sched_batch = true
"""
UNDER_WAY = b"of 100000"  # steps, in the title
MORE_S = 0.2  # than Textual alone, for the first content


def first_content_s(*command: str) -> float:
    with tempfile.TemporaryDirectory() as runs, Terminal([*command], DDPTUI_RUNS=runs) as terminal:
        return terminal.wait_for(b"Lessons") - terminal.began


def share_of_a_core(seconds: float) -> float:
    with tempfile.TemporaryDirectory() as folder:
        preset = Path(folder, "eight.toml")
        preset.write_text(EIGHT)
        with Terminal([CONSOLE, "--preset", str(preset), "--runs", folder]) as terminal:
            terminal.wait_for(UNDER_WAY)
            terminal.idle(5)  # the first pictures, and all that is only done once
            before = terminal.cpu_s()
            terminal.idle(seconds)
            return 100 * (terminal.cpu_s() - before) / seconds


def main() -> None:
    starts = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    seconds = float(sys.argv[2]) if len(sys.argv) > 2 else 30.0
    commands = [CONSOLE], [sys.executable, "-c", ONE_LINE]
    for command in commands:
        first_content_s(*command)  # once unmeasured, for the page cache
    pairs = [[first_content_s(*command) for command in commands] for _ in range(starts)]
    first_s, least_s = (median(each) for each in zip(*pairs, strict=True))
    print(f"first content      {first_s:5.2f} s    (goal: {least_s + MORE_S:.2f} s; {starts} starts)")
    print(f"one line of text   {least_s:5.2f} s    (a Textual app that shows no more)")
    print(f"console, 8 ranks   {share_of_a_core(seconds):5.1f} %    (goal: 12 % of a core; {seconds:g} s)")


if __name__ == "__main__":
    main()

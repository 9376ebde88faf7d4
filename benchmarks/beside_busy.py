"""What each CPU preset takes beside one busy core, against quiet: the console's whole time, from start to answer.

Each preset runs headless, quiet and beside the busy process in turn, with its own steps and repeats, or with those that
--set and --repeats give. Goal: at most 2 times as long, and as many ratios.

    python -m benchmarks.beside_busy [PRESET …] [--set KEY=VALUE …] [--repeats N]
"""

import json
import subprocess
import sys
import tempfile
import time
from contextlib import AbstractContextManager, nullcontext

from benchmarks.launches import busy_processes
from ddptui.store.presets import load, preset_paths

GOAL = 2.0


def cpu_presets() -> list[str]:
    """The presets that end by themselves, and need no GPU."""
    found = {name: load(name) for name in preset_paths()}
    needs_gpu = {name for name, preset in found.items() if any(trial.device == "cuda" for trial in preset.trials)}
    return [name for name, preset in found.items() if name not in needs_gpu and not preset.has_no_end]


def took(preset: str, options: list[str], beside: AbstractContextManager[object]) -> tuple[float, int, int]:
    """How long its run took, in s; how many trials have figures; and how many of them a ratio."""
    with tempfile.TemporaryDirectory() as runs, beside:
        words = [sys.executable, "-m", "ddptui", "run", preset, "--json", "--runs", runs, *options]
        begin = time.monotonic()
        done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        lasted = time.monotonic() - begin
    summaries = [trial["summary"] for trial in json.loads(done.stdout)["trials"] if trial["summary"]]
    return lasted, len(summaries), sum(summary["ratio"] is not None for summary in summaries)


def main() -> None:
    words = sys.argv[1:]
    named = words[: next((at for at, word in enumerate(words) if word.startswith("--")), len(words))]
    options = words[len(named) :]
    for preset in named or cpu_presets():
        quiet_s, *_ = took(preset, options, nullcontext())
        busy_s, figures, ratios = took(preset, options, busy_processes(1))
        missed = "" if busy_s <= GOAL * quiet_s else "  MISSED"
        print(
            f"{preset:30} {quiet_s:6.1f} s, busy {busy_s:6.1f} s: {busy_s / quiet_s:.2f} times; "
            f"{ratios} ratios of {figures} trials{missed}",
            flush=True,
        )


if __name__ == "__main__":
    main()

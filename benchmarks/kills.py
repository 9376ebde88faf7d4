"""A console is killed (kill -9) at random moments of a run, again and again, and resumed: is the table complete in the
end, and is anybody or anything left?

    python -m benchmarks.kills [TIMES [SEED]]
"""

import json
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil

PRESET = """
repeats = 2
[defaults]
model = "mlp"
width = 16
depth = 1
steps = 300
warmup_steps = 2
threads = 1
stall_s = 60
[[trial]]
name = "one"
launch = "single"
[[trial]]
name = "two"
launch = "{mode}"
"""
MODES = ("spawn", "process", "launch")
LONGEST_S = 14.0  # after which the console is killed, at the latest
GONE_S = 5.0


def console(runs: Path, *words: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "ddptui", "--runs", str(runs), "--json", *words]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)


def kill(process: "subprocess.Popen[str]") -> list[psutil.Process]:
    """Who is still there some seconds later."""
    family = psutil.Process(process.pid).children(recursive=True)
    process.kill()
    process.communicate()
    return [each for each in psutil.wait_procs(family, GONE_S)[1] if each.status() != psutil.STATUS_ZOMBIE]


def folders() -> set[Path]:
    return set(Path(tempfile.gettempdir()).glob("ddptui-hub-*"))


def main() -> None:
    times = int(sys.argv[1]) if len(sys.argv) > 1 else 50
    chance = random.Random(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    killed = left = incomplete = finished = 0
    before = folders()
    while killed < times:
        with tempfile.TemporaryDirectory() as folder:
            runs, preset = Path(folder) / "runs", Path(folder) / "killed.toml"
            preset.write_text(PRESET.format(mode=chance.choice(MODES)), encoding="utf-8")
            running = console(runs, "--preset", str(preset))
            for _ in range(chance.randint(1, 4)):
                time.sleep(chance.uniform(0.5, LONGEST_S))
                if running.poll() is not None:
                    finished += 1
                    break
                left += len(kill(running))
                killed += 1
                begun = list(runs.glob("*/preset.toml"))
                running = console(runs, *(["--resume", "last"] if begun else ["--preset", str(preset)]))
            output, _ = running.communicate()
            trials = json.loads(output)["trials"]
            complete = [(trial["status"], len(trial["repeats"])) for trial in trials] == [("ok", 2), ("ok", 2)]
            incomplete += not complete
            print(f"{killed} kills, {left} processes left, {incomplete} tables incomplete", file=sys.stderr)
    print(f"kills: {killed} (and {finished} runs were over before)")
    print(f"processes left after {GONE_S:g} s: {left}; folders left: {len(folders() - before)}")
    print(f"tables that were not complete after --resume: {incomplete}")
    sys.exit(1 if left or incomplete else 0)


if __name__ == "__main__":
    main()

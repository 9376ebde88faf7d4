"""Record the twelve runs that the net is made of: `python -m tests.recorded.record [NAME…]`.

Each is a short run of its kind, made by the command line as a user types it. What says where it was recorded (paths,
the host's name) is replaced. `python -m tests.recorded.net` then writes down what is read from it.
"""

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).parent
REPO = HERE.parents[1]
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2"]
TRAINING = str(REPO / "tests/support/trainings/plain.py")
JOINED = """
title = "Two nodes that joined"
baseline = "even"
[defaults]
launch = "launch"
strategy = "ddp"
world_size = 2
model = "mlp"
width = 64
dataset = "digits"
batch_size = 64
steps = 40
threads = 1
[[trial]]
name = "even"
[[trial]]
name = "late"
[[trial.bottleneck]]
at = "backward"
ranks = [1]
sleep_ms = 20
"""
KEPT_STEPS = 40
SHORT = ("--set", f"steps={KEPT_STEPS}")


def main() -> None:
    for name in sys.argv[1:] or RECORDINGS:
        with tempfile.TemporaryDirectory() as folder:
            runs = Path(folder) / "runs"
            RECORDINGS[name](runs)
            [run] = (path.parent for path in runs.glob("*/preset.toml"))
            keep(run, HERE / "runs" / name, folder)
        print(name, "recorded")


def run_preset(*words: str) -> Callable[[Path], None]:
    def record(runs: Path) -> None:
        with console(runs, "run", *words, "--no-ui"):
            pass

    return record


def watch(runs: Path) -> None:
    with console(runs, "watch", "--no-ui", "--", *TORCHRUN, TRAINING, "ddp", "backward", "late_ms=20"):
        pass


def join(runs: Path) -> None:
    runs.mkdir(parents=True)
    preset = runs.parent / "joined.toml"
    preset.write_text(JOINED)
    with console(runs, "run", str(preset), "--no-ui", "--engine", "join", "--nodes", "2") as (process, _):
        ticket = await_one(runs, "*/ticket", process)
        nodes = [subprocess.Popen(ddptui("join", str(ticket), "--node", str(node))) for node in range(2)]
    for node in nodes:
        node.wait()


def interrupt(runs: Path) -> None:
    """The second repeat of three is interrupted in its middle."""
    with console(runs, "run", "quickstart", "--no-ui", "--repeats", "3", "--set", "steps=50") as (process, _):
        journal = await_one(runs, "*/trial-*/repeat-2/messages.jsonl", process)
        while journal.read_bytes().count(b'"type":"Step"') < 10:
            assert process.poll() is None, "it ended before it could be interrupted"
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)


RECORDINGS: dict[str, Callable[[Path], None]] = {
    "quickstart": run_preset("quickstart", "--repeats", "2", *SHORT),
    "who-waits": run_preset("who-waits", "--set", "steps=30"),
    "mistakes": run_preset("mistakes", "--repeats", "1", "--set", "epochs=2"),
    "faults": run_preset("faults", "--set", "steps=50"),
    "bottleneck-where": run_preset("bottleneck-where", "--repeats", "2", *SHORT),
    "strategies": run_preset("strategies", "--repeats", "1", "--set", "steps=25"),
    "dataparallel-split": run_preset("dataparallel-split", "--repeats", "1"),
    "primitives-measure": run_preset("primitives-measure", "--set", "max_bytes=65536", "--set", "iterations=30"),
    "primitives-see": run_preset("primitives-see"),
    "watched": watch,
    "joined": join,
    "interrupted": interrupt,
}


def ddptui(*words: str) -> list[str]:
    return [sys.executable, "-m", "ddptui", *words]


@contextmanager
def console(runs: Path, *words: str) -> Iterator[tuple["subprocess.Popen[bytes]", Path]]:
    process = subprocess.Popen(ddptui(*words), cwd=REPO, env={**os.environ, "DDPTUI_RUNS": str(runs)})
    try:
        yield process, runs
    finally:
        process.wait()


def await_one(folder: Path, pattern: str, process: "subprocess.Popen[bytes]") -> Path:
    while not (found := next(folder.glob(pattern), None)):
        assert process.poll() is None, f"it ended without {pattern}"
        time.sleep(0.05)
    return found


def keep(run: Path, at: Path, folder: str) -> None:
    shutil.rmtree(at, ignore_errors=True)
    shutil.copytree(run, at, ignore=shutil.ignore_patterns("lock", "*.pth", "ticket*"))
    for path in at.rglob("*"):
        if path.is_file():
            path.write_text(anonymous(path.read_text(encoding="utf-8"), folder), encoding="utf-8")


def anonymous(text: str, folder: str) -> str:
    for what, instead in (
        (folder, "/runs"),
        (sys.executable, "python"),
        (sys.prefix, "/python"),
        (sys.base_prefix, "/python"),
        (str(REPO), "/lab"),
        (socket.gethostname(), "host"),
    ):
        text = text.replace(what, instead)
    return text


if __name__ == "__main__":
    main()

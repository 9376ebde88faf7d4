"""Runs the real console as a user does, in a process of its own."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil

ENOUGH_S = 600  # a deadline is for hangs: on a busy machine, all launch modes one after another take more than 300 s
QUICK = 'model = "mlp"\nwidth = 16\ndepth = 1\nsteps = 8\nwarmup_steps = 2\nthreads = 1\n'


def arguments(*words: str) -> list[str]:
    return [sys.executable, "-m", "ddptui", *words]


def environment(runs: Path) -> dict[str, str]:
    return {**os.environ, "DDPTUI_RUNS": str(runs)}


def ddptui(runs: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, and print what it said: pytest shows it where a test fails. One that has no end is
    aborted, so that it says where it was."""
    command = [sys.executable, "-X", "faulthandler", *arguments(*words)[1:]]
    told = environment(runs) | variables
    with subprocess.Popen(command, env=told, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            out, error = process.communicate(timeout=ENOUGH_S)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGABRT)
            out, error = process.communicate()
            logs = "".join(f"\n{log}:\n{log.read_text()[-5000:]}" for log in sorted(runs.rglob("*.log")))
            raise AssertionError(f"{words} has not ended in {ENOUGH_S} s:\n{error}\n{logs}") from None
    print(out[-20_000:], error[-20_000:], sep="\n")
    return subprocess.CompletedProcess(process.args, process.returncode, out, error)


def start(runs: Path, *words: str) -> "subprocess.Popen[str]":
    """Start a command; its stderr can be read line by line."""
    return subprocess.Popen(
        arguments(*words), env=environment(runs), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def run_json(runs: Path, preset: Path, *words: str, **variables: str) -> tuple[dict[str, Any], int]:
    done = ddptui(runs, "--preset", str(preset), "--json", *words, **variables)
    assert done.stdout, done.stderr
    return json.loads(done.stdout), done.returncode


def results_of(runs: Path, preset: Path, *words: str, **variables: str) -> dict[str, Any]:
    """results.json of a run in which nothing may fail. A failure shows what the console said, and each trial's error:
    pytest would cut the results before it comes to that."""
    done = ddptui(runs, "--preset", str(preset), "--json", *words, **variables)
    results: dict[str, Any] = json.loads(done.stdout or '{"trials": []}')
    errors = [f"{trial['name']}: {trial['error']}" for trial in results["trials"] if trial["error"]]
    assert done.returncode == 0, "\n".join([done.stderr, *errors])
    return results


def write_preset(folder: Path, text: str) -> Path:
    path = folder / "preset.toml"
    path.write_text(text, encoding="utf-8")
    return path


def family(pid: int) -> list[psutil.Process]:
    """A process's descendants; those of torchrun are in sessions of their own, so parents tell, not groups."""
    return psutil.Process(pid).children(recursive=True)


def survivors(processes: list[psutil.Process], timeout_s: float) -> list[psutil.Process]:
    """Who is still there after `timeout_s`. Orphans are nobody's to wait for, so zombies count as gone."""
    _, alive = psutil.wait_procs(processes, timeout=timeout_s)
    return [process for process in alive if process.is_running() and process.status() != psutil.STATUS_ZOMBIE]

"""Slurm's commands as small programs that do as a file says: for what a real cluster would not do on demand."""

import fcntl
import json
import sys
from pathlib import Path
from typing import Any

import pytest

COMMANDS = ("sbatch", "squeue", "scancel")
PROGRAM = """\
#!{python} -SE
import fcntl, json, os, sys, time
bin, name, arguments = os.path.dirname(sys.argv[0]), os.path.basename(sys.argv[0]), sys.argv[1:]

def end(out="", error="", code=0):
    print(out, end="")
    print(error, end="", file=sys.stderr)
    sys.stdout.flush()
    sys.exit(code)

with open(bin + "/state.json", "r+") as file:
    fcntl.flock(file, fcntl.LOCK_EX)
    state = json.load(file)
    state["calls"].append([name, *arguments])
    if name == "scancel" and "scancel" not in state["broken"] and state["job"]:
        state["job"][0] = "CANCELLED"
    written = json.dumps(state)  # in one write: a caller that is out of patience kills this program anywhere
    os.pwrite(file.fileno(), written.encode(), 0)
    os.ftruncate(file.fileno(), len(written))

time.sleep(0 if "--test-only" in arguments else state["slow"].get(name, 0))
if name in state["broken"]:
    end("", state["broken"][name] + "\\n", 1)
if name == "sbatch" and "--test-only" not in arguments:
    end(state["answer"])
if name == "squeue":
    job = state["job"]
    if "--states=all" in arguments:
        end("|".join(job) + "\\n") if job else end("", "slurm_load_jobs error: Invalid job id specified\\n", 1)
    if job and job[0] in ("PENDING", "RUNNING", "SUSPENDED", "COMPLETING", "CONFIGURING", "REQUEUED"):
        end(job[0] + "\\n")
"""


class Fakes:
    """job: its state, reason and nodes; answer: sbatch's; broken: what a command says that does not do its work; slow:
    how long it takes."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        folder.mkdir()
        self._file = folder / "state.json"
        start: dict[str, Any] = {"job": [], "slow": {}, "calls": [], "answer": "17\n", "broken": {}}
        self._file.write_text(json.dumps(start))
        for name in COMMANDS:
            (folder / name).write_text(PROGRAM.format(python=sys.executable))
            (folder / name).chmod(0o755)
        monkeypatch.setenv("PATH", str(folder))
        self.folder = folder

    def set(self, **state: Any) -> None:
        """From now on."""
        with self._file.open("r+") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            now = json.load(file) | state
            file.seek(0)
            file.truncate()
            json.dump(now, file)

    def job(self, state: str, reason: str = "None", nodes: str = "") -> None:
        """There is one job, 17, and it is so."""
        self.set(job=[state, reason, nodes])

    def calls(self, name: str) -> list[list[str]]:
        """With which arguments a command has been called."""
        with self._file.open() as file:
            fcntl.flock(file, fcntl.LOCK_SH)  # not while a command writes
            calls = json.load(file)["calls"]
        return [arguments for command, *arguments in calls if command == name]

"""Keeps a job: submits it, and sees to it that it does not stay in the queue when nobody waits for it any more.

    python keeper.py FOLDER NAME

FOLDER is the launch's: job.sh is what it submits, wire.env what the job's tasks need, and goes when the job is to end.
Its standard input is a pipe whose other end only the console has. The first line that it prints is the job's number,
or why there is none. When it is told to end, or when the pipe closes because the console is gone, however it went, it
cancels the job and waits until no queue has it; if that does not happen, it prints why.

Nothing but Python's own modules: it is started by its path, as a job may be kept where ddptui is not installed.
"""

import getpass
import os
import shlex
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

SCRIPT, WIRE_ENV = "job.sh", "wire.env"
END = "end\n"  # what the console says; nothing: it is gone
ANSWER_S = 10.0  # for a command of Slurm's, before it counts as one that does not answer
SUBMIT_S = 30.0  # for sbatch, which may have to wait for its turn
POLITE_S = 5.0  # from SIGTERM to SIGKILL, and from there to whatever else Slurm can do
PATIENT_S = 60.0  # for the job to be gone, while the console waits for that
DOGGED_S = 1800.0  # … and when there is no console: nobody waits, and nobody else would do it
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.05, 1.0
UNKNOWN = "Invalid job id"
MARK = "#SBATCH "
NEVER = ("SBATCH_ARRAY_INX", "SBATCH_CLUSTERS", "SBATCH_ERROR", "SBATCH_WAIT")  # a script says it, or means none
PENDING, RUNNING, COMPLETING = "PENDING", "RUNNING", "COMPLETING"  # the last one: Slurm cleans up


class SlurmError(Exception):
    """A command of Slurm's that did not do what it should; what it said, in one line."""


class UnknownJob(SlurmError):
    """No such job: it ended so long ago that Slurm has forgotten it."""


def main() -> None:
    folder, name = Path(sys.argv[1]), sys.argv[2]
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # none of them ends the keeper
        signal.signal(number, lambda *_: None)
    try:
        job = submit(folder / SCRIPT, name)
    except SlurmError as error:
        _say(str(error))
        return
    _say(str(job))
    told = sys.stdin.readline()
    with suppress(OSError):
        (folder / WIRE_ENV).unlink()  # first: if Slurm does not answer and the job begins, it finds that nobody waits
    if trouble := cancel(job, PATIENT_S if told == END else DOGGED_S):
        _say(trouble)


def _say(line: str) -> None:
    with suppress(OSError):  # nobody listens any more
        print(line, flush=True)


def submit(script: Path, name: str) -> int:
    """The number of the new job. Raises SlurmError; then there is none."""
    try:
        said = run("sbatch", "--parsable", *options(script), str(script), within_s=SUBMIT_S)
        return int(said.split()[-1].partition(";")[0])  # what a site adds of its own comes before
    except (SlurmError, ValueError, IndexError) as error:
        with suppress(SlurmError):  # it may have been taken all the same, if the answer did not come in time
            run("scancel", f"--name={name}", f"--user={getpass.getuser()}")
        raise SlurmError(str(error)) from None


def options(script: Path) -> list[str]:
    """What a script asks for, to be said on the command line, too: there alone it counts more than what the user's
    SBATCH_ variables say. Raises SlurmError."""
    try:
        lines = script.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise SlurmError(f"{script} cannot be read: {error.strerror}") from None
    return [word for line in lines if line.startswith(MARK) for word in shlex.split(line.removeprefix(MARK))]


def cancel(job: int, patience_s: float) -> str | None:
    """End a job, first politely, and return when no queue has it any more; or what to do, if it stays."""
    begin, pause_s, asked = time.monotonic(), FIRST_PAUSE_S, 0
    state = refusal = ""
    while True:
        try:
            if not (parts := queued(job)):
                return None
            state = f"it is {', '.join(sorted(set(parts.values())))}"
            if time.monotonic() - begin >= asked * POLITE_S:
                asked += 1
                _ask_to_end(job, parts, asked)
        except SlurmError as error:
            refusal = str(error)
        if time.monotonic() - begin + pause_s > patience_s:
            why = refusal or state
            return f"job {job} could not be ended ({why}): `scancel {job}`, and look with `squeue --jobs={job}`"
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, LONGEST_PAUSE_S)


def queued(job: int) -> dict[str, str]:
    """The state of a job, or of each of an array, as far as they have not ended. Raises SlurmError."""
    try:
        rows = run("squeue", "--noheader", "--array", f"--jobs={job}", "--format=%i|%T").split()
    except UnknownJob:
        return {}
    return {part: state for part, _, state in (row.partition("|") for row in rows)}


def _ask_to_end(job: int, parts: dict[str, str], time_asked: int) -> None:
    """A plain scancel leaves it to Slurm to kill who does not listen, after KillWait, and until then nothing else is
    possible. So the tasks, which are step 0 of the job, are told first, and then killed; the script ends with them."""
    states = set(parts.values())
    running = [part for part, state in parts.items() if state == RUNNING]
    if states == {COMPLETING}:
        return
    if time_asked > 2 or states - {PENDING, RUNNING, COMPLETING}:
        run("scancel", str(job))
        return
    if PENDING in states:
        run("scancel", f"--state={PENDING}", str(job))
    if running and time_asked == 1:
        run("scancel", "--signal=TERM", *running)
    elif running:
        run("scancel", "--signal=KILL", *(f"{part}.0" for part in running))


def run(*command: str, within_s: float = ANSWER_S) -> str:
    """What a command of Slurm's prints. Raises SlurmError."""
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=within_s,
            check=False,
            env=environment(),
        )
    except subprocess.TimeoutExpired:
        raise SlurmError(f"{command[0]} has not answered for {within_s:g} s") from None
    except OSError as error:
        raise SlurmError(f"{command[0]} cannot be started: {error.strerror}") from None
    if done.returncode != 0:
        said = _in_one_line(command[0], done.stderr) or f"exit code {done.returncode}"
        raise (UnknownJob if UNKNOWN in said else SlurmError)(f"{command[0]}: {said}")
    return done.stdout


def environment() -> dict[str, str]:
    """This process's, but for what a job around it would pass on to the job that it submits, and for what would make
    another job of it: an array, one on another cluster, one whose log is elsewhere, one that sbatch waits for."""
    ours = {key: value for key, value in os.environ.items() if not key.startswith("SLURM_") or key == "SLURM_CONF"}
    return {key: value for key, value in ours.items() if key not in NEVER}


def _in_one_line(command: str, said: str) -> str:
    """What a command said, without its own name before each line, and without its warnings."""
    lines = [line.removeprefix(f"{command}: ").removeprefix("error: ").strip() for line in said.splitlines()]
    return "; ".join(line for line in lines if line and not line.lower().startswith("warning:"))


if __name__ == "__main__":
    main()

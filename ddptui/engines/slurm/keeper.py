"""The keeper of a job: submits it, and cancels it when the console wants that, or when the console has died.

    python keeper.py FOLDER NAME

FOLDER is the launch's: it holds job.sh, which is submitted, and wire.env, which the tasks of the job read. Standard
input is a pipe whose other end only the console has. The first line of output is the job's number, or why there is
none. When a line comes, or the pipe closes, the keeper cancels the job, and waits until it has left the queue. If Slurm
does not answer, or the job does not leave, the keeper prints why.
"""

import getpass  # only Python's own modules: the keeper is run by its path, also where ddptui is not installed
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

SCRIPT, WIRE_ENV = "job.sh", "wire.env"
END = "end\n"  # the console's command; without it the pipe has closed: the console has died
ANSWER_S = 10.0  # limit for a command of Slurm
PATIENCE_S = 3.0  # … while a console waits for the answer
SUBMIT_S = 30.0  # limit for sbatch, which a busy controller delays
STEP_S = 5.0  # from SIGTERM to SIGKILL, and from there to a plain scancel
CANCEL_WITHIN_S = 60.0  # for the job to leave the queue, while the console waits for that
CANCEL_ALONE_S = 1800.0  # … and after the console has died: no other process would cancel the job
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.05, 1.0
UNKNOWN = "Invalid job id"  # Slurm's error
OPTION = "#SBATCH "
# They would make the job an array, move it to another cluster, move its log, or have sbatch wait for it.
NOT_INHERITED = ("SBATCH_ARRAY_INX", "SBATCH_CLUSTERS", "SBATCH_ERROR", "SBATCH_WAIT")
PENDING, RUNNING, COMPLETING = "PENDING", "RUNNING", "COMPLETING"  # the last: its processes are being ended


class SlurmError(Exception):
    """A command of Slurm has failed. Its error, in one line."""


class UnknownJob(SlurmError):
    """Slurm does not know the job: it ended long ago."""


def main() -> None:
    """Submits the job, waits for the console to end it or to die, and cancels it."""
    folder, name = Path(sys.argv[1]), sys.argv[2]
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # none of them ends the keeper
        signal.signal(number, lambda *_: None)  # not SIG_IGN, which Slurm's commands would inherit
    try:
        job = submit(folder / SCRIPT, name)
    except SlurmError as error:
        _say(str(error))
        return
    _say(str(job))
    command = sys.stdin.readline()  # waits here as long as the job lasts
    with suppress(OSError):  # before anything else: a job that starts nevertheless ends at once without this file
        (folder / WIRE_ENV).unlink()
    if trouble := cancel(job, CANCEL_WITHIN_S, _say) if command == END else cancel(job, CANCEL_ALONE_S):
        _say(trouble)


def _say(line: str) -> None:
    with suppress(OSError):  # the console has died
        print(line, flush=True)


def submit(script: Path, name: str) -> int:
    """Submits the script. Returns the job's number. Raises SlurmError; then there is no job."""
    try:
        output = run("sbatch", "--parsable", *options(script), str(script), within_s=SUBMIT_S)
        return int(output.split()[-1].partition(";")[0])  # sites print lines of their own before it
    except (SlurmError, ValueError, IndexError) as error:
        try:  # sbatch may have submitted it, and answered too late
            run("scancel", f"--name={name}", f"--user={getpass.getuser()}")
        except SlurmError:
            raise SlurmError(f"{error}. A job may be left: `scancel --name={name}` ends it") from None
        raise SlurmError(str(error)) from None


def options(script: Path) -> list[str]:
    """The script's #SBATCH options, for the command line. Raises SlurmError."""
    # sbatch ranks the command line above the user's SBATCH_ variables, and these above the script
    try:
        lines = script.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise SlurmError(f"{script} cannot be read: {error.strerror}") from None
    return [word for line in lines if line.startswith(OPTION) for word in shlex.split(line.removeprefix(OPTION))]


def cancel(job: int, within_s: float, say: Callable[[str], None] | None = None) -> str | None:
    """Cancels a job, and waits until it has left the queue. Returns what to do if it does not leave in time.

    say: is called at Slurm's first failure, so that a console need not wait; the job then has CANCEL_ALONE_S to leave.
    """
    begin, pause_s, step = time.monotonic(), FIRST_PAUSE_S, 0
    state = refusal = ""
    while True:
        try:
            if not (parts := queued(job, PATIENCE_S if say else ANSWER_S)):
                return None
            state = f"it is {', '.join(sorted(set(parts.values())))}"
            if time.monotonic() - begin >= step * STEP_S:
                step += 1
                _cancel_step(job, parts, step)
        except SlurmError as error:
            refusal = str(error)  # goes on: a controller that restarts answers again
            if say:
                goes_on = f"a process here tries to end it for {CANCEL_ALONE_S / 60:g} minutes"
                say(f"job {job} may be left ({refusal}): {goes_on}; `scancel {job}` ends it, too")
                say, within_s = None, CANCEL_ALONE_S
        if time.monotonic() - begin + pause_s > within_s:
            why = refusal or state
            return f"job {job} could not be ended ({why}): run `scancel {job}`, then check with `squeue --jobs={job}`"
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, LONGEST_PAUSE_S)


def queued(job: int, within_s: float = ANSWER_S) -> dict[str, str]:
    """The states of the parts of a job that have not ended, by id: one, or several of an array. Raises SlurmError."""
    command = ("squeue", "--noheader", "--array", f"--jobs={job}", "--format=%i|%T")
    try:
        rows = run(*command, within_s=within_s).split()
    except UnknownJob:
        return {}
    return {part: state for part, _, state in (row.partition("|") for row in rows)}


def _cancel_step(job: int, parts: dict[str, str], step: int) -> None:
    """The tasks get SIGTERM first, then SIGKILL; the script ends with them. Then the job is cancelled as a whole."""
    # after a plain scancel, Slurm kills tasks only after its KillWait, and accepts no other signal until then
    states = set(parts.values())
    running = [part for part, state in parts.items() if state == RUNNING]
    if states == {COMPLETING}:
        return
    if step > 2 or states - {PENDING, RUNNING, COMPLETING}:
        run("scancel", str(job))
        return
    if PENDING in states:  # --state: a part that has begun meanwhile must get its signals
        run("scancel", f"--state={PENDING}", str(job))
    if running and step == 1:
        run("scancel", "--signal=TERM", *running)
    elif running:
        run("scancel", "--signal=KILL", *(f"{part}.0" for part in running))  # .0: srun's step, the tasks


def run(*command: str, within_s: float = ANSWER_S) -> str:
    """The output of a command of Slurm. Raises SlurmError."""
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,  # the keeper's own is the pipe to the console
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=within_s,
            check=False,
            env=environment(),
        )
    except subprocess.TimeoutExpired:
        raise SlurmError(f"{command[0]} has not answered within {within_s:g} s") from None
    except OSError as error:
        raise SlurmError(f"{command[0]} cannot be started: {error.strerror}") from None
    if done.returncode != 0:
        name = f"{command[0]}: "  # Slurm's commands begin each line with it
        lines = [line.removeprefix(name).removeprefix("error: ").strip() for line in done.stderr.splitlines()]
        why = "; ".join(line for line in lines if line and not line.lower().startswith("warning:"))
        raise (UnknownJob if UNKNOWN in why else SlurmError)(name + (why or f"exit code {done.returncode}"))
    return done.stdout


def environment() -> dict[str, str]:
    """This process's environment for commands of Slurm, without the variables that would change the new job."""
    # SLURM_… belong to a job around this console; SLURM_CONF says where the cluster is
    ours = {key: value for key, value in os.environ.items() if not key.startswith("SLURM_") or key == "SLURM_CONF"}
    return {key: value for key, value in ours.items() if key not in NOT_INHERITED}


if __name__ == "__main__":
    main()

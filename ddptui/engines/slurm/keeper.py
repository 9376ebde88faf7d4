"""The keeper of a Slurm job: cancels it if the console dies or cannot cancel it.

    python keeper.py NAME TICKET

Its standard input is a pipe whose other end only the console holds. A line on it means that the job has left the queue.
If the pipe closes without one, the keeper deletes the file TICKET, so that the job ends at once even if it still
starts, and cancels the job with this NAME.
"""

import getpass  # only standard modules: the keeper is run by its path, even if ddptui is not installed
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

END = b"end\n"  # the line that the console sends
ANSWER_S = 10.0  # timeout for a command of Slurm
PATIENCE_S = 3.0  # the same while a console waits for the answer
# Time for a running job to end by itself, since its nodes notice that the run is over or the console is lost; and for a
# canceled or completing job to leave the queue.
GRACE_S = 5.0
CANCEL_WITHIN_S = 60.0  # time for the job to leave the queue while the console waits
CANCEL_ALONE_S = 1800.0  # the same for the keeper alone: no other process would cancel the job
COMPLETING = {"COMPLETING"}  # the nodes are being cleaned up; a lost node delays that for minutes
ENDING = {"RUNNING", *COMPLETING}  # states in which a job may end by itself
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.05, 1.0
UNKNOWN = "Invalid job id"  # Slurm's error for a job that it does not know
# These would make the job an array, move it to another cluster, move its log, or make sbatch wait for it.
NOT_INHERITED = {"SBATCH_ARRAY_INX", "SBATCH_CLUSTERS", "SBATCH_ERROR", "SBATCH_WAIT"}


class SlurmError(Exception):
    """A command of Slurm has failed, or would fail. The message is one line: its error, or what is wrong with an
    option."""


class UnknownJob(SlurmError):
    """Slurm does not know the job, because it ended long ago."""


def main() -> None:
    """Waits until the console has ended the job or dies; in the latter case, cancels the job."""
    name, ticket = sys.argv[1], Path(sys.argv[2])
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # these signals must not end the keeper
        signal.signal(number, lambda *_: None)  # not SIG_IGN, which Slurm's commands would inherit
    if sys.stdin.buffer.readline() != END:
        ticket.unlink(missing_ok=True)
        cancel(name, CANCEL_ALONE_S)


def cancel(name: str, within_s: float, answer_s: float = ANSWER_S, *, gives_up: bool = False) -> str:
    """Cancels the job with this name, and waits until it has left the queue, or is completing. Returns why the job may
    still be running; empty if it is not. gives_up: return at Slurm's first error."""
    job = (f"--name={name}", f"--user={getpass.getuser()}")
    begin, pause_s, is_cancelled = time.monotonic(), FIRST_PAUSE_S, False
    grace_ends = begin + GRACE_S
    while True:
        try:
            states = set(run("squeue", "--noheader", "--format=%T", *job, within_s=answer_s).split())
            if not states or (states == COMPLETING and time.monotonic() > grace_ends):
                return ""
            why = f"it is {', '.join(sorted(states))}"
            if not is_cancelled and (states - ENDING or time.monotonic() > grace_ends):
                run("scancel", *job, within_s=answer_s)
                is_cancelled, grace_ends = True, time.monotonic() + GRACE_S
        except SlurmError as error:
            why = str(error)  # try again: the controller may be restarting
            if gives_up:
                return why
        if time.monotonic() - begin + pause_s > within_s:
            return why
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, LONGEST_PAUSE_S)


def run(*command: str, within_s: float = ANSWER_S) -> str:
    """Run a command of Slurm. Returns its output. Raises SlurmError."""
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,  # the keeper's standard input is the pipe to the console
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=within_s,
            check=False,
            env=environment(),
            start_new_session=True,  # Ctrl-C in the terminal must not reach it
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
    """The environment for commands of Slurm, without variables that would change the new job."""
    # SLURM_… variables belong to a job around this console, except SLURM_CONF, which names the cluster
    others = {key for key in os.environ if key.startswith("SLURM_")} - {"SLURM_CONF"} | NOT_INHERITED
    return {key: value for key, value in os.environ.items() if key not in others}


if __name__ == "__main__":
    main()

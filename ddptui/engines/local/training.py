"""A running training of the user's own: its process, its relay, and the file by which its ranks find their console.

The relay ends with the process that started it, and may then end the training, too.

With the process and the file, a later console can watch it again after the previous console has released it or has
ended.
"""

import os
import socket
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, NamedTuple

import msgspec
import psutil

from ddptui.config.preset import Preset
from ddptui.engines.base import ELSEWHERE, Launch
from ddptui.host.folders import module_folders, open_plain, write_private
from ddptui.store.journal import lock, opened
from ddptui.store.runs import Run
from ddptui.text.sanitize import as_argument, as_text
from ddptui.wire.connection import EVENTS, NOTES, SILENCE_S, WATCHED
from ddptui.wire.messages import Hello
from ddptui.wire.relay_file import LET_GO, Event, RelayTask, Watching, orders

LET_GO_AFTER_S = 60  # ranks are released if the relay receives nothing from the console for this long
END_WITHIN_S = 20.0  # time to send the remaining notes at the end, on a busy machine
SOCKET = "relay"  # in a folder with a short path, because the path of a socket must be short


class Relay:
    """A running relay."""

    def __init__(
        self, file: Path, folder: Path, hub_environment: Mapping[str, str], watching: Watching, *, ends_training: bool
    ) -> None:
        """file: the file by which ranks find the relay; notes are written beside it. folder: a private folder for the
        socket. hub_environment: the environment variables by which the relay reaches the console. ends_training:
        whether the relay ends the training if this process dies. Raises OSError."""
        self.file, self._path = file, folder / SOCKET
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
            listener.bind(str(self._path))
            listener.listen(1024)
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "workers.relay"],  # -P: the current folder may have modules of that name
                env={**os.environ, "PYTHONPATH": os.pathsep.join(module_folders())},
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=[listener.fileno()],
                start_new_session=True,  # signals from the terminal are for the command only
            )
            task = RelayTask(
                listener=listener.fileno(),
                hub_environment={**hub_environment, SILENCE_S: str(LET_GO_AFTER_S)},
                watching=watching,
                notes=as_text(str(file.with_name(NOTES).absolute())),
                ends=as_text(str(file.absolute())) if ends_training else None,
            )
        assert self._process.stdin is not None
        self._process.stdin.write(task.spell())
        self._process.stdin.flush()
        new = file.with_name(f"{file.name}.new")  # then renamed: a rank must not read an incomplete file
        write_private(new, orders(str(self._path), watching).decode())
        new.replace(file)

    def processes(self) -> list[psutil.Process]:
        """The process of the relay; empty after its end."""
        with suppress(psutil.NoSuchProcess):
            return [psutil.Process(self._process.pid)]
        return []

    def close(self) -> None:
        """Make the relay send what it has received, and end it."""
        pipe = self._process.stdin
        assert pipe is not None
        with suppress(OSError):  # it has ended
            if not pipe.closed:
                pipe.write(LET_GO)
            pipe.close()
        try:
            self._process.wait(END_WITHIN_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        with suppress(OSError):
            self._path.unlink()


TRAINING_FILE, CONSOLE_FILE = "training", "console"  # in the folder of a repeat, while its command runs
MOST_BYTES = 65_536  # limit for these files
TICKS_AT = 19  # index of field 22 (start time) of /proc/PID/stat, counted after the name


class NotRunning(ValueError):
    """The run has no training that can be watched. The message is one line that says why."""


class Training(msgspec.Struct, frozen=True, kw_only=True):
    """A command that was started, as recorded in the run's folder. The record may be forged, and process ids are
    reused: so the process is verified by its start time and its environment."""

    pid: int
    started: float  # see started_at
    console: str  # the file by which its ranks find their console

    def runs(self) -> bool:
        """Whether the command is still running."""
        with suppress(psutil.Error):
            process = psutil.Process(self.pid)
            is_same = started_at(process) == self.started and process.environ().get(WATCHED) == self.console
            return is_same and process.status() != psutil.STATUS_ZOMBIE
        return False


def training_at(pid: int, console: Path) -> Training | None:
    """The training with this process id; None: it has ended already."""
    with suppress(psutil.NoSuchProcess):
        return Training(pid=pid, started=started_at(psutil.Process(pid)), console=str(console.absolute()))
    return None


def started_at(process: psutil.Process) -> float:
    """When a process was started: on Linux in ticks since boot, which do not change when the clock is set; elsewhere in
    s since 1970. Raises psutil.Error."""
    try:
        stat = Path(f"/proc/{process.pid}/stat").read_text(errors="replace")
    except OSError:  # no /proc, as on macOS, or the process has ended
        return process.create_time()
    return float(stat.rpartition(")")[2].split()[TICKS_AT])  # the name, in parentheses, may contain any character


def remember(training: Training, folder: Path) -> None:
    """Record a training in a repeat's folder, for later consoles. Raises OSError."""
    kept = msgspec.structs.replace(training, console=as_text(training.console))
    write_private(folder / TRAINING_FILE, msgspec.json.encode(kept).decode())


def training_of(run: Run) -> Training:
    """The watched training of a run. Raises NotRunning if it has ended, or if another console watches it."""
    if run.is_held():
        raise NotRunning(f"{run.name} is being watched: another console has it open")
    if training := training_that_runs(run, run.preset()):
        return training
    raise NotRunning(f"{run.name} has no training that runs on this host")


class HeldTraining(NamedTuple):
    """A training that this console has locked, so that no other one can watch it. Closing `lock` releases it."""

    training: Training
    lock: IO[bytes]


def hold(training: Training) -> HeldTraining:
    """Lock a training, which may have several runs. Raises NotRunning if another console watches it."""
    path = Path(training.console).with_name(TRAINING_FILE)  # in the folder of the run that started it
    try:
        file = opened(path, os.O_RDWR)
    except OSError as error:
        raise NotRunning(f"{path}: cannot be locked: {error.strerror}") from None
    if not lock(file):
        file.close()
        raise NotRunning(f"process {training.pid} is being watched: another console is attached to it")
    return HeldTraining(training, file)


def training_that_runs(run: Run, preset: Preset) -> Training | None:
    """The training that was watched in a run, if it is still running on this host, whether watched or not; else
    None."""
    for trial in preset.trials:
        path = run.repeat_folder(trial.name, 1) / TRAINING_FILE
        with suppress(OSError, ValueError), open_plain(path, MOST_BYTES) as file:
            kept = msgspec.json.decode(file.read(), type=Training)
            training = msgspec.structs.replace(kept, console=as_argument(kept.console))
            if training.runs():
                return training
    return None


class Tail:
    """A growing file of lines, each of which is taken once."""

    def __init__(self, path: Path) -> None:
        self._path, self._read = path, 0  # number of bytes

    def take(self) -> list[bytes]:
        """The complete lines that are new. Part of one that is longer than MOST_BYTES is dropped."""
        with suppress(OSError), self._path.open("rb") as file:
            file.seek(self._read)
            text = file.read(MOST_BYTES)
            *lines, rest = text.split(b"\n")
            self._read += len(text) if len(rest) == MOST_BYTES else len(text) - len(rest)
            return lines
        return []


def _event(line: bytes) -> Event | None:
    with suppress(ValueError):
        return msgspec.json.decode(line, type=Event)
    return None  # damaged, or too long


class TrainingLaunch(Launch):
    """The launch of a watched command."""

    def __init__(self, folder: Path, relay: Relay) -> None:
        """folder: for the files that describe the command. relay: the relay of its ranks, which ends with the
        launch."""
        self.folder = folder
        self._relay = relay
        self._processes: dict[int, psutil.Process] = {}
        self._events = Tail(relay.file.with_name(EVENTS))
        self.has_ranks = False  # whether a rank has connected

    def add_rank(self, hello: Hello) -> None:
        self.has_ranks = True
        with suppress(psutil.NoSuchProcess):
            self._processes[hello.pid] = psutil.Process(hello.pid)

    def process_status(self, hello: Hello) -> str | None:
        process = self._processes.get(hello.pid)
        with suppress(psutil.Error):
            return process.status() if process else ELSEWHERE
        return None

    def take_events(self) -> list[Event]:
        return [event for line in self._events.take() if (event := _event(line))]

    def processes(self) -> list[psutil.Process]:
        return [*self._processes.values(), *self._relay.processes()]

    def forget_if_over(self) -> None:
        """End the relay. If the command has ended, remove the files that describe it."""
        self._relay.close()
        if self.exit_code is not None:
            for name in (TRAINING_FILE, CONSOLE_FILE, EVENTS):
                with suppress(OSError):
                    (self.folder / name).unlink()

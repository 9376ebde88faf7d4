"""The console's side of the warm parent (workers/warm.py): starts it, requests launches from it, and reports why it is
not available."""

import os
import resource
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

import msgspec
import psutil

import ddptui
from ddptui.host import keeper
from ddptui.host.folders import TemporaryFolder, lab_root, python_path
from ddptui.host.machine import heap_limits
from ddptui.host.rank_place import without_launchers
from ddptui.text.words import ending
from ddptui.wire import helper_messages as wire
from ddptui.wire.helper_messages import EndFork, Fork, Forked, ForkEnded, ForkRefused, FromParent, Imported

LOG = "warm.log"
ANSWERS_WITHIN_S = 5.0
STOP_WITHIN_S = 8.0  # time for a keeper to end all processes: it needs up to 4 s for ranks, 5 s for a warm parent
DECODER = msgspec.json.Decoder(FromParent)


class CannotFork(Exception):
    """The warm parent cannot start a launch. The message is one line that says why."""


def lab_files() -> dict[Path, int]:
    """ddptui's source files, with the time of their last change in ns."""
    found = {}
    for folder in (Path(ddptui.__file__).parent, lab_root() / "workers"):
        for path in folder.rglob("*.py"):
            with suppress(OSError):  # the file was just deleted
                found[path] = path.stat().st_mtime_ns
    return found


def is_readable(descriptor: int | socket.socket, timeout_s: float | None) -> bool:
    """Wait until a descriptor is readable, at most timeout_s (None: forever). Returns whether it is. The descriptor of
    a process is readable when the process has ended."""
    poll = select.poll()  # unlike select, it accepts descriptors above 1023
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(None if timeout_s is None else timeout_s * 1000))


class StartedKeeper(subprocess.Popen[bytes]):
    """A keeper that this process has started. Its standard input is the pipe that ends the launch."""

    def end_launch(self) -> None:
        assert self.stdin is not None
        self.stdin.close()


def start_keeper(
    command: list[str],
    environment: Mapping[str, str],
    folder: Path,  # working folder
    launch_folder: Path,  # temporary folder of the launch; the keeper deletes it if the console cannot
    log: IO[bytes],
    *,
    grace_s: float = keeper.GRACE_S,
    pass_fds: Sequence[int] = (),
) -> StartedKeeper:
    """Start a command under a keeper. Raises OSError."""
    return StartedKeeper(
        [sys.executable, "-P", keeper.__file__, str(launch_folder), str(grace_s), *command],
        cwd=folder,  # contains no module that could hide one of torch
        env={**without_launchers(os.environ), **environment},
        stdin=subprocess.PIPE,  # Python makes pipes close-on-exec, so no other process holds this end
        stdout=log,
        stderr=subprocess.STDOUT,
        start_new_session=True,  # Ctrl-C reaches only the console, which ends all processes in order
        pass_fds=pass_fds,
    )


def end_with_keeper(process: "StartedKeeper | ForkedLaunch") -> None:
    """End every process of a launch. If its keeper does not respond, kill it: then the kernel ends the others
    (PDEATHSIG)."""
    process.end_launch()
    try:
        process.wait(STOP_WITHIN_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def kill_started_in(folder: Path) -> None:
    """Kill all processes whose environment has this TMPDIR, such as those that a killed keeper had adopted. Forked
    processes show the environment of their parent."""
    deadline = time.monotonic() + STOP_WITHIN_S
    while (found := [*_started_in(folder)]) and time.monotonic() < deadline:
        keeper.send(found, signal.SIGKILL)
        psutil.wait_procs(found, timeout=STOP_WITHIN_S)


def _started_in(folder: Path) -> Iterator[psutil.Process]:
    for process in psutil.process_iter():
        with suppress(psutil.Error):  # the process has ended, or belongs to another user
            if process.environ().get("TMPDIR") == str(folder):
                yield process


class ForkedLaunch:
    """A launch that the warm parent has forked and whose keeper it is. It has the interface of StartedKeeper."""

    def __init__(self, warm: "WarmParent", pid: int) -> None:
        self.pid = pid
        self._warm = warm
        self._exit_code: int | None = None

    def end_launch(self) -> None:
        self._warm.end_launch()

    def poll(self) -> int | None:
        return self._ended_within(0)

    def wait(self, timeout: float | None = None) -> int:
        code = self._ended_within(timeout)
        if code is None:
            raise subprocess.TimeoutExpired("warm parent", timeout or 0)
        return code

    def kill(self) -> None:
        self._warm.kill()

    def _ended_within(self, timeout_s: float | None) -> int | None:
        if self._exit_code is None:
            self._exit_code = self._warm.exit_code_within(timeout_s)
        return self._exit_code


class WarmParent:
    """The warm parent: a process with all imports of a rank, which forks launchers.

    After its start it imports for some seconds, and is then ready to fork. Only a launch that needs it waits for that.
    If it is not available, `problem` says why in a few words, and launches start cold. It is replaced when a source
    file of ddptui changes. Only one thread at a time may use it.
    """

    def __init__(self) -> None:
        self.problem: str | None = None
        self._keeper: StartedKeeper | None = None
        self._imported: Imported | None = None
        self._launch: ForkedLaunch | None = None  # the last launch
        self._files: dict[Path, int] = {}  # ddptui's source files before the import

    def start(self) -> None:
        """Start the process, which begins to import. Does nothing if it was started already or is not available."""
        if self._keeper is not None or self.problem is not None:
            return
        if not sys.platform.startswith("linux"):
            self.problem = "a warm start needs Linux"
            return
        self._files = lab_files()
        try:
            self._begin()
        except OSError as error:
            self.problem = f"{error.strerror}"

    def _begin(self) -> None:
        self._temporary = TemporaryFolder("ddptui-warm", Path(tempfile.gettempdir()))
        self._folder = self._temporary.path
        self._socket, end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        command = [sys.executable, "-m", "workers.warm", str(end.fileno())]
        variables = {
            "PYTHONPATH": python_path(),
            "TMPDIR": str(self._folder),
            **heap_limits(os.environ),  # malloc reads them when a process starts
        }
        try:
            with (self._folder / LOG).open("wb") as log, end:
                self._keeper = start_keeper(
                    command,
                    variables,
                    self._folder,
                    self._folder,
                    log,
                    grace_s=keeper.WARM_GRACE_S,
                    pass_fds=[end.fileno()],
                )
        except OSError:
            self._socket.close()
            self._temporary.remove()
            raise

    def is_ready(self, timeout_s: float) -> bool:
        """Start the process if necessary, and wait until it is ready, at most timeout_s. Returns whether launches can
        start now: warm, or cold if there is a problem."""
        if (self._imported or self.problem) and not self.notices_its_end() and self._files != lab_files():
            self.close()
            self.problem = None
        self.start()
        if self.problem is None and self._imported is None and is_readable(self._socket, timeout_s):
            self._take_over()
        return self.problem is not None or self._imported is not None

    def is_importing(self, timeout_s: float) -> bool:
        """Whether the process was started but is not ready. Waits until it is, at most timeout_s."""
        return self._keeper is not None and self._imported is None and not self.is_ready(timeout_s)

    def notices_its_end(self) -> bool:
        """Whether the process was ready but has ended since. Then this object is closed, and `problem` says how it
        ended."""
        if self._imported is None or self._keeper is None or self._keeper.poll() is None:
            return False
        self._has_ended()
        return True

    def fork(
        self,
        module: str,
        function: str,
        arguments: list[str],
        environment: Mapping[str, str],
        folder: Path,  # working folder
        launch_folder: Path,
        log: IO[bytes],
    ) -> ForkedLaunch:
        """Fork a launch. The process must be ready, and the last launch must have ended. Raises CannotFork."""
        if self._imported is None:
            raise CannotFork(self.problem or "the process that forks the ranks is not ready")
        if self._launch is not None and self._launch.poll() is None:
            raise CannotFork("another launch is running")
        request = Fork(
            module=module,
            function=function,
            arguments=tuple(arguments),
            environment=dict(environment),
            folder=str(folder),
            launch_folder=str(launch_folder),
            open_files=resource.getrlimit(resource.RLIMIT_NOFILE),
        )
        try:
            message = msgspec.json.encode(request)
        except UnicodeEncodeError:
            raise CannotFork("a path or a variable is not UTF-8") from None
        if len(message) > wire.MOST_WARM_BYTES:
            raise CannotFork("the trial is too long to be sent to the process that forks the ranks")
        with suppress(OSError):  # the process has ended, so there will be no answer
            socket.send_fds(self._socket, [message], [log.fileno()])
        match self._receive():
            case Forked():
                self._launch = ForkedLaunch(self, self._imported.pid)
                return self._launch
            case ForkRefused(why=why):
                raise CannotFork(why)
        raise CannotFork(self._give_up("the process that forks the ranks does not answer"))

    def end_launch(self) -> None:
        """Request the end of every process of the launch."""
        with suppress(OSError):  # the process has ended
            self._socket.send(msgspec.json.encode(EndFork()))

    def exit_code_within(self, timeout_s: float | None) -> int | None:
        """The exit code of the launch, as in subprocess.Popen; None if it is still running after timeout_s (None: wait
        forever)."""
        if self._imported is not None:
            if not is_readable(self._socket, timeout_s):
                return None
            if isinstance(message := self._receive(), ForkEnded):
                return os.waitstatus_to_exitcode(message.status)
        return -signal.SIGKILL  # the warm parent has ended, and the launch with it

    def kill(self) -> None:
        """Kill the process, and with it the launch. A stopped process would take seconds to end otherwise."""
        if self._imported is not None:
            with suppress(psutil.NoSuchProcess):
                psutil.Process(self._imported.pid).kill()

    def close(self) -> None:
        """End the process and every process below it."""
        if self._keeper is None:
            return
        self._socket.close()  # makes the process end, before its keeper sends SIGTERM
        end_with_keeper(self._keeper)
        self._temporary.remove()
        self._keeper = self._imported = self._launch = None

    def _take_over(self) -> None:
        message = self._receive()
        if not isinstance(message, Imported):
            self._give_up("the process that forks the ranks does not answer")
            return
        self._imported = message
        if message.threads > 1:
            self._give_up("importing torch starts threads here, and a fork copies only one")

    def _receive(self) -> FromParent | None:
        """The next message of the process; None if it has ended, or gives no valid answer in time."""
        if not is_readable(self._socket, ANSWERS_WITHIN_S):
            self.kill()
            return None
        with suppress(OSError, msgspec.MsgspecError):
            if message := self._socket.recv(wire.MOST_WARM_BYTES):
                answer: FromParent = DECODER.decode(message)
                return answer
        self._has_ended()
        return None

    def _has_ended(self) -> None:
        assert self._keeper is not None
        try:
            code = self._keeper.wait(STOP_WITHIN_S)
        except subprocess.TimeoutExpired:  # the keeper is stopped
            self._give_up("the process that forks the ranks has ended")
            return
        if code == -signal.SIGKILL:
            kill_started_in(self._folder)  # if the keeper was killed, daemons may be left
        last = ""
        with suppress(OSError, IndexError):
            last = (self._folder / LOG).read_text(encoding="utf-8", errors="replace").splitlines()[-1]
        how = f"the process that forks the ranks {ending(code)}"
        self._give_up(f"{how}: {last}" if last else how)

    def _give_up(self, problem: str) -> str:
        """Close the warm parent permanently. Returns the problem, or the first one if there was one already."""
        self.close()
        self.problem = self.problem or problem
        return self.problem

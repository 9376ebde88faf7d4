"""The console's side of the warm parent (workers/warm.py): starts it, asks it for launches, says why it has none."""

import os
import resource
import select
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Protocol

import msgspec

import ddptui
from ddptui.host import keeper
from ddptui.host.folders import TemporaryFolder, lab_root, python_path
from ddptui.host.launchers import without_launchers
from ddptui.host.machine import heap_limits
from ddptui.text.words import ending
from ddptui.wire import warm as wire
from ddptui.wire.warm import Fork, Forked, FromParent, Imported, Refused

LOG = "warm.log"
ANSWERS_WITHIN_S = 5.0
STOP_WITHIN_S = 8.0  # for a keeper to end all processes: ranks take it half as long, a warm parent 5 s
DECODER = msgspec.json.Decoder(FromParent)


class CannotFork(Exception):
    """The warm parent cannot start a launch. One line that says why."""


def lab_files() -> dict[Path, int]:
    """The lab's own source files, with the time of their last change, ns."""
    found = {}
    for folder in (Path(ddptui.__file__).parent, lab_root() / "workers"):
        for path in folder.rglob("*.py"):
            with suppress(OSError):  # it has just been deleted
                found[path] = path.stat().st_mtime_ns
    return found


def is_readable(descriptor: int | socket.socket, timeout_s: float | None) -> bool:
    """Wait, at most so long, until there is something to read, or a process has ended."""
    poll = select.poll()  # unlike select, it takes descriptors above 1023
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(None if timeout_s is None else timeout_s * 1000))


class KeeperProcess(Protocol):
    """The keeper of a launch (host/keeper.py), as this process knows it."""

    pid: int

    def end_launch(self) -> None: ...  # it begins to end every process of the launch
    def poll(self) -> int | None: ...  # as of subprocess.Popen, as what follows
    def wait(self, timeout: float | None = None) -> int: ...
    def kill(self) -> None: ...


class StartedKeeper(subprocess.Popen[bytes]):
    """A keeper that this process has started; standard input is the pipe."""

    def end_launch(self) -> None:
        assert self.stdin is not None
        self.stdin.close()


def start_keeper(
    command: list[str],
    environment: Mapping[str, str],
    folder: Path,  # where it runs
    launch_folder: Path,  # deleted at the end, by the keeper if the console cannot do so itself
    log: IO[bytes],
    *,
    grace_s: float = keeper.GRACE_S,
    pass_fds: Sequence[int] = (),
) -> StartedKeeper:
    """Start a command below keeper.py. Raises OSError."""
    return StartedKeeper(
        [sys.executable, "-P", keeper.__file__, str(launch_folder), str(grace_s), *command],
        cwd=folder,  # holds no module that could stand in the way of torch's
        env={**without_launchers(os.environ), **environment},
        stdin=subprocess.PIPE,  # Python makes pipes close-on-exec: no other process holds this end open
        stdout=log,
        stderr=subprocess.STDOUT,
        start_new_session=True,  # Ctrl-C in the terminal reaches only the console, which ends all in order
        pass_fds=pass_fds,
    )


def end_with_keeper(process: KeeperProcess) -> None:
    """End a keeper, and every process below it. The kernel ends those of one that is stopped (PDEATHSIG)."""
    process.end_launch()
    try:
        process.wait(STOP_WITHIN_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


class ForkedKeeper:
    """A keeper that the warm parent has forked. It begins once this exists, and sends the launcher's status at the
    end."""

    def __init__(self, pid: int, connection: socket.socket) -> None:
        """Raises OSError: it has ended already."""
        self.pid = pid
        self._connection = connection
        self._descriptor = os.pidfd_open(pid)  # readable once it has ended
        self._exit_code: int | None = None
        with suppress(OSError):  # it has ended meanwhile
            connection.send(wire.BEGIN)

    def end_launch(self) -> None:
        with suppress(OSError):  # it has ended
            self._connection.shutdown(socket.SHUT_WR)

    def poll(self) -> int | None:
        return self._ended_within(0)

    def wait(self, timeout: float | None = None) -> int:
        code = self._ended_within(timeout)
        if code is None:
            raise subprocess.TimeoutExpired("keeper", timeout or 0)
        return code

    def kill(self) -> None:
        if self.poll() is None:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._descriptor, signal.SIGKILL)

    def _ended_within(self, timeout_s: float | None) -> int | None:
        if self._exit_code is None and is_readable(self._descriptor, timeout_s):
            status = b""
            with suppress(OSError):  # as after a kill
                status = self._connection.recv(wire.STATUS_BYTES)
            # without a status it was killed
            self._exit_code = os.waitstatus_to_exitcode(int.from_bytes(status)) if status else -signal.SIGKILL
            self._connection.close()
            os.close(self._descriptor)
        return self._exit_code


class WarmParent:
    """A process with all imports of a rank, which forks launchers. Nobody waits for it until a launch needs it.

    It is started, imports for some seconds, and then is ready to fork. If it cannot be had, or is lost, `problem` says
    why in a few words, and launches are cold. When a source file of the lab changes, it is replaced. One thread at a
    time may use it.
    """

    def __init__(self, *, nice: int = 0) -> None:
        """nice: the priority at which it imports."""
        self.problem: str | None = None
        self._nice = nice
        self._keeper: StartedKeeper | None = None
        self._imported: Imported | None = None
        self._files: dict[Path, int] = {}  # the lab's, before it imported them

    def start(self) -> None:
        """Begin with the imports. Called again, or where it cannot be had, it does nothing."""
        if self._keeper is not None or self.problem is not None:
            return
        self._files = lab_files()
        try:
            os.close(os.pidfd_open(os.getpid()))
        except (AttributeError, OSError):
            self.problem = "a warm start needs Linux 5.3 or newer"
            return
        try:
            self._begin()
        except OSError as error:
            self.problem = f"{error.strerror}"

    def _begin(self) -> None:
        self._temporary = TemporaryFolder("ddptui-warm", Path(tempfile.gettempdir()))
        self._folder = self._temporary.path
        self._socket, end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        command = [sys.executable, "-m", "workers.warm", str(end.fileno()), str(self._nice)]
        try:
            with (self._folder / LOG).open("wb") as log, end:
                self._keeper = start_keeper(
                    command,
                    {"PYTHONPATH": python_path(), **heap_limits(os.environ)},  # malloc reads them as a process starts
                    self._folder,
                    self._folder,
                    log,
                    grace_s=keeper.KEEPERS_GRACE_S,
                    pass_fds=[end.fileno()],
                )
        except OSError:
            self._socket.close()
            self._temporary.remove()
            raise

    def is_ready(self, timeout_s: float) -> bool:
        """Start it if need be, and wait for it, at most so long. Returns whether launches can start: warm, or cold if
        it has a problem."""
        if (self._imported or self.problem) and not self.notices_its_end() and self._files != lab_files():
            self.close()
            self.problem = None
        self.start()
        if self.problem is None and self._imported is None and is_readable(self._socket, timeout_s):
            self._take_over()
        return self.problem is not None or self._imported is not None

    def is_importing(self, timeout_s: float) -> bool:
        """Whether it was started, and is not ready. May wait for that, at most so long."""
        return self._keeper is not None and self._imported is None and not self.is_ready(timeout_s)

    def notices_its_end(self) -> bool:
        """Whether it was ready, and has ended since. Then it is closed, and `problem` says how it ended."""
        if self._imported is not None and is_readable(self._process, 0):
            self._has_ended()
            return True
        return False

    def fork(
        self,
        module: str,
        function: str,
        arguments: list[str],
        environment: Mapping[str, str],
        folder: Path,  # where it runs
        launch_folder: Path,
        log: IO[bytes],
    ) -> ForkedKeeper:
        """Start a launch, once it is ready. Raises CannotFork."""
        if self._imported is None:
            raise CannotFork(self.problem or "the process that forks the ranks is not ready")
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
        if len(message) > wire.MOST_BYTES:
            raise CannotFork("the trial is too long to be sent to the process that forks the ranks")
        console, keepers = socket.socketpair()
        with keepers, suppress(OSError):  # it has ended: there will be no answer
            socket.send_fds(self._socket, [message], [keepers.fileno(), log.fileno()])
        match self._receive():
            case Forked(pid=pid):
                with suppress(OSError):
                    return ForkedKeeper(pid, console)
                why = "the keeper of the launch ended at once"
            case Refused(why=why):
                pass
            case _:
                why = self._give_up("the process that forks the ranks does not answer")
        console.close()
        raise CannotFork(why)

    def close(self) -> None:
        """End it, and every process below it."""
        if self._keeper is None:
            return
        end_with_keeper(self._keeper)
        self._socket.close()
        if self._imported is not None:
            os.close(self._process)
        self._temporary.remove()
        self._keeper = self._imported = None

    def _take_over(self) -> None:
        message = self._receive()
        if not isinstance(message, Imported):
            self._give_up("the process that forks the ranks does not answer")
            return
        try:
            self._process = os.pidfd_open(message.pid)
        except OSError:  # it has ended since
            self._has_ended()
            return
        self._imported = message
        if message.threads > 1:
            self._give_up("importing torch starts threads here, and a fork copies only one")

    def _receive(self) -> FromParent | None:
        """Its next message. None: it has ended, or does not answer, or not properly."""
        if not is_readable(self._socket, ANSWERS_WITHIN_S):
            if self._imported is not None:
                with suppress(ProcessLookupError):  # a stopped process would not end for seconds
                    signal.pidfd_send_signal(self._process, signal.SIGKILL)
            return None
        with suppress(OSError, msgspec.MsgspecError):
            if message := self._socket.recv(wire.MOST_BYTES):
                answer: FromParent = DECODER.decode(message)
                return answer
        self._has_ended()
        return None

    def _has_ended(self) -> None:
        assert self._keeper is not None
        try:
            code = self._keeper.wait(STOP_WITHIN_S)
        except subprocess.TimeoutExpired:  # its keeper is stopped
            self._give_up("the process that forks the ranks has ended")
            return
        last = ""
        with suppress(OSError, IndexError):
            last = (self._folder / LOG).read_text(encoding="utf-8", errors="replace").splitlines()[-1]
        how = f"the process that forks the ranks {'was ' * (code < 0)}{ending(code)}"
        self._give_up(f"{how}: {last}" if last else how)

    def _give_up(self, problem: str) -> str:
        """Close it for good. Returns the problem: the first one, if it has one already."""
        self.close()
        self.problem = self.problem or problem
        return self.problem

"""`ddptui join TICKET`: lets this host take part in a run whose console is on another host, and starts its ranks.

For each launch, it starts and watches this node's ranks. It ends with the run, or when the console is lost.
"""

import os
import socket
import tempfile
import time
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from urllib.parse import urlsplit

import msgspec
import zmq
from zmq.utils.monitor import parse_monitor_message

from ddptui import __version__
from ddptui.config.catalog import ONE_PROCESS
from ddptui.config.parser import PresetError
from ddptui.config.trial import TrialError
from ddptui.config.values import from_arguments
from ddptui.engines import base as launch
from ddptui.engines.base import LAUNCHER_LOG
from ddptui.engines.checks import prepare_trial
from ddptui.engines.join.engine import parts_of
from ddptui.engines.join.ticket import Ticket
from ddptui.engines.local.engine import rank_variables, start_local
from ddptui.engines.local.warm import WarmParent
from ddptui.host import platforms
from ddptui.host.folders import TemporaryFolder
from ddptui.host.machine import available_cores
from ddptui.host.network import interface_towards
from ddptui.store.journal import tail
from ddptui.wire import helper_messages as wire
from ddptui.wire.connection import HUB, KEYS_VARIABLE, SILENCE_S, TOKEN, use_keys
from ddptui.wire.helper_messages import MEETING_MARK, MOST_BYTES, Begin, LaunchEnded
from ddptui.wire.limits import MOST_OF_AN_ERROR

ENDED_BY_CONSOLE = -15  # exit code as if the launcher had been ended by SIGTERM
# A console may set only these variables on a node: others could run programs.
ACCEPTED = (HUB, TOKEN, KEYS_VARIABLE, SILENCE_S)


class JoinError(ValueError):
    """This host cannot take part. The message is one line that says why, and what to do."""


class NodeLaunch:
    """A running launch on this node. `number`: the console's number for it. `launcher`: its local launch."""

    def __init__(self, message: Begin, node: int, warm: WarmParent) -> None:
        """warm: the warm parent that forks the ranks, which must be ready. Raises TrialError, PresetError, JoinError,
        OSError."""
        self.number = message.number
        trial = from_arguments(list(message.trial))
        parts = parts_of(trial, message.nodes, message.address, message.port)
        if node >= len(parts):
            raise JoinError(f"no ranks for node {node} of {message.nodes}")
        part = parts[node]
        trial = prepare_trial(trial, len(part.ranks))
        if trial.init_method == "file":
            _check_meeting(message)
        command = launch.rank_command(trial, part=part)
        self.command_line = " ".join(command)
        self._temporary = TemporaryFolder("ddptui-node", Path(tempfile.gettempdir()))
        self._folder = self._temporary.path
        launch_folder = self._folder / "own"  # a subfolder, because the keeper deletes it before the logs are read
        launch_folder.mkdir()
        hub_environment = {name: message.hub_environment[name] for name in ACCEPTED if name in message.hub_environment}
        environment = {
            **launch.rank_environment(trial, available_cores(), len(part.ranks)),
            **rank_variables(hub_environment, self._folder, launch_folder),
            **({} if trial.launch in ONE_PROCESS else part.environment()),
            "INIT_METHOD": message.init_method,
        }
        self.launcher = start_local(trial, command, environment, self._folder, launch_folder, warm, nodes=len(parts))

    def end(self) -> LaunchEnded:
        """Ends the remaining processes. Returns the message for the console, with the last part of each log."""
        code = self.launcher.exit_code  # before stop(), which changes it
        self.launcher.stop()
        paths = sorted(self._folder.glob("*.log"))
        # keeps the message below MOST_BYTES: a character takes up to four bytes, and half is left for the rest
        most = min(MOST_OF_AN_ERROR, MOST_BYTES // 8 // max(1, len(paths)))
        logs = {path.name: tail(path)[-most:] for path in paths}
        self._temporary.remove()
        return LaunchEnded(number=self.number, exit_code=ENDED_BY_CONSOLE if code is None else code, logs=logs)


def _check_meeting(message: Begin) -> None:
    """Raises JoinError if the ranks could not meet in the file that the console names."""
    path = Path(message.init_method.removeprefix("file://"))
    if not path.name.startswith(MEETING_MARK):  # torch deletes it: a console must name no other file
        raise JoinError(f"{path} is not a file at which ranks meet: their names begin with {MEETING_MARK}")
    if not path.parent.is_dir():
        why = f"{path.parent}, where the ranks meet in a file, is not a folder on this host"
        raise JoinError(f"{why}: name a folder with --shared that all nodes see")


POLL_MS = 100  # interval of checks of the launch
BEAT_EVERY_S = 1.0
FIRST_ANSWER_S = 60.0  # timeout for the console's first message
PING_MS, NO_PONG_MS = 2_000, 12_000  # libzmq's threads exchange these, so a console that is busy answers, too
NO_ANSWER = (
    f"the console has not answered for {FIRST_ANSWER_S:g} s: check that its run still waits for nodes, that the ticket "
    "is that of this run, and that no firewall blocks the port"
)
Report = Callable[[str], None]  # prints a line


def join(ticket: Ticket, node: int | None, report: Report) -> int:
    """Takes part in the run until it is over. Returns the exit code. Raises JoinError, and NetworkError."""
    name, address = interface_towards(urlsplit(ticket.endpoint).hostname or "")
    report(f"joining {ticket.run} at {ticket.endpoint}; other nodes reach this one at {address} by {name}")
    first = wire.Join(
        version=__version__, token=ticket.token, node=node, host=socket.gethostname(), address=address, interface=name
    )
    with closing(WarmParent()) as warm, closing(ConsoleConnection(ticket)) as console:
        console.send(first)
        warm.start()
        return JoinedNode(console, report, warm).serve()


def node_here(number: int | None, kind: str | None, report: Report) -> int | None:
    """The number of this node: the given one, or the one from the launcher's variables (kind: the launcher, see
    host/place). None: the console assigns one. Raises PlaceError."""
    if number is not None or (here := platforms.place_here(os.environ, kind)) is None:
        return number
    report(here.describe())
    return here.node


class ConsoleConnection:
    """The encrypted connection to the console."""

    def __init__(self, ticket: Ticket) -> None:
        self._decoder = msgspec.msgpack.Decoder(wire.ToNode)
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._was_open = self._is_closed = False
        self._socket = self._context.socket(zmq.DEALER)
        self._socket.setsockopt(zmq.LINGER, 1000)  # ms for sending the last messages, such as Leave
        self._socket.setsockopt(zmq.MAXMSGSIZE, wire.MOST_BYTES)
        self._socket.setsockopt(zmq.HEARTBEAT_IVL, PING_MS)
        self._socket.setsockopt(zmq.HEARTBEAT_TIMEOUT, NO_PONG_MS)
        use_keys(self._socket, ticket.keys)  # before connect: the handshake needs them
        self._events = self._socket.get_monitor_socket(zmq.EVENT_HANDSHAKE_SUCCEEDED | zmq.EVENT_DISCONNECTED)
        self._socket.connect(ticket.endpoint)

    def close(self) -> None:
        self._socket.disable_monitor()  # first, because it needs the open socket
        self._events.close()
        self._socket.close()
        self._context.term()

    def send(self, message: wire.NodeMessage) -> None:
        with suppress(zmq.Again):  # the queue is full: if the console is lost, the timeout ends this node
            self._socket.send(msgspec.msgpack.encode(message), zmq.NOBLOCK)

    def is_closed(self) -> bool:
        """Whether the connection has ended, because the console has closed it or no longer answers. Messages that
        arrived before may still be received. libzmq connects again, but the console would not know this node."""
        while self._events.poll(0):
            event = parse_monitor_message(self._events.recv_multipart())["event"]
            self._is_closed |= self._was_open and event == zmq.EVENT_DISCONNECTED
            self._was_open |= event == zmq.EVENT_HANDSHAKE_SUCCEEDED
        return self._is_closed

    def receive(self) -> wire.ToNode | wire.FarewellOfAnyVersion | None:
        """The next message; None if none arrives within POLL_MS. Raises JoinError if it cannot be decoded."""
        if not self._socket.poll(POLL_MS):
            return None
        frame = self._socket.recv()
        try:
            message: wire.ToNode = self._decoder.decode(frame)
        except ValueError as error:
            with suppress(ValueError):  # a Farewell of another version may have other fields
                return msgspec.msgpack.decode(frame, type=wire.FarewellOfAnyVersion)
            why = f"this node cannot read the console's messages ({error}); this node has ddptui {__version__}"
            raise JoinError(f"{why}: install the same version on both") from None
        return message


class JoinedNode:
    """This host as a node of the run: executes the console's requests, and has at most one launch."""

    def __init__(self, console: ConsoleConnection, report: Report, warm: WarmParent) -> None:
        self._console = console
        self._report = report
        self._number: int | None = None  # number of this node; None: the console has not accepted it yet
        self._warm = warm
        self._launch: NodeLaunch | None = None
        self._begin = self._last_beat = time.monotonic()

    def serve(self) -> int:
        """Executes the console's requests until its Farewell. Returns the exit code. Raises JoinError if the console is
        lost."""
        try:
            while True:
                closed = self._console.is_closed()  # checked before receiving: the last message may say why
                message = self._console.receive()
                if isinstance(message, wire.Farewell | wire.FarewellOfAnyVersion):
                    self._report(message.why)
                    return 0 if message.well else 1
                if message is not None:
                    self._obey(message)
                elif closed and self._number is not None:
                    raise JoinError("lost the console: the connection has ended; the ranks of this node were ended")
                elif self._number is None and time.monotonic() - self._begin > FIRST_ANSWER_S:
                    self._console.send(wire.Leave())
                    raise JoinError(NO_ANSWER)
                if time.monotonic() - self._last_beat > BEAT_EVERY_S:
                    self._last_beat = time.monotonic()
                    self._console.send(wire.Beat())
                if self._launch and self._launch.launcher.exit_code is not None:
                    self._end_launch()
        except (KeyboardInterrupt, SystemExit):
            self._end_launch()  # before Leave: the console accepts no logs from a node that has left
            self._console.send(wire.Leave())
            raise
        finally:
            self._end_launch()

    def _obey(self, message: wire.ToNode) -> None:
        match message:
            case wire.Welcome():
                self._number = message.node
                self._report(f"this is node {message.node} of {message.nodes}")
            case wire.Begin() if self._number is not None:
                self._end_launch()
                self._begin_launch(message, self._number)
            case wire.End():
                self._end_launch(message.number)

    def _begin_launch(self, message: wire.Begin, node: int) -> None:
        while not self._warm.is_ready(BEAT_EVERY_S):  # some seconds, before the first launch
            self._console.send(wire.Beat())
        try:
            self._launch = NodeLaunch(message, node, self._warm)
            self._report(f"launch {message.number}: {self._launch.command_line}")
            if self._launch.launcher.start_why:
                self._report(f"launch {message.number} starts cold: {self._launch.launcher.start_why}")
        except (TrialError, PresetError, JoinError, OSError) as error:
            self._report(f"launch {message.number} cannot be started: {error}")
            logs = {LAUNCHER_LOG: f"node {node}: {error}"}
            self._console.send(wire.LaunchEnded(number=message.number, exit_code=1, logs=logs))

    def _end_launch(self, number: int | None = None) -> None:
        """Ends the launch, if there is one. number: end only the launch with this number."""
        if self._launch is None or number not in (None, self._launch.number):  # an End may arrive late
            return
        launch, self._launch = self._launch, None
        self._console.send(launch.end())

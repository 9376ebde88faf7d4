"""`ddptui join TICKET`: this host takes part in a run whose console waits elsewhere. It starts its ranks, launch after
launch, and looks after them; it ends with the run, or when the console is gone."""

import os
import shutil
import socket
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

import msgspec
import zmq

from ddptui import __version__
from ddptui.config.engine import Part, spread
from ddptui.config.launch_modes import ONE_PROCESS
from ddptui.config.parser import PresetError
from ddptui.config.trial import Trial, TrialError
from ddptui.config.trial_text import from_arguments
from ddptui.engines import command as launch
from ddptui.engines.join.ticket import Ticket
from ddptui.engines.local.engine import LAUNCHER_LOG, LocalLaunch, surroundings
from ddptui.engines.preflight import prepare_trial
from ddptui.host import folders, place
from ddptui.host.machine import available_cores
from ddptui.host.network import NetworkError, interface_towards, is_free
from ddptui.host.place.place import describe
from ddptui.store.logs import tail
from ddptui.wire.connection import HUB, KEYS, TOKEN, unlock
from ddptui.wire.connection import SILENCE_S as RANKS_SILENCE
from ddptui.wire.limits import MOST_OF_AN_ERROR
from ddptui.wire.node_messages import (
    MEETING_MARK,
    MOST_BYTES,
    Beat,
    Begin,
    End,
    Farewell,
    FarewellOfAnyVersion,
    Join,
    Leave,
    NodeMessage,
    Over,
    Present,
    ToNode,
    Welcome,
)

LOOK_EVERY_MS = 100
BEAT_EVERY_S = 1.0
SILENCE_S = 12.0  # of the console while ranks run, after which it is taken to be gone
BETWEEN_S = 300.0  # likewise between two launches, while it may be working one out
KNOCK_S = 60.0  # how long to wait for the first word
Say = Callable[[str], None]


class JoinError(ValueError):
    """This host cannot take part: one line."""


def join(ticket: Ticket, node: int | None, say: Say) -> int:
    """Take part until the run is over. Returns the exit code. Raises JoinError."""
    host = urlsplit(ticket.endpoint).hostname or ""
    try:
        way = interface_towards(host)
    except NetworkError as error:
        raise JoinError(str(error)) from None
    say(f"joining {ticket.run} at {ticket.endpoint}; the other nodes reach this one at {way.address} ({way.name})")
    with _Line(ticket) as line:
        line.send(
            Join(
                version=__version__, token=ticket.token, node=node, host=socket.gethostname(), address=way.address,
                interface=way.name, cores=available_cores(),
            )
        )  # fmt: skip
        return _Member(line, way.address, say).serve()


def node_here(asked: int | None, by_name: str | None, say: Say) -> int | None:
    """This node's number: as asked for, or as the environment says that somebody else's platform has set; none: the
    console gives one. Raises place.PlaceError."""
    if asked is not None:
        return asked
    here = place.here(os.environ, by_name)
    if here is None:
        return None
    say(describe(here))
    return here.node


class _Line:
    """The connection to the console."""

    def __init__(self, ticket: Ticket) -> None:
        self.heard = time.monotonic()
        self._decoder = msgspec.msgpack.Decoder(ToNode)
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._socket = self._context.socket(zmq.DEALER)
        self._socket.setsockopt(zmq.LINGER, 1000)
        self._socket.setsockopt(zmq.MAXMSGSIZE, MOST_BYTES)
        unlock(self._socket, ticket.keys)
        self._socket.connect(ticket.endpoint)

    def __enter__(self) -> "_Line":
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()
        self._context.term()

    def send(self, message: NodeMessage) -> None:
        with suppress(zmq.Again):  # nobody takes it: the console's silence will tell
            self._socket.send(msgspec.msgpack.encode(message), zmq.NOBLOCK)

    def receive(self) -> ToNode | FarewellOfAnyVersion | None:
        """The next message, waiting LOOK_EVERY_MS for it at most. Raises JoinError: it cannot be decoded."""
        if not self._socket.poll(LOOK_EVERY_MS):
            return None
        frame = self._socket.recv()
        self.heard = time.monotonic()
        try:
            message: ToNode = self._decoder.decode(frame)
        except ValueError as error:
            return _farewell_of_another_version(frame, error)
        return message


def _farewell_of_another_version(frame: bytes, error: ValueError) -> FarewellOfAnyVersion:
    """A console of another version says goodbye in words that this node does not all know. Raises JoinError."""
    try:
        return msgspec.msgpack.decode(frame, type=FarewellOfAnyVersion)
    except ValueError:
        raise JoinError(
            f"this node cannot read the console's messages ({error}); this node has ddptui {__version__}: install the "
            "same version on both"
        ) from None


class _Member:
    """A host that takes part."""

    def __init__(self, line: _Line, address: str, say: Say) -> None:
        self._line = line
        self._address = address
        self._say = say
        self._node: int | None = None  # none: not welcomed yet
        self._launch: _Launch | None = None
        self._beat = time.monotonic()

    def serve(self) -> int:
        try:
            while True:
                message = self._line.receive()
                if isinstance(message, Farewell | FarewellOfAnyVersion):
                    self._say(message.why)
                    return 0 if message.well else 1
                if message is not None:
                    self._obey(message)
                self._look()
        except (KeyboardInterrupt, SystemExit):
            self._end()
            self._line.send(Leave())
            raise
        finally:
            self._end()

    def _obey(self, message: ToNode) -> None:
        match message:
            case Welcome():
                self._node = message.node
                self._say(f"this is node {message.node} of {message.nodes}")
            case Begin() if self._node is not None:
                self._end()
                self._begin(message, self._node)
            case End():
                self._end(message.number)
            case Present() | Begin() | Farewell():
                pass

    def _begin(self, message: Begin, node: int) -> None:
        try:
            self._launch = _Launch(message, node, self._address)
            self._say(f"launch {message.number}: {self._launch.words}")
        except (TrialError, PresetError, JoinError, OSError) as error:
            self._say(f"launch {message.number} cannot be started: {error}")
            why = {LAUNCHER_LOG: f"node {node}: {error}"}
            self._line.send(Over(number=message.number, exit_code=1, logs=why))

    def _look(self) -> None:
        """After the console, and the launch."""
        now = time.monotonic()
        if now - self._beat > BEAT_EVERY_S:
            self._beat = now
            self._line.send(Beat())
        if self._launch and self._launch.exit_code is not None:
            self._end(self._launch.number)
        patience_s = KNOCK_S if self._node is None else SILENCE_S if self._launch else BETWEEN_S
        if now - self._line.heard > patience_s:
            self._line.send(Leave())
            gone = f"is gone: nothing was heard of it for {patience_s:g} s"
            what = "does not answer: is the ticket still good, and no firewall between?" if self._node is None else gone
            raise JoinError(f"the console {what}")

    def _end(self, number: int | None = None) -> None:
        if self._launch is None or number not in (None, self._launch.number):
            return
        ended, self._launch = self._launch, None
        self._line.send(ended.end())


class _Launch:
    """The ranks of this node in one launch. `words`: what is started."""

    def __init__(self, message: Begin, node: int, own_address: str) -> None:
        """Raises TrialError, PresetError, JoinError, OSError."""
        self.number = message.number
        trial = from_arguments(list(message.trial))
        part = part_of(trial, message, node)
        trial = prepare_trial(trial, len(part.ranks))
        if node == 0 and part.nodes > 1 and trial.init_method != "file" and not is_free(own_address, part.port):
            raise JoinError(f"port {part.port}, where the ranks should meet, is taken here: start the run once more")
        if trial.init_method == "file":
            check_meeting(Path(message.init_method.removeprefix("file://")))
        command = launch.command(trial, part=part)
        self.words = " ".join(command)
        self._folder = folders.temporary("ddptui-node", Path(tempfile.gettempdir()))
        own = self._folder / "own"
        own.mkdir()
        environment = {
            **launch.environment(trial, available_cores(), len(part.ranks)),
            **surroundings(known(message.way), self._folder, own),
            **({} if trial.launch in ONE_PROCESS else part.environment()),
            "INIT_METHOD": message.init_method,
        }
        self._launcher = LocalLaunch(command, environment, self._folder, own)

    @property
    def exit_code(self) -> int | None:
        return self._launcher.exit_code

    def end(self) -> Over:
        """End what is left, and tell of it."""
        by_itself = self._launcher.exit_code
        self._launcher.stop()
        paths = sorted(self._folder.glob("*.log"))
        most = min(MOST_OF_AN_ERROR, MOST_BYTES // 8 // max(1, len(paths)))  # a character has up to four bytes
        logs = {path.name: tail(path)[-most:] for path in paths}
        shutil.rmtree(self._folder, ignore_errors=True)
        return Over(number=self.number, exit_code=-15 if by_itself is None else by_itself, logs=logs)


def check_meeting(path: Path) -> None:
    """torch makes this file, and takes it away: no console may name any other. Raises JoinError."""
    if not path.name.startswith(MEETING_MARK):
        raise JoinError(f"{path} is no file to meet at: their names begin with {MEETING_MARK}")
    if not path.parent.is_dir():
        raise JoinError(f"there is no folder {path.parent} here, where the ranks should meet: all nodes have to see it")


def known(way: Mapping[str, str]) -> dict[str, str]:
    """No console can put anything else into the environment of a node's processes."""
    return {name: way[name] for name in (HUB, TOKEN, KEYS, RANKS_SILENCE) if name in way}


def part_of(trial: Trial, message: Begin, node: int) -> Part:
    """What this node has of the world. Raises JoinError."""
    ranks = spread(1 if trial.launch in ONE_PROCESS else trial.world_size, message.nodes)
    if node >= len(ranks):
        raise JoinError(f"no ranks for node {node} of {message.nodes}")
    return Part(node, len(ranks), ranks[node], message.address, message.port)

"""The engine `join`: launches on nodes that have joined the run by `ddptui join`. See muster.py; and join.py, which is
what runs there."""

import secrets
import shlex
import time
from contextlib import suppress
from itertools import count
from pathlib import Path

from ddptui.config.engine import EngineOptions, Part, spread
from ddptui.config.launch_modes import ONE_PROCESS
from ddptui.config.trial import Trial
from ddptui.config.trial_text import to_arguments
from ddptui.engines import command as launch
from ddptui.engines.base import LaunchRefused, RemoteLaunch
from ddptui.engines.hub import Hub
from ddptui.engines.join.node_hub import Member, NodeHub
from ddptui.engines.local.engine import LAUNCHER_LOG
from ddptui.host.network import NetworkError, choose_interface, port_of
from ddptui.store.journal import RepeatJournal
from ddptui.store.runs import Run
from ddptui.wire.connection import SILENCE_S
from ddptui.wire.messages import Hello
from ddptui.wire.node_messages import MEETING_MARK, Begin, End

TICKET = "ticket"  # the file, in the run's folder, while the run goes on
FIRST_MEETING = 1000  # ports between the console's and those where ranks meet
PATIENCE_S = 15.0  # for nodes to end their ranks
LOOK_EVERY_S = 0.02
RANKS_SILENCE_S = "30"  # after so long without a word from the console, ranks on nodes end


class JoinEngine:
    """Starts launches on nodes that have joined."""

    is_local = False

    def __init__(self, engine: EngineOptions, run: Run) -> None:
        """Raises OSError, LaunchRefused."""
        self._engine = engine
        self._run = run.name
        try:
            self._address = choose_interface(engine.interface).address
        except NetworkError as error:
            raise LaunchRefused(str(error)) from None
        self._port = engine.port or port_of(run.name)
        self._node_hub = NodeHub(run.name, engine.nodes, self._address, self._port)
        self._file = run.folder / TICKET
        self._node_hub.ticket.write(self._file)
        self._numbers = count(1)

    def command(self, trial: Trial, repeat: RepeatJournal) -> list[str]:
        """What the first node starts."""
        return launch.command(trial, part=parts_of(trial, self._engine.nodes)[0], python="python")

    def environment(self, trial: Trial) -> dict[str, str]:
        part = parts_of(trial, self._engine.nodes)[0]
        return part.environment() if trial.launch not in ONE_PROCESS else {}

    def open_hub(self, world_size: int) -> Hub:
        return Hub(world_size, at=(self._address, self._port + 1))

    def start(self, trial: Trial, command: list[str], repeat: RepeatJournal, hub: Hub) -> "JoinedLaunch":
        number = next(self._numbers)
        folder = self._engine.shared or ""
        meeting = f"file://{Path(folder).absolute()}/{MEETING_MARK}{secrets.token_hex(8)}"
        return JoinedLaunch(
            self._node_hub, self._file, trial, repeat, hub,
            number=number, port=port_of(self._run, FIRST_MEETING + number), meeting=meeting,
        )  # fmt: skip

    def close(self) -> None:
        self._node_hub.close()
        with suppress(OSError):
            self._file.unlink()


def parts_of(trial: Trial, nodes: int, address: str = "NODE_0", port: int = 0) -> list[Part]:
    """What each node has of a trial; one process stays on one node."""
    world = 1 if trial.launch in ONE_PROCESS else trial.world_size
    ranks = spread(world, nodes)
    return [Part(number, len(ranks), own, address, port) for number, own in enumerate(ranks)]


class JoinedLaunch(RemoteLaunch):
    """One launch. It begins once all nodes are here."""

    def __init__(
        self,
        node_hub: NodeHub,
        ticket: Path,
        trial: Trial,
        repeat: RepeatJournal,
        hub: Hub,
        *,
        number: int,
        port: int,
        meeting: str,
    ) -> None:
        self._node_hub = node_hub
        self._ticket = ticket
        self._trial = trial
        self._repeat = repeat
        self._hub = hub
        self._number = number
        self._port = port
        self._meeting = meeting
        self._parts: list[Part] = []  # empty until it begins
        self._lost: Member | None = None
        self._said_missing = 0

    @property
    def is_waiting(self) -> bool:
        return not self._parts

    @property
    def exit_code(self) -> int | None:
        """That of the first node that failed; 0 once all have ended well."""
        if self.is_waiting:
            return None
        if self._lost:
            return 1
        codes = [over.exit_code for over in self._node_hub.overs.values()]
        failed = next((code for code in codes if code), None)
        return failed if failed is not None else 0 if len(codes) == len(self._parts) else None

    def take_notices(self) -> list[str]:
        self._hear()
        said, self._node_hub.news = self._node_hub.news, []
        if self.is_waiting and not self._node_hub.missing:
            self._begin()
        elif self.is_waiting and self._node_hub.missing != self._said_missing:
            self._said_missing = self._node_hub.missing
            nodes = "a node" if self._said_missing == 1 else f"{self._said_missing} nodes"
            said.append(f"waiting for {nodes}: type there `ddptui join {short(self._ticket)}`, or the line in it")
        return said

    def _hear(self) -> None:
        mine = {part.node for part in self._parts}
        lost = [there for there in self._node_hub.receive() if there.number in mine]
        self._lost = self._lost or next(iter(lost), None)

    def _begin(self) -> None:
        self._node_hub.begin(self._number)
        first = self._node_hub.nodes[0].words.address
        self._parts = parts_of(self._trial, self._node_hub.wanted, first, self._port)
        for part in self._parts:
            self._node_hub.tell(part.node, self._begin_of(part))

    def _begin_of(self, part: Part) -> Begin:
        return Begin(
            number=self._number,
            trial=(f"launch={self._trial.launch}", *to_arguments(self._trial)),
            nodes=part.nodes,
            address=part.address,
            port=part.port,
            init_method=self._meeting,
            way=self._hub.rank_environment | {SILENCE_S: RANKS_SILENCE_S},
        )

    def end_reason(self) -> str | None:
        if self._lost is None:
            return None
        ranks = next(part.ranks for part in self._parts if part.node == self._lost.number)
        which = f"rank {ranks[0]}" if len(ranks) == 1 else f"ranks {ranks[0]} to {ranks[-1]}"
        return f"{self._lost} is gone, and {which} with it: it was cut off, or `ddptui join` was ended there"

    def add_rank(self, hello: Hello) -> None:
        """The node looks after it."""

    def stop(self) -> None:
        for part in self._parts:
            self._node_hub.tell(part.node, End(number=self._number))
        deadline = time.monotonic() + PATIENCE_S
        while self._still_there() and time.monotonic() < deadline:
            self._hear()  # one that is gone is what the others have died of
            time.sleep(LOOK_EVERY_S)
        self._keep_logs()
        if self._trial.init_method == "file":
            with suppress(OSError):
                Path(self._meeting.removeprefix("file://")).unlink()

    def _still_there(self) -> bool:
        asked = [part.node for part in self._parts if part.node in self._node_hub.nodes]
        return any(node not in self._node_hub.overs for node in asked)

    def _keep_logs(self) -> None:
        """What the nodes have sent of their ranks' logs; as the launcher's own, that of the first node that failed: the
        others ended because that one did, or because the console wanted it."""
        overs = list(self._node_hub.overs.values())
        first = next((over for over in overs if over.exit_code), overs[0] if overs else None)
        for over in overs:
            for name, text in over.logs.items():
                if is_of_a_rank(name, self._trial.world_size) or (name == LAUNCHER_LOG and over is first):
                    with suppress(OSError):
                        (self._repeat.folder / name).write_text(text, encoding="utf-8")


def short(path: Path) -> str:
    """As a shell takes it."""
    home = Path.home()
    return f"~/{shlex.quote(str(path.relative_to(home)))}" if path.is_relative_to(home) else shlex.quote(str(path))


def is_of_a_rank(name: str, world_size: int) -> bool:
    """A node may send no file but those."""
    return name in {f"rank-{rank}.log" for rank in range(world_size)}

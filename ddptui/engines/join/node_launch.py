"""Checks and starts the ranks of one node for one launch, on that node."""

import tempfile
from pathlib import Path

from ddptui.config.catalog import ONE_PROCESS
from ddptui.config.preset import NodeRanks
from ddptui.config.trial import Trial
from ddptui.config.values import from_arguments
from ddptui.engines import command as launch
from ddptui.engines.join.engine import parts_of
from ddptui.engines.local.engine import rank_variables, start_local
from ddptui.engines.local.warm import WarmParent
from ddptui.engines.preflight import prepare_trial
from ddptui.host.folders import TemporaryFolder
from ddptui.host.machine import available_cores
from ddptui.host.network import is_free
from ddptui.store.journal import tail
from ddptui.wire.connection import HUB, KEYS_VARIABLE, SILENCE_S, TOKEN
from ddptui.wire.helper_messages import MEETING_MARK, MOST_BYTES, Begin, LaunchEnded
from ddptui.wire.limits import MOST_OF_AN_ERROR

ENDED_BY_CONSOLE = -15  # exit code as if the launcher had been ended by SIGTERM
ACCEPTED = (
    HUB,
    TOKEN,
    KEYS_VARIABLE,
    SILENCE_S,
)  # a console may set only these variables on a node: others could run programs


class JoinError(ValueError):
    """This host cannot take part. The message is one line that says why, and what to do."""


class NodeLaunch:
    """A running launch on this node. `number`: the console's number for it. `launcher`: its local launch."""

    def __init__(self, message: Begin, node: int, address: str, warm: WarmParent) -> None:
        """warm: the warm parent that forks the ranks, which must be ready. Raises TrialError, PresetError, JoinError,
        OSError."""
        self.number = message.number
        trial = from_arguments(list(message.trial))
        parts = parts_of(trial, message.nodes, message.address, message.port)
        if node >= len(parts):
            raise JoinError(f"no ranks for node {node} of {message.nodes}")
        part = parts[node]
        trial = prepare_trial(trial, len(part.ranks))
        _check_meeting(trial, part, message, address)
        command = launch.command(trial, part=part)
        self.command_line = " ".join(command)
        self._temporary = TemporaryFolder("ddptui-node", Path(tempfile.gettempdir()))
        self._folder = self._temporary.path
        launch_folder = self._folder / "own"  # a subfolder, because the keeper deletes it before the logs are read
        launch_folder.mkdir()
        way = {name: message.way[name] for name in ACCEPTED if name in message.way}
        environment = {
            **launch.environment(trial, available_cores(), len(part.ranks)),
            **rank_variables(way, self._folder, launch_folder),
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


def _check_meeting(trial: Trial, part: NodeRanks, message: Begin, address: str) -> None:
    """Raises JoinError if the ranks could not meet, in the file or at the port of node 0."""
    if trial.init_method != "file":
        if part.node == 0 and part.nodes > 1 and not is_free(address, part.port):
            raise JoinError(f"port {part.port}, where the ranks meet, is in use on this host: start the run again")
        return
    path = Path(message.init_method.removeprefix("file://"))
    if not path.name.startswith(MEETING_MARK):  # torch deletes it: a console must name no other file
        raise JoinError(f"{path} is not a file at which ranks meet: their names begin with {MEETING_MARK}")
    if not path.parent.is_dir():
        why = f"{path.parent}, where the ranks meet in a file, is not a folder on this host"
        raise JoinError(f"{why}: name a folder with --shared that all nodes see")

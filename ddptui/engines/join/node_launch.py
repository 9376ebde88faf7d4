"""The ranks of one node in one launch, checked and started on that node."""

import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from ddptui.config.engine import Part, spread
from ddptui.config.launch_modes import ONE_PROCESS
from ddptui.config.trial import Trial
from ddptui.config.trial_text import from_arguments
from ddptui.engines import command as launch
from ddptui.engines.local.engine import LocalLaunch, rank_variables
from ddptui.engines.preflight import prepare_trial
from ddptui.host import folders
from ddptui.host.machine import available_cores
from ddptui.host.network import is_free
from ddptui.store.logs import tail
from ddptui.wire.connection import HUB, KEYS, SILENCE_S, TOKEN
from ddptui.wire.limits import MOST_OF_AN_ERROR
from ddptui.wire.node_messages import MEETING_MARK, MOST_BYTES, Begin, LaunchEnded

ENDED_BY_CONSOLE = -15  # SIGTERM, as if the launcher had been ended by it


class JoinError(ValueError):
    """This host cannot take part. One line that says why, and what to do."""


class NodeLaunch:
    """A started launch. `number` is the console's; `command_line` is what runs."""

    def __init__(self, message: Begin, node: int, address: str) -> None:
        """Raises TrialError, PresetError, JoinError, OSError."""
        self.number = message.number
        trial = from_arguments(list(message.trial))
        part = part_of(trial, message, node)
        trial = prepare_trial(trial, len(part.ranks))
        _check_meeting(trial, part, message, address)
        command = launch.command(trial, part=part)
        self.command_line = " ".join(command)
        self._folder = folders.temporary("ddptui-node", Path(tempfile.gettempdir()))
        launch_folder = self._folder / "own"
        launch_folder.mkdir()
        environment = {
            **launch.environment(trial, available_cores(), len(part.ranks)),
            **rank_variables(accepted(message.way), self._folder, launch_folder),
            **({} if trial.launch in ONE_PROCESS else part.environment()),
            "INIT_METHOD": message.init_method,
        }
        self._launcher = LocalLaunch(command, environment, self._folder, launch_folder)

    @property
    def exit_code(self) -> int | None:
        """None while the launcher runs."""
        return self._launcher.exit_code

    def end(self) -> LaunchEnded:
        """Ends the processes that are left. Returns the message for the console, with the ends of the logs."""
        exit_code = self._launcher.exit_code
        self._launcher.stop()
        paths = sorted(self._folder.glob("*.log"))
        # the message has to stay below MOST_BYTES: a character takes up to four bytes, and half is left for the rest
        most = min(MOST_OF_AN_ERROR, MOST_BYTES // 8 // max(1, len(paths)))
        logs = {path.name: tail(path)[-most:] for path in paths}
        shutil.rmtree(self._folder, ignore_errors=True)
        return LaunchEnded(
            number=self.number, exit_code=ENDED_BY_CONSOLE if exit_code is None else exit_code, logs=logs
        )


def part_of(trial: Trial, message: Begin, node: int) -> Part:
    """The ranks that this node starts, and where all ranks meet. Raises JoinError."""
    ranks = spread(1 if trial.launch in ONE_PROCESS else trial.world_size, message.nodes)
    if node >= len(ranks):
        raise JoinError(f"no ranks for node {node} of {message.nodes}")
    return Part(node, len(ranks), ranks[node], message.address, message.port)


def accepted(variables: Mapping[str, str]) -> dict[str, str]:
    """The variables that a console may set for the ranks of a node. All others are dropped: they could run programs."""
    return {name: variables[name] for name in (HUB, TOKEN, KEYS, SILENCE_S) if name in variables}


def _check_meeting(trial: Trial, part: Part, message: Begin, address: str) -> None:
    """Raises JoinError if the ranks could not meet: in the file, or on node 0 at the port."""
    if trial.init_method == "file":
        check_meeting_file(Path(message.init_method.removeprefix("file://")))
    elif part.node == 0 and part.nodes > 1 and not is_free(address, part.port):
        raise JoinError(f"port {part.port}, where the ranks meet, is in use on this host: start the run again")


def check_meeting_file(path: Path) -> None:
    """Raises JoinError unless this is a file at which ranks meet: torch creates and deletes it, so that a console must
    not name any other."""
    if not path.name.startswith(MEETING_MARK):
        raise JoinError(f"{path} is no file at which ranks meet: their names begin with {MEETING_MARK}")
    if not path.parent.is_dir():
        raise JoinError(
            f"{path.parent}, where the ranks meet in a file, is no folder on this host: --shared has to name one that "
            "all nodes see"
        )

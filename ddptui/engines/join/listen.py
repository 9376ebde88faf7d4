"""`ddptui watch --listen`: the console waits for a training that is started on one or several other hosts by `ddptui
watch --join TICKET -- COMMAND`. The console starts and ends no process there."""

from contextlib import suppress
from pathlib import Path

from ddptui.config.preset import EngineOptions
from ddptui.config.trial import Trial
from ddptui.engines.base import Engine, Launch
from ddptui.engines.hub import Hub
from ddptui.engines.join.engine import TICKET, short
from ddptui.engines.join.ticket import ticket_for
from ddptui.engines.local.foreign import Terms
from ddptui.host.folders import write_private
from ddptui.host.network import choose_interface, port_of
from ddptui.store.journal import RepeatJournal
from ddptui.store.runs import Run


class ListeningEngine(Engine):
    """Lets the ranks of a training on other hosts connect."""

    def __init__(self, options: EngineOptions, run: Run, terms: Terms) -> None:
        """Raises NetworkError."""
        self._run, self._terms = run, terms
        self._at = choose_interface(options.interface).address, options.port or port_of(run.name)
        self._ticket = run.folder / TICKET

    def command(self, trial: Trial, repeat: RepeatJournal) -> list[str]:
        return [*trial.command]

    def environment(self, trial: Trial) -> dict[str, str]:
        return {}

    def open_hub(self, world_size: int) -> Hub:
        return Hub(world_size, at=self._at)

    def start(self, trial: Trial, command: list[str], repeat: RepeatJournal, hub: Hub) -> "ListeningLaunch":
        ticket = ticket_for(self._run.name, hub.socket, self._terms.watching(trial))
        write_private(self._ticket, ticket.spell() + "\n")
        return ListeningLaunch(self._ticket)

    def close(self) -> None:
        """Delete the ticket."""
        with suppress(OSError):
            self._ticket.unlink()


class ListeningLaunch(Launch):
    """A training on other hosts. It is over when its ranks are done."""

    ends_with_ranks = True
    exit_code = None

    def __init__(self, ticket: Path) -> None:
        self._notices = [f"waiting: on each host of the training, run `ddptui watch --join {short(ticket)} -- COMMAND`"]

    def take_notices(self) -> list[str]:
        notices, self._notices = self._notices, []
        return notices

    def stop(self) -> None:
        """Does nothing: the console does not end a training on other hosts."""

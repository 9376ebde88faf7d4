"""What must not be missed of a run, whatever screen shows it."""

from collections.abc import Iterable

from ddptui.live import headline
from ddptui.tui.screens.base import LabScreen
from ddptui.wire.records import Ended, Launched, Message, Refused

LINES_OF_AN_ERROR = 4  # the log has more


def tell(screen: LabScreen, messages: Iterable[Message], trial: str | None) -> None:
    """trial: the one under way before these messages."""
    for message in messages:
        if isinstance(message, Launched):
            trial = message.trial
        elif isinstance(message, Ended) and message.status == "failed":
            why = (message.error or "no reason is known").splitlines()[:LINES_OF_AN_ERROR]
            screen.console_app.complain(f"{trial} failed", "\n".join(why))
        elif isinstance(message, Refused):
            screen.notify(headline.refusal(message), title="Connection rejected", severity="warning", markup=False)

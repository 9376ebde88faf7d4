"""The line on the Run screen that shows which delay the keys, or clicks, inject into a rank."""

from textual.content import Content
from textual.widgets import Static

from ddptui.config.checks import Delays, delay_of
from ddptui.config.trial import Site
from ddptui.config.values import describe_bottleneck
from ddptui.text.words import MS, S, seconds
from ddptui.tui.keys import clickable, name_of


class DelayBar(Static):
    """Shows the chosen delay, whether the rank has it, and its keys. A click on a part acts like its key."""

    DEFAULT_CSS = "DelayBar { height: 1; padding: 0 1; text-wrap: nowrap; text-overflow: ellipsis; display: none; }"

    def show(self, rank: int | None, at: Site, sleep_ms: float, delays: Delays) -> None:
        """Show the chosen delay. `rank`: None before a rank has connected; `delays`: the delays that the ranks have."""
        if rank is None:
            wait = f"{name_of('delay', self.app)} delays a rank, once one has connected"
            return self.update(Content.styled(wait, "dim"), layout=False)
        has_it = delay_of(delays, rank, at) is not None
        length = seconds(sleep_ms * MS / S)
        parts = [
            self._part("delay", "remove" if has_it else "inject", "delay"),
            clickable("↑↓", f"rank {rank}", "rank(1)"),
            self._part("where", at, "where"),
            Content.assemble(self._part("less", "", "longer(-1)"), self._part("more", length, "longer(1)")),
        ]
        if delays:  # the last part may be cut off; the sentence above has it, too
            parts += [
                self._part("no_delays", "remove all", "no_delays"),
                self._part("save", "save", "save"),
                Content.styled(f"now: {describe_bottleneck(delays)}", "bold"),
            ]
        self.update(Content("  ").join(parts), layout=False)

    def _part(self, means: str, what: str, action: str) -> Content:
        return clickable(name_of(means, self.app), what, action)

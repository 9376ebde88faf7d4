"""The line on the Run screen that shows which delay the keys, or clicks, inject into a rank."""

from textual.content import Content

from ddptui.config.delays import Delays, delay_of
from ddptui.config.trial import Site
from ddptui.config.trial_text import describe_bottleneck
from ddptui.text.units import MS, S, seconds
from ddptui.tui.keys import clickable, name_of
from ddptui.tui.widgets.frame import Bar


class DelayBar(Bar):
    """Shows the chosen delay, whether the rank has it, and its keys. A click on a part acts like its key."""

    DEFAULT_CSS = "DelayBar { color: $foreground; text-wrap: nowrap; text-overflow: ellipsis; display: none; }"

    def show(self, rank: int | None, at: Site, sleep_ms: float, delays: Delays) -> None:
        """Show the chosen delay. `rank`: None before a rank has connected; `delays`: the delays that the ranks have."""
        self.update(rank, at, sleep_ms, delays)

    def render(self) -> Content:
        if not self.shown:
            return Content()
        rank, at, sleep_ms, delays = self.shown
        if rank is None:
            return Content.styled(f"{name_of('delay', self.app)} delays a rank, once one has connected", "dim")
        has_it = delay_of(delays, rank, at) is not None
        length = seconds(sleep_ms * MS / S)
        parts = [
            self._part("delay", "remove" if has_it else "inject", "delay"),
            clickable("↑↓", f"rank {rank}", "other_rank"),
            self._part("where", at, "where"),
            Content.assemble(self._part("less", "", "longer(-1)"), self._part("more", length, "longer(1)")),
        ]
        if delays:  # the last part may be cut off; the sentence above has it, too
            parts += [
                self._part("no_delays", "remove all", "no_delays"),
                self._part("save", "save", "save"),
                Content.styled(f"now: {describe_bottleneck(delays)}", "bold"),
            ]
        return Content("  ").join(parts)

    def _part(self, means: str, what: str, action: str) -> Content:
        return clickable(name_of(means, self.app), what, action)

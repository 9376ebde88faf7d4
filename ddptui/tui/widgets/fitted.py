"""Widgets whose content depends on their width."""

from textual.widget import Widget


class Fitted(Widget):
    """Lays the content out for the width, anew if that changes. The last base, since the first one gives the styles.

    Textual's Resize does not tell that: it is not sent if the widget's place was asked for between its display and the
    next layout, as a focus does after a scroll.
    """

    _width = 0  # that the content is laid out for; 0: it was hidden then

    def on_mount(self) -> None:
        self.screen.screen_layout_refresh_signal.subscribe(self, lambda _: self._check_width())

    def _check_width(self) -> None:
        if 0 < self.scrollable_content_region.width != self._width:
            self.fit()

    def fit(self) -> None:
        """Lay the content out for the current width."""
        self._width = self.scrollable_content_region.width
        self.lay_out(self._width)

    def lay_out(self, width: int) -> None:
        """Lay the content out for this width, in cells."""
        raise NotImplementedError

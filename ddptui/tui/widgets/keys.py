"""The keys j k g G, as vi and less have them, for whatever can be walked through line by line."""

from textual.binding import Binding


def _line_keys(down: str, up: str, start: str, end: str) -> list[Binding]:
    """Return the four keys for these actions: each kind of widget of Textual calls them by other names."""
    actions = {
        "j": (down, "One line down"),
        "k": (up, "One line up"),
        "g": (start, "To the start"),
        "G": (end, "To the end"),
    }
    return [Binding(key, action, words, show=False) for key, (action, words) in actions.items()]


SCROLL_KEYS = _line_keys("scroll_down", "scroll_up", "scroll_home", "scroll_end")
OPTION_KEYS = _line_keys("cursor_down", "cursor_up", "first", "last")
ROW_KEYS = _line_keys("cursor_down", "cursor_up", "scroll_top", "scroll_bottom")

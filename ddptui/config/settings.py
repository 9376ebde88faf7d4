"""The user's settings, as config.toml has them, and the console's keys. Pure: ddptui/store/settings.py reads and writes
the file."""

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, NamedTuple

import msgspec
from msgspec import Meta

from ddptui.config.columns import check_columns
from ddptui.config.trial import TrialError
from ddptui.config.values import convert
from ddptui.text.words import did_you_mean, in_a_row

# Textual's themes. Spelled out: only the screens may import Textual. A test compares them.
THEMES = (
    "ansi-dark", "ansi-light", "atom-one-dark", "atom-one-light", "catppuccin-frappe", "catppuccin-latte",
    "catppuccin-macchiato", "catppuccin-mocha", "dracula", "flexoki", "gruvbox", "monokai", "nord", "rose-pine",
    "rose-pine-dawn", "rose-pine-moon", "solarized-dark", "solarized-light", "textual-dark", "textual-light",
    "tokyo-night",
)  # fmt: skip


class Key(NamedTuple):
    """A letter or sign, which means the same on all screens, unless the user has chosen others."""

    usual: str
    meaning: str


KEYS = {
    "help": Key("?", "what the keys of this screen do"),
    "quit": Key("q", "quit, after a question while something runs"),
    "filter": Key("/", "filter a list"),
    "runs": Key("r", "earlier runs; there: read the folder again"),
    "edit": Key("e", "change the chosen preset"),
    "read": Key("i", "read what the chosen preset is about"),
    "save": Key("ctrl+s", "save as a preset of your own"),
    "rename": Key("f2", "rename a preset of your own"),
    "reset": Key("ctrl+r", "take all changes back"),
    "copy": Key("y", "copy: the command line, or the row"),
    "copy_all": Key("Y", "copy the whole table"),
    "delete": Key("d", "move to the trash"),
    "undo": Key("u", "bring back what was deleted last"),
    "compare": Key("=", "compare two runs"),
    "replay": Key("v", "replay a run"),
    "resume": Key("R", "launch what is missing in a run"),
    "delay": Key("b", "put a delay into a rank, or take it out"),
    "no_delays": Key("B", "take all delays out"),
    "where": Key("w", "where in a step the delay is"),
    "more": Key("+", "a longer delay; a faster replay"),
    "less": Key("-", "a shorter delay; a slower replay"),
    "skip": Key("s", "go on to the next trial"),
    "stop": Key("S", "stop the run"),
    "step": Key(".", "replay: a step of all ranks on"),
    "step_back": Key(",", "replay: a step of all ranks back"),
    "seek": Key(">", "replay of primitives: 5 s on"),
    "seek_back": Key("<", "replay of primitives: 5 s back"),
    "hold": Key("H", "replay of primitives: stand still, or go on"),
    "next": Key("n", "the next trial, or the next primitive"),
    "before": Key("p", "the trial before, or the primitive before"),
    "trial": Key("t", "primitives: the next trial"),
    "play": Key("a", "primitives: go on by itself, and stop"),
    "sort": Key("o", "sort by the next column"),
    "reverse": Key("O", "sort the other way round"),
    "columns": Key("c", "choose the columns of a table"),
    "figure": Key("f", "which figure a chart shows"),
    "curves": Key("C", "the curves of all trials in one chart"),
    "axis": Key("X", "curves over steps, or over seconds"),
    "log_scale": Key("L", "a logarithmic scale, and back"),
    "export": Key("x", "write a result to a file"),
    "zoom": Key("z", "the chosen pane on the whole screen, and back"),
    "down": Key("j", "one line down"),
    "up": Key("k", "one line up"),
    "left": Key("h", "left"),
    "right": Key("l", "right"),
    "first": Key("g", "to the start"),
    "last": Key("G", "to the end"),
}
# Screens use these for themselves, or Textual does.
MOVES = r"up|down|left|right|home|end|page(up|down)|(shift\+)?tab"
TAKEN = re.compile(rf"[0-9]|escape|enter|space|f1|f5|ctrl\+[cpqhijm]|{MOVES}")  # ctrl+i is tab in a terminal, say
LISTED = "`ddptui config --keys` lists them"
KEY = re.compile(r"\S|((ctrl|alt|shift)\+)+[a-z0-9]|f[1-9][0-9]?|insert|delete|backspace")


class SettingsError(ValueError):
    """The settings cannot be used. One line: the key, what is expected there, and what to do."""


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the user has set. theme: None means one for the terminal's background. refresh: screen refreshes per second;
    None means the default. columns: keys of columns to keep in sight. keys: by action, its keys."""

    theme: str | None = None
    refresh: Annotated[float, Meta(ge=0.2, le=30)] | None = None
    columns: tuple[str, ...] = ()
    keys: dict[str, tuple[str, ...]] = {}


NO_SETTINGS = Settings()


def parse(table: Mapping[str, Any]) -> Settings:
    """The settings of a file's table. Raises SettingsError."""
    try:
        if isinstance(keys := table.get("keys"), dict):  # an action may have one key or a list of them
            keys = {action: keys if isinstance(keys, list) else [keys] for action, keys in keys.items()}
            check_keys(keys)
            table = {**table, "keys": keys}
        settings = convert(table, Settings)
        check_columns(settings.columns)
        if settings.theme not in (None, *THEMES):
            hint = did_you_mean(settings.theme, THEMES, f"there are {', '.join(THEMES)}")
            raise TrialError("theme", f"no theme {settings.theme!r}; {hint}")
        return settings
    except TrialError as error:
        raise SettingsError(in_a_row([str(error), "correct it, or remove it for the default"], ";")) from None


def check_keys(chosen: Mapping[str, Sequence[object]]) -> None:
    """Refuse keys that a user cannot choose, by what they mean. Raises TrialError."""
    means: dict[str, str] = {key.usual: name for name, key in KEYS.items() if name not in chosen}
    for name, keys in chosen.items():
        if name not in KEYS:
            raise TrialError(f"keys.{name}", f"no such action; {did_you_mean(name, KEYS, LISTED)}")
        for key in keys or ("",):
            if not isinstance(key, str) or not KEY.fullmatch(key):
                raise TrialError(f"keys.{name}", f'{key!r} is no key: a sign, as "x", or a name, as "ctrl+x" or "f6"')
            if TAKEN.fullmatch(key):
                raise TrialError(f"keys.{name}", f"{key!r} has a meaning of its own: choose another one")
            if (other := means.setdefault(key, name)) != name:
                remedy = "choose another one, or give that one another key, too"
                raise TrialError(f"keys.{name}", f"{key!r} is the key for {other!r}: {remedy}")

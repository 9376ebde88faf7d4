"""The user's settings in config.toml, and the console's keys. Pure: ddptui/store/settings.py reads and writes the
file."""

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, NamedTuple

import msgspec
from msgspec import Meta

from ddptui.config.fields import check_columns
from ddptui.config.trial import TrialError
from ddptui.config.values import convert
from ddptui.text.words import Language, did_you_mean, in_a_row

# Textual's themes, listed here since only the screens may import Textual. A test compares this list with Textual's.
THEMES = (
    "ansi-dark", "ansi-light", "atom-one-dark", "atom-one-light", "catppuccin-frappe", "catppuccin-latte",
    "catppuccin-macchiato", "catppuccin-mocha", "dracula", "flexoki", "gruvbox", "monokai", "nord", "rose-pine",
    "rose-pine-dawn", "rose-pine-moon", "solarized-dark", "solarized-light", "textual-dark", "textual-light",
    "tokyo-night",
)  # fmt: skip


class Key(NamedTuple):
    """The default key of an action, the same on all screens, and what the action does. Users can choose other keys."""

    default: str
    meaning: str


KEYS = {
    "help": Key("?", "what the keys of this screen do"),
    "quit": Key("q", "quit; asks first if something is running"),
    "filter": Key("/", "filter a list"),
    "runs": Key("r", "show earlier runs; on that screen: reload them"),
    "edit": Key("e", "change the selected preset"),
    "read": Key("i", "read what the selected preset is about"),
    "save": Key("ctrl+s", "save as a preset of your own"),
    "rename": Key("f2", "rename a preset of your own"),
    "reset": Key("ctrl+r", "undo all changes"),
    "copy": Key("y", "copy the command line or, in a table, the row"),
    "copy_all": Key("Y", "copy the whole table"),
    "command": Key("E", "show the command of a trial's ranks, with its environment"),
    "duplicate": Key("D", "duplicate a trial"),
    "delete": Key("d", "move to the trash; in the table of trials: leave a trial out"),
    "undo": Key("u", "restore what was deleted last"),
    "compare": Key("=", "compare two runs"),
    "replay": Key("v", "replay a run"),
    "resume": Key("R", "launch the missing repeats of a run"),
    "delay": Key("b", "inject a delay into a rank, or remove it; replay: to the next change of delays"),
    "no_delays": Key("B", "remove all delays; replay: to the previous change of delays"),
    "where": Key("w", "choose where in a step the delay is"),
    "more": Key("+", "a longer delay; a faster replay"),
    "less": Key("-", "a shorter delay; a slower replay"),
    "stacks": Key("W", "ask every rank where in its code it is"),
    "lecture": Key("P", "only the headline and the arrivals, as large as the terminal allows, for a projector"),
    "skip": Key("s", "skip to the next trial"),
    "stop": Key("S", "stop the run"),
    "step": Key(".", "replay: one step of all ranks forward"),
    "step_back": Key(",", "replay: one step of all ranks back"),
    "seek": Key(">", "replay of primitives: 5 s forward"),
    "seek_back": Key("<", "replay of primitives: 5 s back"),
    "hold": Key("H", "replay of primitives: pause or continue"),
    "next": Key("n", "the next trial or primitive"),
    "before": Key("p", "the previous trial or primitive"),
    "trial": Key("t", "primitives: the next trial"),
    "play": Key("a", "primitives: start or stop autoplay"),
    "sort": Key("o", "sort by the next column"),
    "reverse": Key("O", "reverse the sort order"),
    "columns": Key("c", "choose the columns of a table"),
    "figure": Key("f", "choose the figure that a chart shows"),
    "curves": Key("C", "show the curves of all trials in one chart"),
    "axis": Key("X", "switch curves between steps and seconds"),
    "log_scale": Key("L", "switch the logarithmic scale on or off"),
    "answer": Key("A", "answer the questions of a lesson"),
    "export": Key("x", "write a result to a file"),
    "zoom": Key("z", "maximize the selected pane, or restore it"),
    "down": Key("j", "one line down"),
    "up": Key("k", "one line up"),
    "left": Key("h", "left"),
    "right": Key("l", "right"),
    "first": Key("g", "to the start"),
    "last": Key("G", "to the end"),
}
# Keys that the screens or Textual use.
MOVES = r"up|down|left|right|home|end|page(up|down)|(shift\+)?tab"
TAKEN = re.compile(rf"[0-9]|escape|enter|space|f1|f5|ctrl\+[cpqhijm]|{MOVES}")  # a terminal sends ctrl+i as tab, etc.
LISTED = "`ddptui config --keys` lists them"
KEY = re.compile(r"\S|((ctrl|alt|shift)\+)+[a-z0-9]|f[1-9][0-9]?|insert|delete|backspace")


class SettingsError(ValueError):
    """Settings that cannot be used. The message is one line: the key, what is wrong, and what to do."""


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The user's settings. theme: None means one for the terminal's background. refresh: screen refreshes per second;
    None means the default. columns: keys of the columns that tables drop last. keys: the keys of each action. lang: the
    language of titles, questions and findings."""

    theme: str | None = None
    refresh: Annotated[float, Meta(ge=0.2, le=30)] | None = None
    columns: tuple[str, ...] = ()
    keys: dict[str, tuple[str, ...]] = {}
    lang: Language = "en"


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
        raise SettingsError(in_a_row([str(error), "correct it, or remove it to use the default"], ";")) from None


def check_keys(chosen: Mapping[str, Sequence[object]]) -> None:
    """Check the keys that the user chose for each action. Raises TrialError."""
    means: dict[str, str] = {key.default: name for name, key in KEYS.items() if name not in chosen}
    for name, keys in chosen.items():
        if name not in KEYS:
            raise TrialError(f"keys.{name}", f"no such action; {did_you_mean(name, KEYS, LISTED)}")
        for key in keys or ("",):
            if not isinstance(key, str) or not KEY.fullmatch(key):
                raise TrialError(f"keys.{name}", f'{key!r} is not a key; use e.g. "x", "ctrl+x" or "f6"')
            if TAKEN.fullmatch(key):
                raise TrialError(f"keys.{name}", f"{key!r} is reserved; choose another key")
            if (other := means.setdefault(key, name)) != name:
                remedy = "choose another key, or give that action another one"
                raise TrialError(f"keys.{name}", f"{key!r} is already the key for {other!r}; {remedy}")

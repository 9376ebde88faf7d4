"""The console's letters and signs: each means the same on all screens. `[keys]` in config.toml sets others. Pure."""

import re
from collections.abc import Mapping
from typing import NamedTuple


class Key(NamedTuple):
    """What a key means, and which one it is, unless the user has chosen others."""

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
    "match": Key("m", "match the trials of two runs by hand"),
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
KEY = re.compile(r"\S|((ctrl|alt|shift)\+)+[a-z0-9]|f[1-9][0-9]?|insert|delete|backspace")


def problem(chosen: Mapping[str, tuple[str, ...]]) -> tuple[str, str] | None:
    """What is wrong with keys that a user has chosen, by what they mean: which one, and why. None: nothing is."""
    means = {key.usual: name for name, key in KEYS.items() if name not in chosen}
    for name, keys in chosen.items():
        for key in keys:
            if not KEY.fullmatch(key):
                return name, f'{key!r} is no key: a sign, as "x", or a name, as "ctrl+x" or "f6"'
            if TAKEN.fullmatch(key):
                return name, f"{key!r} has a meaning of its own: choose another one"
            if (other := means.setdefault(key, name)) != name:
                return name, f"{key!r} is the key for {other!r}: choose another one, or give that one another key, too"
    return None

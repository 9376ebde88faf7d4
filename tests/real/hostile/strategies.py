"""Draws scenes: hostile texts, values and files wherever a console takes any."""

import copy
import json
import os
from base64 import urlsafe_b64encode
from typing import Any

import tomli_w
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from ddptui.engines.join.ticket import MARK
from tests.real.hostile.scenes import (
    DEEP,
    ENCODINGS,
    LONG,
    LOOKS_AROUND,
    NO_TEXT,
    PRESET,
    RECORDED,
    RUN,
    STEERING,
    Content,
    Scene,
    Special,
    Variables,
    deep,
    preset,
    ticket,
)
from tests.unit.host.test_place import FULL

ODD = ("", " ", "é漢\U0001f44d", "[/b]", "[bold]x[/]", "{0}%s", "..", "a/b", "-", "--", "~", "=", "*", "\u00a0", "nan")
NUMBERS = (0, -1, 10**9, 2**63, 2**64, 10**30, 1e308, 0.5, float("inf"), float("nan"))

steering = st.sampled_from(STEERING)
texts = (
    steering | st.sampled_from(ODD) | st.text(max_size=20) | st.just("x" * LONG) | st.builds("x{}y".format, steering)
)
numbers = st.sampled_from(NUMBERS)
simple = texts | numbers | st.booleans() | st.just(DEEP)
values = simple | st.lists(simple, max_size=3) | st.dictionaries(texts, simple, max_size=3)
specials = st.sampled_from(Special)
# A word of a command line, or a variable: no zero byte, and the system takes 128 KB at most.
words = (texts | st.just(NO_TEXT)).map(lambda text: os.fsencode(_without_others(text).replace("\0", ""))[:100_000])
names = words.map(lambda word: os.fsdecode(word[:100].replace(b"/", b"").strip(b".")) or "x")


def _without_others(text: str) -> str:
    """Without what no name of a file can hold: of the surrogates, only those that stand for a byte can be."""
    return os.fsdecode(text.encode("utf-8", "surrogateescape"))


@st.composite
def changed(draw: DrawFn, tree: Any) -> Any:
    """A copy of a tree of dicts and lists: one value is another one, one is missing, or one is too many."""
    whole = parent = copy.deepcopy(tree)
    key = draw(st.sampled_from(_keys(parent)))
    while isinstance(parent[key], dict | list) and parent[key] and draw(st.integers(0, 3)):
        parent = parent[key]
        key = draw(st.sampled_from(_keys(parent)))
    match draw(st.sampled_from(("replaced", "replaced", "missing", "added"))):
        case "missing":
            del parent[key]
        case "added" if isinstance(parent, dict):
            parent[draw(texts)] = draw(values)
        case _:
            parent[key] = draw(values)
    return whole


def _keys(tree: Any) -> list[Any]:
    return list(tree) if isinstance(tree, dict) else list(range(len(tree)))


@st.composite
def _line_changed(draw: DrawFn, text: str) -> str:
    lines = text.splitlines()
    at = draw(st.integers(0, len(lines) - 1))
    lines[at] = json.dumps(draw(changed(json.loads(lines[at]))))
    return "\n".join(lines) + "\n"


def _json(name: str) -> SearchStrategy[Content]:
    text = (RECORDED / name).read_text(encoding="utf-8")
    if name.endswith(".jsonl"):
        return _line_changed(text).map(deep)
    return changed(json.loads(text)).map(json.dumps).map(deep)


presets: SearchStrategy[str] = changed(PRESET).map(tomli_w.dumps).map(deep)
spoilt: SearchStrategy[Content] = specials | st.binary(max_size=50)
FILES_OF_A_RUN: dict[str, SearchStrategy[Content]] = {
    "preset.toml": presets | spoilt,
    "environment.json": _json("environment.json") | spoilt,
    "results.json": _json("results.json") | spoilt,
    "trial-late/repeat-1/messages.jsonl": _json("trial-late/repeat-1/messages.jsonl") | spoilt,
    "trial-killed/repeat-1/rank-0.log": texts | spoilt,
}
runs: SearchStrategy[dict[str, Content]] = st.fixed_dictionaries({}, optional=FILES_OF_A_RUN).map(
    lambda files: {f"{RUN}/{name}": content for name, content in files.items()}
) | st.builds(lambda name: {f"runs/{name}/preset.toml": preset()}, names)
own_presets: SearchStrategy[dict[str, Content]] = st.builds(
    lambda name, content: {f"presets/{name}.toml": content}, names, presets | spoilt
)
tickets = (
    words
    | st.binary(max_size=60).map(lambda junk: (MARK + urlsafe_b64encode(junk).decode()).encode())
    | st.builds(
        lambda fields: ticket(**{"keys": ("s", "p", "x")} | fields).encode()[:100_000],
        st.fixed_dictionaries({}, optional={"run": texts, "endpoint": texts, "token": texts, "keys": values}),
    )
)
FORMATS = ("table", "markdown", "csv", "steps", "json", "trace", "html", "svg")
VARIABLES = sorted({name for kind in FULL.values() for name in kind})
encodings = st.sampled_from(ENCODINGS)
ANY_WORD: tuple[tuple[str, ...], ...] = (
    ("x{}",), ("--x{}",), ("show", "{}"), ("show", "last", "{}"), ("runs", "--runs", "{}"), ("presets", "{}"),
    ("--preset", "{}", "--no-ui"), ("--preset", "quickstart", "--no-ui", "--set", "{}=1", "--set", "lr=x"),
    ("presets", "quickstart", "--set", "model={}"), ("--resume", "{}", "--no-ui"), ("project", "last", "--ranks", "{}"),
    ("verify", "{}", "{}"), ("place", "--as", "{}"), ("--theme", "{}"), ("manifest", "{}", "--kind", "dlc"),
    ("manifest", "quickstart", "--kind", "trainjob", "--image", "{}"), ("show", "last", "--format", "{}"),
)  # fmt: skip


@st.composite
def worded(draw: DrawFn) -> Scene:
    """Hostile words, where a word is expected."""
    word = draw(words)
    typed = draw(st.sampled_from(ANY_WORD))
    return Scene(tuple(word.join(part.encode() for part in around.split("{}")) for around in typed))


def _typed(*lines: str) -> SearchStrategy[tuple[str, ...]]:
    return st.sampled_from([tuple(line.split()) for line in lines])


showing = _typed(
    "runs", "project last", "project last --format html", *(f"show last --format {format}" for format in FORMATS)
)
resumed = st.fixed_dictionaries(
    {}, optional={f"{RUN}/{name}": FILES_OF_A_RUN[name] for name in ("environment.json", "results.json")}
)
places = st.builds(
    lambda known, others: known | others,
    st.sampled_from([{}, *FULL.values()]),
    st.dictionaries(st.sampled_from(VARIABLES), words, max_size=3),
)
# (To builds, a class would mean that all its fields are to be made up.)
commands: SearchStrategy[Scene] = worded() | st.builds(
    lambda typed: Scene(*typed),
    st.one_of(
        st.tuples(showing, runs),
        st.tuples(_typed("--resume last --no-ui"), resumed),
        st.tuples(_typed("presets"), own_presets),
        st.tuples(_typed("presets ./preset.toml"), (presets | spoilt).map(lambda text: {"preset.toml": text})),
        st.tuples(st.tuples(st.just("join"), tickets)),
        st.tuples(_typed("place"), st.just({}), places),
    ),
)


def _surrounded(scene: Scene, variables: Variables, on_a_terminal: bool) -> Scene:
    return scene._replace(variables={**scene.variables, **variables}, on_a_terminal=on_a_terminal)


on_pipes_and_terminals: SearchStrategy[Scene] = st.builds(_surrounded, commands, encodings, st.booleans())
on_screen: SearchStrategy[Scene] = st.builds(
    lambda files, text, variables: Scene(
        (), {**files, "presets/quickstart.toml": text}, variables, on_a_terminal=True, keys=LOOKS_AROUND, well=True
    ),
    runs,
    presets,
    encodings,
)

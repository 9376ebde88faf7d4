"""Hostile input that once broke the console, by name. Only data: test_hostile_input.py gives it to the real one."""

import tomli_w

from tests.real.hostile.scenes import (
    DEEP,
    ENCODINGS,
    ENDPOINT,
    KEYS,
    LONG,
    LOOKS_AROUND,
    NO_TEXT,
    RUN,
    STEERING,
    Content,
    Scene,
    Special,
    Variables,
    preset,
    recorded,
    ticket,
)
from tests.support.runner import QUICK

STEERS = "".join(STEERING)
NAME = STEERS.replace("\n", "")  # of a file
TRAINS = f"[defaults]\n{QUICK}[[trial]]\n{{}}\n"


def a_run(words: str, files: dict[str, Content]) -> Scene:
    """A command, and a run of which these files are others."""
    return Scene(tuple(words.split()), {f"{RUN}/{name}": text for name, text in files.items()})


def a_preset(text: Content) -> Scene:
    return Scene(("presets", "./preset.toml"), {"preset.toml": text})


def trained(title: str, variables: Variables, trial: str = 'launch = "single"') -> Scene:
    text = tomli_w.dumps({"title": title, "group": title}) + TRAINS.format(trial)
    return Scene(("--preset", "preset.toml", "--no-ui"), {"preset.toml": text}, variables, well=True)


def looked_at(files: dict[str, Content]) -> Scene:
    return Scene((), files, on_a_terminal=True, keys=LOOKS_AROUND, well=True)


TEXTS = {
    **{f"a preset's {key}, {scene.words[-1]}": scene for key in ("title", "group", "about")
       for text in (preset(**{key: STEERS}),)
       for scene in (Scene(("presets",), {"presets/a.toml": text}), a_preset(text),
                     a_run("show last", {"preset.toml": text}))},
    "a source": a_run("show last", {"preset.toml": preset(
        reference=[{"trial": "none", "train_time_s": 1.0, "source": STEERS}])}),
    "an unknown key": a_preset(preset(**{STEERS: 1})),
    "an unknown field": a_preset(tomli_w.dumps({"trial": [{STEERS: 1}]})),
    "an unknown value": a_preset(tomli_w.dumps({"trial": [{"launch": STEERS}]})),
    "a preset's file name": Scene(("presets",), {f"presets/{NAME}.toml": preset()}),
    "a bad preset's file name": Scene(("presets",), {f"presets/{NAME}.toml": "x"}),
    "a bad preset's file name, typed": Scene(("presets", f"./{NAME}.toml"), {f"{NAME}.toml": "x"}),
    "a folder's name": Scene(("runs",), {f"runs/{NAME}/preset.toml": preset()}),
    "a folder's name that is no text": Scene(("runs",), {f"runs/{NO_TEXT}/preset.toml": preset()}),
    "a status": a_run("runs", {"results.json": recorded("results.json", status=STEERS)}),
    "a name in environment.json": a_run("show last --format json", {
        "environment.json": recorded("environment.json", preset=STEERS)}),
    **{f"a word: {words}": Scene(tuple(word.replace("{}", STEERS) for word in words.split())) for words in (
        "{}", "--{}", "show last {}", "presets {}", "presets quickstart --set {}", "verify {} {}", "join {}")},
    "a title, trained": trained(STEERS, {}),
}  # fmt: skip
FILES = {
    **{f"{name}, nested without end": a_run(words, {name: recorded(name, status=DEEP, host=DEEP)})
       for name, words in (("results.json", "runs"), ("environment.json", "show last"))},
    **{f"environment.json: {key} = {value!r}": a_run("--resume last --no-ui", {
        "environment.json": recorded("environment.json", **{key: value})})
       for key, value in (("preset", 5), ("packages", [1]), ("resumed", 5), ("cores", "many"))},
    **{f"{name}: {kind.name}": a_run(words, {name: kind}) for kind in (Special.FIFO, Special.DEVICE, Special.SPARSE)
       for name, words in (("environment.json", "show last"), ("results.json", "runs"), ("preset.toml", "runs"),
                           ("trial-none/repeat-1/messages.jsonl", "show last"))},
    "presets that are no files": Scene(("presets",), {f"presets/{kind.name}.toml": kind for kind in Special}),
    "40 KB of dotted keys": a_preset("a" + ".a" * 20_000 + " = 1"),
    "40 KB of dotted tables": a_preset("[a" + ".a" * 20_000 + "]"),
    "40 KB of dotted keys in a run": a_run("runs", {"preset.toml": "a" + ".a" * 20_000 + " = 1"}),
    "a name of 500 KB": a_preset(preset(**{"x" * LONG: 1})),
    "a trial's name of 500 KB": a_preset(preset(trial=[{"name": "x" * LONG}])),
    "a baseline of 500 KB": a_preset(preset(baseline="x" * LONG)),
    "a value of 500 KB": a_preset(tomli_w.dumps({"trial": [{"launch": "x" * LONG}]})),
    "a checkpoint without end": Scene(("verify", "a", "a"), {"a": Special.BOMB}),
}  # fmt: skip
BAD_TICKETS = {
    "a bad key": ticket(keys=("s", "p", "x")),
    "keys that are no text": ticket(keys=("\u00e9" * 40,) * 3),
    "ipc": ticket(endpoint="ipc:///tmp/x"),
    "no port": ticket(endpoint="tcp://127.0.0.1"),
    "a port that is no number": ticket(endpoint="tcp://127.0.0.1:x"),
    "a port out of range": ticket(endpoint="tcp://127.0.0.1:99999"),
    "half of an address of IPv6": ticket(endpoint="tcp://[::1"),
    "no endpoint": ticket(endpoint=""),
    "an endpoint that steers": ticket(endpoint=f"tcp://{STEERS}:9"),
    "an endless endpoint": ticket(endpoint=f"tcp://{'x' * 2000}:9"),
}
TICKETS = {
    **{f"a ticket: {what}": Scene(("join", spelled)) for what, spelled in BAD_TICKETS.items()},
    **{f"a ticket's file: {kind.name}": Scene(("join", "a"), {"a": kind}) for kind in (Special.FIFO, Special.DEVICE)},
    "a ticket in a manifest": Scene(("manifest", "quickstart", "--kind", "trainjob", "--image", "x", "--ticket",
                                     ticket(run=STEERS, endpoint=f"{ENDPOINT}{STEERS}", keys=KEYS))),
    "a ticket whose run steers": Scene(("join", ticket(run=STEERS)), on_a_terminal=True, keys=((b"joining", b"\3"),)),
}  # fmt: skip
PET = {
    "NNODES": "3", "NPROC_PER_NODE": "7", "NODE_RANK": "2", "MASTER_ADDR": "10.9.9.9", "MASTER_PORT": "1",
    "RDZV_BACKEND": "c10d", "RDZV_ENDPOINT": "10.9.9.9:1", "RDZV_ID": "x", "MAX_RESTARTS": "9", "ROLE": "x",
    "MONITOR_INTERVAL": "99", "LOCAL_ADDR": "10.9.9.9", "RUN_PATH": "1", "NO_PYTHON": "1", "TEE": "3",
}  # fmt: skip
TORCHRUN = 'launch = "launch"\nstart = "cold"'
HARMLESS = trained("a", {}, TORCHRUN)  # what trains takes the most memory
NOBODY = "unshare --user --map-user=54321"  # a user that /etc/passwd does not list
SURROUNDINGS = {
    **{f"{text}, {words}": Scene(tuple(words.split()), variables=some, well=True) for some in ENCODINGS[1:]
       for text in (" ".join(f"{name}={value}" for name, value in some.items()),)
       for words in ("presets quickstart", "show last")},
    "no locale, trained": trained("für wén 漢", ENCODINGS[1]),
    "Latin-1, trained": trained("für wén 漢", ENCODINGS[3]),
    **{f"no home, {words}": Scene((words,), variables={"HOME": None, "DDPTUI_RUNS": None}, within=NOBODY)
       for words in ("presets", "runs")},
    "a variable of a place": Scene(("place",), variables={"RANK": NAME, "WORLD_SIZE": "2"}),
    "PET_*, trained": trained("a", {f"PET_{name}": value for name, value in PET.items()}, TORCHRUN),
}  # fmt: skip
ON_SCREEN = {
    "nothing hostile, on screen": looked_at({}),
    "texts, on screen": looked_at({
        "presets/quickstart.toml": preset(title=STEERS, group=STEERS, about=STEERS),
        f"presets/{NAME}.toml": "x",
        f"{RUN}/preset.toml": preset(title=STEERS, about=STEERS),
        f"{RUN}/environment.json": recorded("environment.json", preset=STEERS, host=STEERS),
        f"runs/2{NAME}/preset.toml": preset(),
    }),
    **{f"{name}: {what}, on screen": looked_at({f"{RUN}/{name}": text})
       for name in ("environment.json", "results.json")
       for what, text in (("nested without end", recorded(name, status=DEEP, packages=DEEP)), ("FIFO", Special.FIFO),
                          ("DEVICE", Special.DEVICE))},
    "environment.json of wrong types, on screen": looked_at({
        f"{RUN}/environment.json": recorded("environment.json", preset=5, packages=[1], host=1)}),
    "no files of runs, on screen": looked_at({
        f"runs/1{kind.name}{number}/{name}": content
        for number, file in enumerate(("environment.json", "results.json")) for kind in Special
        for name, content in (("preset.toml", preset()), (file, kind))}),
    "no locale, on screen": looked_at({})._replace(variables=ENCODINGS[1]),
    "Latin-1, on screen": looked_at({})._replace(variables=ENCODINGS[3]),
    "no home, on screen": looked_at({})._replace(within=NOBODY, variables={"HOME": None}, well=False),
}  # fmt: skip

"""Bad presets, flags, files and environments, and what is said of each. Only data: test_bad_input.py gives them to the
real console."""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

PRESET = "preset.toml"
FAULT = '[[trial.fault]]\nkind = "{}"\nrank = {}\nstep = {}\n'
RUN = "runs-of-mine/20260101-000000-x"
A = '[[trial]]\nname = "a"\n'
MANY = 100_000


class Case(NamedTuple):
    """What is given, and what is said.

    words      of the command line
    message    a part of the one line that is said, what to do about it included where that is not plain
    files      by name, in the folder where the console is started
    variables  of the environment
    shell      what a shell does before it becomes the console; `{}` in it stands for the console
    hidden     packages that are not installed
    """

    words: tuple[str | bytes, ...]
    message: str
    files: Mapping[str, str | bytes] = MappingProxyType({})
    variables: Mapping[str, str] = MappingProxyType({})
    shell: str = ""
    hidden: str = ""


def preset(text: str | bytes, message: str, *words: str, shell: str = "") -> Case:
    """The text of a preset, run headless."""
    return Case(("--preset", PRESET, "--no-ui", *words), message, {PRESET: text}, shell=shell)


def run(*words: str | bytes, says: str, files: dict[str, str | bytes] | None = None, shell: str = "", hidden: str = "",
        **variables: str) -> Case:  # fmt: skip
    """A good preset, and something else that is bad."""
    return Case(("--preset", "quickstart", "--no-ui", *words), says, files or {}, variables, shell, hidden)


def see(*words: str, says: str) -> Case:
    return Case(("--preset", "primitives-see", "--no-ui", *words), says)


def override(assignment: str | bytes, message: str, *others: str) -> Case:
    return run("--set", assignment, *others, says=message)


def show(
    files: dict[str, str | bytes], message: str, shell: str = "", words: tuple[str, ...] = ("show", "last")
) -> Case:
    """A run that was kept, and spoilt. shell: as a Case has it, in the run's folder. words: of another command."""
    kept: dict[str, str | bytes] = {"preset.toml": A}
    there = {f"{RUN}/{name}": content for name, content in (kept | files).items()}
    spoil = f"(cd {RUN}; {shell}); ulimit -v 4000000; {{}}" if shell else ""
    return Case((*words, "--runs", "runs-of-mine"), message, there, shell=spoil)


LINKED, LINK = "mkdir presets; ln -s", "presets/l.toml; {}"
FILES = {
    "a folder": Case(("--preset", "./d.toml", "--no-ui"), "read: it is a folder, not a file", shell="mkdir d.toml; {}"),
    "a pipe that nobody fills": Case(("--preset", "p.toml", "--no-ui"), "a regular file", shell="mkfifo p.toml; {}"),
    "a device without end": Case(("--preset", "/dev/zero", "--no-ui"), "a regular file", shell="ulimit -v 4000000; {}"),
    "a device that is empty": Case(("--preset", "/dev/null", "--no-ui"), "a regular file"),
    "a link to a device": Case(("presets", "l"), "not a regular file: replace it", shell=f"{LINKED} /dev/zero {LINK}"),
    "a link to news without end": Case(("presets", "l"), "presets/l.toml: ", shell=f"{LINKED} /proc/kmsg {LINK}"),
    "dotted keys without end": preset("a." * 20_000 + "b = 1", "a dotted key of more than 16 parts (at line 1)"),
    "dotted tables without end": preset("\n[" + '"a" . ' * 8_000 + "b]", "more than 16 parts (at line 2)"),
    "dotted keys with blanks": preset('"a b".' * 8_000 + "b = 1", "a dotted key of more than 16 parts (at line 1)"),
    "a link to nowhere": Case(("--preset", "l.toml", "--no-ui"), "No such file", shell="ln -s nowhere l.toml; {}"),
    "a link to itself": Case(("--preset", "l.toml", "--no-ui"), "symbolic links", shell="ln -s l.toml l.toml; {}"),
    "a name without end": Case(("--preset", "x" * 5000 + ".toml", "--no-ui"), "File name too long"),
    "a name that is no text": Case(("--preset", b"\xff.toml", "--no-ui"), "No such file"),
    "a huge file": preset("a = 1\n" * 300_000, "is not a preset: it is larger than 1 MB"),
    "a mark of UTF-8, and a slip": preset(b"\xef\xbb\xbftitel = 1", "did you mean 'title'?"),
}
PRESETS = {
    "a fault on no rank": preset("[[trial]]\n" + FAULT.format("kill", 2, 1), "fault[0].rank: no rank 2"),
    "a fault after the end": preset("[[trial]]\nsteps = 9\n" + FAULT.format("stop", 0, 9), "would never happen"),
    "a fault of no replica": preset('[[trial]]\nlaunch = "dp"\n' + FAULT.format("stop", 1, 1), "dp is one process"),
    "no patience at all": preset("[[trial]]\nstall_s = 1", "stall_s: expected a number of 2 or more"),
    "trials without end": preset("[[trial]]\n" * MANY, f"trial: there are {MANY} trials; at most 1000 are allowed"),
    "a name with a bell": preset('[[trial]]\nname = "a\\u0007b"', "'a\\x07b' cannot be the name of a folder; use "),
    "an unknown baseline": preset('baseline = "z"\n' + A, "baseline: no trial 'z'; there is a"),
    "a date": preset("[[trial]]\nseed = 2026-11-21", "trial[0].seed: expected an integer"),
    "ranks: no list": preset(
        f'{A}bottleneck = [{{at = "data", sleep_ms = 1, ranks = 0}}]', "ranks: expected a list, got 0"
    ),
}
FLAGS = {
    "more ranks than memory": run(
        "--set",
        "world_size=1024",
        "--set",
        "batch_size=1024",
        "--set",
        "start_method=spawn",
        says="lower world_size",
        shell="ulimit -n 64; {}",
    ),
    "no such primitive": see("--set", 'operations=["redcue"]', says="--set operations[0]: unknown value 'redcue'"),
    "messages that fill the memory": Case(
        ("--preset", "primitives-measure", "--no-ui", "--set", "max_bytes=8_589_934_592", "--set", "world_size=64"),
        "this machine has ",
    ),
    "an override with a line break": override("epo\nchs=1", "did you mean 'epochs'?"),
    "an override twice": run("--set", "epochs=1", "--set", "epochs=2", says="--set epochs: is given twice: give it"),
    "a field of no trial": override("none:epochs=1", "--set none:epochs: no trial 'none'; there is one-process"),
    "a field that one trial has no use for": override("one-process:strategy=ring", "has no effect with launch ="),
    "a name for one": override("ddp:name=x", "--set ddp:name: cannot be set: `--duplicate` names a copy"),
    "a copy of no trial": run("--duplicate", "none=late", says="--duplicate none=late: no trial 'none'"),
    "a copy without a name": run("--duplicate", "ddp", says="--duplicate ddp: expected TRIAL=NEW"),
    "a copy with another's name": run("--duplicate", "ddp=DDP", says="a trial has this name: choose another name"),
    "a copy that names no folder": run("--duplicate", "ddp=a/b", says="'a/b' cannot be the name of a folder"),
    "no trial left out": run("--remove", "none", says="--remove none: no trial 'none'"),
    "all trials left out": run(
        "--remove", "one-process", "--remove", "all_reduce", "--remove", "ddp", says="removes the last trial; leave one"
    ),
    "a delay in other words": override("bottleneck=late", 'write it like "backward 20 ms on 1", or none; or as tables'),
    "a delay of another length": override("bottleneck=data 1.2.3 ms on 1", '--set bottleneck.sleep_ms: "1.2.3" is not'),
    "a fault in other words": override("fault=kill 1", 'write it like "kill on 1, step 5"'),
    "an override that is no text": override(b"lr=\xff", "--set lr: contains bytes that are not"),
    "a model like no other": override("model=zzz", "or your own as file.py:name"),
    "half of a model of one's own": override("model=mine:", "does not name your code: write it as mine.py:average or"),
    "a model in no module": override("model=mine.net:Net", "no module 'mine' for 'mine.net:Net': put its folder on"),
    "a refresh that is no number": run("--refresh", "nan", says="--theme and --refresh have no effect without"),
    "a preset beside a command": Case(("--preset", "quickstart", "run"), "cannot be combined with a command: leave"),
    "JSON of a command": Case(("--json", "show", "last"), "options come after the command"),
    "a training script that is a pipe": Case(("init", "t.py"), "a device, not a regular file", shell="mkfifo t.py; {}"),
    "a projection on no cores": Case(("project", "x", "--cores", "0"), "--cores"),
    "no end": Case(("--preset", "playground", "--no-ui"), "trial playground trains until you stop it: run it in the"),
}
RUNS = {
    "a list of runs that is a file": Case(("runs", "--runs", "f"), "give the folder of runs with --runs", {"f": ""}),
    "no run to delete": Case(("delete",), "name the runs to delete (`ddptui runs` lists them), or give --empty-trash"),
    "a run, and the trash to empty": Case(("delete", "x", "--empty-trash"), "or give --empty-trash alone"),
    "nothing to bring back": Case(("restore",), "`ddptui runs --trash` lists it"),
    "no such run to resume": Case(("--resume", "x", "--no-ui"), "no run 'x' in "),
    "a run to resume, and a preset": Case(("--resume", "x", "--preset", "y"), "--resume keeps the run's own settings"),
    "a run with an endless name": Case(("show", "x" * 5000), "File name too long"),
    "a run whose environment is a list": show({"environment.json": "[]"}, "environment.json: cannot be read"),
    "a run whose environment is nested without end": show(
        {"environment.json": '{"a":' + "[" * 200_000},
        "environment.json: cannot be read: its tables and lists are nested",
    ),
    **{
        f"a run whose environment has a wrong {key}": show({"environment.json": f'{{"{key}": {value}}}'}, f"$.{key}")
        for key, value in {"resumed": "{}", "cores": '"two"'}.items()
    },
    **{
        f"a run with {what} as its {file}": show({f"{folder}x": ""}, f"{file}: cannot be read: {why}", command + file)
        for folder, file in (("", "environment.json"), ("trial-a/repeat-1/", "messages.jsonl"))
        for what, command, why in (
            ("a pipe", f"cd ./{folder}; mkfifo ", "it is a pipe, a socket or a device, not a regular file"),
            ("20 GB", f"cd ./{folder}; truncate -s 20G ", "it is larger than"),
        )
    },
    **{
        f"a run with a pipe as its journal, for {words[0]}": show(
            {"trial-a/repeat-1/x": ""}, "cannot be read: it is a pipe", "mkfifo trial-a/repeat-1/messages.jsonl", words
        )
        for words in (("project", "last"), ("verify", "last"), ("--resume", "last", "--no-ui"))
    },
    "a checkpoint that is not there": Case(("verify", "a.pth", "b.pth"), "a.pth: no such file"),
    "one checkpoint alone": Case(("verify", "a.pth"), "to compare two checkpoints, give both", {"a.pth": b"\0"}),
}
SURROUNDINGS = {
    "no torch": run(says="torch is not installed: `pip install torch`", hidden="torch"),
    "no torchvision": run(says="torchvision is not installed: `pip install torchvision`", hidden="torchvision"),
    "no GPU": run("--set", "device=cuda", says=", or `--set device=cpu`", CUDA_VISIBLE_DEVICES="-1"),
    "a GPU that is hidden": run("--set", "device=cuda", says="CUDA_VISIBLE_DEVICES is ''", CUDA_VISIBLE_DEVICES=""),
    "NCCL without a GPU": run("--set", "backend=nccl", says="'nccl' needs NVIDIA GPUs, but", CUDA_VISIBLE_DEVICES=""),
    "no compiler": run("--set", "compile=true", says="install g++, or set CXX to another", CXX="no-such-compiler"),
    "no data": run("--set", "dataset=mnist", says="download it with `--set download=true`"),
    "data in a file": run("--set", "dataset=cifar10", says="DDPTUI_DATA", files={"f": ""}, DDPTUI_DATA="f"),
    "runs in a file": run(says="cannot save runs here", files={"f": ""}, DDPTUI_RUNS="f"),
    "runs at a link to itself": run(says="name a folder with --runs", shell="ln -s l l; {}", DDPTUI_RUNS="l"),
    "runs where nobody can write": run(says="name a folder with --runs", DDPTUI_RUNS="/proc/runs"),
    "runs with an endless name": run(says="File name too long", DDPTUI_RUNS="x" * 300),
    "a home that is a file": run(says="name a folder with --runs", files={"home": ""}, DDPTUI_RUNS=""),
    "a folder that is gone": run("--runs", "r", says="run ddptui in another", shell="mkdir x; cd x; rmdir ../x; {}"),
    "few files, for many ranks": run("--set", "world_size=16", says="raise `nofile` in /etc/security/limits.conf",
                                     shell="ulimit -n 64; {}"),
    "few files, for replicas": preset('[[trial]]\nlaunch = "dp"\nworld_size = 8', "8 ranks need 80 open files per",
                                      shell="ulimit -n 64; {}"),
    "no stdout": Case(("--preset", "zzz"), "`ddptui presets` lists them", shell="{} >&-"),
    "a full stdout": Case(("presets",), "stdout: No space left on device; the disk is full", shell="{} >/dev/full"),
    "no locale": Case(("--preset", PRESET), "unknown key", {PRESET: "\"für wén\" = 1"},
                      {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}),
}  # fmt: skip
SETTINGS = "home/.config/ddptui/config.toml"
CONFIG = {
    "settings that are no TOML": run(says="config.toml: is not valid TOML", files={SETTINGS: "theme = "}),
    "settings to show": Case(("config",), "refresh: expected a number, got true", {SETTINGS: "refresh = true"}),
    "settings for a training that is watched": Case(
        ("watch", "--no-ui", "--", "true"), "columns[0]: no column 'x'", {SETTINGS: 'columns = ["x"]'}
    ),
}
CASES = FILES | PRESETS | FLAGS | RUNS | SURROUNDINGS | CONFIG


def write(folder: Path, files: Mapping[str, str | bytes]) -> None:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)

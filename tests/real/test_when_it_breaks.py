"""Trainings that break, under `ddptui watch --no-ui`: the first cause is named, and all else is as without ddptui.

DDPTUI_BESIDE=2 runs each of them beside two programs that keep a core busy.
"""

import json
import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.support.load import busy_processes
from tests.support.runner import ENOUGH_S
from tests.support.watching import TRAININGS, torchrun, watched

RARE = pytest.mark.rare
BESIDE = int(os.environ.get("DDPTUI_BESIDE", "0"))
PROGRAMS = TRAININGS / "breaking"
STALL_S = 3
TORCHRUN, OF_THREE = (torchrun(sys.executable, ranks) for ranks in (2, 3))
RESTARTING = [*TORCHRUN, "--max-restarts=1"]
OLD_LAUNCHER = [sys.executable, "-m", "torch.distributed.launch", "--nproc_per_node=2", "--master_port={port}"]
AT_A_PORT = [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node=2", "--master_addr=127.0.0.1"]
PYTHON = [sys.executable]

FALSE_COLOURS = (
    *("Try", "too few for a verdict", "bucket_cap_mb", "ranks stood idle", "The others waited for", "Nothing to worry"),
    *("Mostly waiting", "Mostly the network", "holds everyone up"),
)
LIVE = re.compile(r"ddptui: no step for ")


class Case(NamedTuple):
    """A training that breaks, and what must be said of it. Patterns may hold <file:mark> for a place in the programs,
    and {9} for a number that may be off by one, as at the border of two steps."""

    command: list[str]
    says: tuple[str, ...]  # patterns of the summary
    rank: tuple[int | None, ...] = ()  # any of these; empty: not looked at
    step: int | None = None  # None: not looked at
    place: tuple[str, ...] = ()  # any of these; empty: not looked at
    error: str = ""  # pattern
    remedy: str = ""  # pattern
    hangs: tuple[str, ...] = ()  # patterns of the line that is told while the training hangs
    speaks: int | None = None  # the rank whose words on stderr are the same in each run


def apart(*sides: str, lone: int, place: str = "", **expected: Any) -> dict[str, Any]:
    """What is expected where ranks are in different collectives."""
    return {"says": ("different collectives", *sides), "rank": (lone, None), "place": (place, ""), **expected}


LONE = "<collective:lone>"
BACKWARD = "<collective:backward>"


def lone_collective(kind: str, lone: int, world: int = 2, **expected: Any) -> Case:
    others = [rank for rank in range(world) if rank != lone]
    waiting = f"ranks? {others[0]}" + "".join(f"(, | and ){rank}" for rank in others[1:])
    sides = f"rank {lone} [^;]*{kind}[^;]*{{9}}[^;]*{LONE}", rf"{waiting} [^;]*all_reduce[^;]*step {{10}}"
    command = [*(TORCHRUN if world == 2 else OF_THREE), "collective.py", kind, str(lone)]
    hangs = (f"{lone} [^;]*{kind}[^;]*{LONE}", BACKWARD) if kind != "all_reduce" else ()
    return Case(command, **apart(*sides, lone=lone, place=LONE, step=9, hangs=hangs, **expected))


CASES = {
    # Ranks in different collectives.
    "uneven iterable": Case(
        [*TORCHRUN, "uneven.py"],
        **apart(
            "rank 1 [^;]*all_reduce [^;]*{8}[^;]*<uneven:validation>",
            r"rank 0 [^;]*all_reduce[^;]*16.5 KB[^;]*step {9}",
            lone=1,
            step=8,
            place="<uneven:validation>",
            remedy="number of batches|Join",
        ),
    ),
    "early stop": Case(
        [*TORCHRUN, "early_stop.py"],
        **apart(
            "rank 0 [^;]*barrier[^;]*{9}[^;]*<early_stop:barrier>",
            r"rank 1 [^;]*all_reduce[^;]*step {10}",
            lone=0,
            step=9,
            place="<early_stop:barrier>",
            hangs=("0 [^;]*barrier[^;]*<early_stop:barrier>", "<early_stop:backward>"),
        ),
    ),
    "metric": Case(
        [*TORCHRUN, "metrics.py"],
        **apart(
            "rank 1 [^;]*all_reduce[^;]*4 B[^;]*{9}[^;]*<metrics:metric>",
            r"rank 0 [^;]*all_reduce[^;]*16.5 KB[^;]*step {10}",
            lone=1,
            step=9,
            place="<metrics:metric>",
        ),
    ),
    "new_group": Case(
        [*TORCHRUN, "collective.py", "new_group", "0"],
        (f"^rank 0 kept rank 1 waiting: it was in new_group, {LONE}", "after step {9}", BACKWARD),
        rank=(0,),
        step=9,
        place=(LONE,),
        remedy="every rank must call new_group",
        hangs=(f"rank 0 is in new_group, {LONE}", BACKWARD),
    ),
    "checkpoint barrier": lone_collective("barrier", 0),
    "lone all_reduce": lone_collective("all_reduce", 1),
    "lone broadcast of three": lone_collective("broadcast", 2, world=3),
    "DDP built twice": Case(
        [*TORCHRUN, "twice.py"],
        **apart(
            "rank 1 [^;]*{9}[^;]*(<parts:ddp>|<twice:again>)",
            r"rank 0 [^;]*all_reduce[^;]*step {10}",
            lone=1,
            step=9,
            place="<parts:ddp>",
        ),
    ),
    # A rank that keeps the others waiting.
    "slow save": Case(
        [*TORCHRUN, "slow_save.py", "11", "6"],
        (
            "^rank 0 kept rank 1 waiting",
            "write, <slow_save:write>",
            "save, <slow_save:save>",
            "after step {9}",
            r"rank 1 waited in all_reduce \(.*\) of step {10}",
            "time limit of 6 s",
        ),
        rank=(0,),
        step=9,
        place=("<slow_save:write>",),
        remedy="timeout",
        hangs=("rank 0 is in write, <slow_save:write>", "rank 1 waits for it in all_reduce", "<slow_save:backward>"),
    ),
    # A rank that ends.
    "unused by a branch": Case(
        [*TORCHRUN, "branch.py"],
        ("^rank 1 failed", "step {11}|step {10}", "<branch:forward>", "finished reduction"),
        rank=(1,),
        step=10,
        place=("<branch:forward>",),
        error="^RuntimeError: Expected to have finished reduction",
        remedy="find_unused_parameters",
        speaks=1,
    ),
    "other shapes": Case(
        [*TORCHRUN, "shapes.py"],
        ("rank 1", r"\[53, 8\]", "<shapes:ddp>"),
        rank=(1,),
        place=("<shapes:ddp>",),
        error=r"params\[0\]",
        remedy="same|every rank|all ranks",
    ),
    "killed with growing memory": Case(
        [*TORCHRUN, "leak.py"],
        ("^rank 1 was killed by SIGKILL after step {20}", r"memory had grown by \d{2,3} MB"),
        rank=(1,),
        step=20,
        remedy="memory",
    ),
    "segmentation fault": Case(
        [*TORCHRUN, "ends.py", "crashes"], ("^rank 1 was killed by SIGSEGV after step {9}",), rank=(1,), step=9
    ),
    "sys.exit": Case(
        [*TORCHRUN, "ends.py", "sys.exit"], ("^rank 1 ", "SystemExit: 3|exit code 3", "step {9}"), rank=(1,), step=9
    ),
    "deep exception": Case(
        [*TORCHRUN, "ends.py", "evaluates"],
        ("^rank 1 failed after step {9}, at <deeper:deep>: KeyError: 'loss'",),
        rank=(1,),
        step=9,
        place=("<deeper:deep>",),
        error="^KeyError: 'loss'",
        speaks=1,
    ),
    "after the group": Case(
        [*TORCHRUN, "ends.py", "leaves"],
        ("^rank 1 failed", "<ends:left>", "OSError: no room for the results"),
        rank=(1,),
        place=("<ends:left>",),
        error="^OSError: no room",
    ),
    "accumulation": Case(
        [*TORCHRUN, "accumulate.py"],
        ("^rank 1 failed", "step {9}", "<accumulate:label>", "LookupError: no label in batch 41"),
        rank=(1,),
        step=10,
        place=("<accumulate:label>",),
        error="^LookupError",
        speaks=1,
    ),
    "loader's worker killed": Case(
        [*TORCHRUN, "loader.py", "killed"],
        ("^rank 1 ", "worker", "SIGKILL", "step {9}", "<loader:fetch>"),
        rank=(1,),
        step=9,
        place=("<loader:fetch>",),
        error="DataLoader worker",
        remedy="memory|shm",
    ),
    "loader's worker raises": Case(
        [*TORCHRUN, "loader.py", "raises"],
        ("^rank 1 failed", "step {9}", "ValueError: .*sample 160 is cut off"),
        rank=(1,),
        step=9,
        place=("<loader:sample>", "<loader:fetch>"),
        error="ValueError",
    ),
    "own launcher": Case(
        [*PYTHON, "launches.py", "127.0.0.1", "{port}", "2", "2"],
        ("^rank 1 failed after step {9}, at <launches:f1>: KeyError: 'val/f1'",),
        rank=(1,),
        step=9,
        place=("<launches:f1>",),
        error="^KeyError: 'val/f1'",
    ),
    "mp.spawn": Case(
        [*PYTHON, "processes.py", "{port}"],
        ("^rank 1 failed after step {9}, at <processes:train>: ZeroDivisionError: no samples of class 3",),
        rank=(1,),
        step=9,
        place=("<processes:train>",),
        error="^ZeroDivisionError",
    ),
    # Before there is a group.
    "port in use": Case(
        [*AT_A_PORT, "--master_port={taken}", "ends.py", "none"],
        ("port:? {taken}", "in use"),
        error="EADDRINUSE",
        remedy="--standalone|--master[_-]port",
    ),
    "--local-rank": Case(
        [*OLD_LAUNCHER, "local_rank.py"],
        ("unrecognized arguments: --local-rank=[01]",),
        rank=(0, 1, None),
        error="--local-rank",
        remedy="torchrun|LOCAL_RANK",
    ),
    "ranks that never come": Case(
        [*PYTHON, "launches.py", "127.0.0.1", "{port}", "3", "2"],
        ("rank 2", "never|did not|not (?:come|join|connect)"),
        place=("<parts:group>", ""),
        error="2/3 clients joined",
    ),
    "no such host": Case(
        [*PYTHON, "launches.py", "no.such.host.invalid", "{port}", "2", "2"],
        (r"no\.such\.host\.invalid",),
        rank=(0, 1, None),
        place=("<parts:group>", ""),
        remedy="MASTER_ADDR|--master[_-]addr|host",
    ),
    "backend missing": Case(
        [*TORCHRUN, "groups.py", "backend"],
        ("(?i)mpi", "<parts:group>"),
        rank=(0, 1, None),
        place=("<parts:group>",),
        error="MPI built in",
        remedy="(?i)gloo|backend",
    ),
    "other world size": Case(
        [*TORCHRUN, "groups.py", "world"],
        ("world size|world_size", "4", "2"),
        rank=(0, 1, None),
        place=("<parts:group>", ""),
        error="DistStoreError",
        remedy="WORLD_SIZE|world_size|nproc",
    ),
}
OFTEN = ("uneven iterable", "port in use", "--local-rank")


def line_of(place: str) -> str:
    """FILE:MARK as file and line."""
    file, mark = place.strip("<>").split(":")
    lines = (PROGRAMS / f"{file}.py").read_text(encoding="utf-8").splitlines()
    [number] = [number for number, line in enumerate(lines, 1) if line.endswith(f"# mark: {mark}")]
    return f"{file}.py:{number}"


def filled(pattern: str, ports: dict[str, str]) -> str:
    """The pattern with the ports of this run, lines in place of <file:mark>, and {n} for a number within 1 of n."""
    for name, port in ports.items():
        pattern = pattern.replace(f"{{{name}}}", port)
    pattern = re.sub(r"<\w+:\w+>", lambda found: re.escape(line_of(found[0])) + r"\b", pattern)
    return re.sub(r"{(\d+)}", lambda found: rf"(?:{'|'.join(str(int(found[1]) + by) for by in (-1, 0, 1))})\b", pattern)


def ran(folder: Path, command: list[str], watch: bool) -> subprocess.CompletedProcess[str]:
    """Run the command in a copy of the programs: bare, or watched."""
    shutil.copytree(PROGRAMS, folder, ignore=shutil.ignore_patterns("__pycache__"))
    with pytest.MonkeyPatch.context() as here:
        here.chdir(folder)
        if watch:
            return watched(folder / "runs", "--stall", str(STALL_S), "--", *command)
        return subprocess.run(command, capture_output=True, text=True, timeout=ENOUGH_S, check=False)


class Ports(dict[str, str]):
    """Ports on this machine: `taken` is in use by this process, and each `port` is free."""

    def __missing__(self, name: str) -> str:
        assert name == "port"
        with socket.create_server(("127.0.0.1", 0)) as free:
            return str(free.getsockname()[1])


@pytest.fixture
def ports() -> Iterator[Ports]:
    with socket.create_server(("0.0.0.0", 0)) as taken:
        yield Ports(taken=str(taken.getsockname()[1]))


def masked(text: str, folder: Path) -> str:
    """The text without what differs between two runs: the folder, ports, pids and times."""
    text = text.replace(str(folder), "FOLDER")
    return re.sub(r"\]:\d+\b|\bport: \d+|\b\d+/\d+ clients|\bpid\(?s?\)?:? \d+|\d+(?:\.\d+)? ?m?s\b", "#", text)


def words_of(rank: int, stderr: str) -> list[str]:
    """What torch's hook prints of the exception that ends a rank, but for the frames of ddptui's own."""
    lines = [line for line in stderr.splitlines() if line.startswith(f"[rank{rank}]:")]
    ours = {at + further for at, line in enumerate(lines) if "/workers/watch/" in line for further in (0, 1)}
    return [line for at, line in enumerate(lines) if at not in ours and not re.search(r"[\^~]{3}", line)]


def parts_of(stderr: str, summary: str = "") -> tuple[str, list[str], str]:
    """The training's own words; the lines that were told while it hung; and the report, in one line. summary: how the
    report begins; without figures, ddptui marks it as its own."""
    lines = stderr.splitlines()
    report = ("ddptui:", summary[:20].capitalize()) if summary else "ddptui:"
    begins = (at for at, line in enumerate(lines) if line.startswith(report) and not LIVE.match(line))
    begin = next(begins, len(lines))
    live = [line for line in lines[:begin] if LIVE.match(line)]
    own = "\n".join(line for line in lines[:begin] if not LIVE.match(line))
    return own, live, " ".join("\n".join(lines[begin:]).split())


def failure_in(runs: Path) -> dict[str, Any] | None:
    [path] = runs.glob("*/results.json")
    [trial] = json.loads(path.read_text(encoding="utf-8"))["trials"]
    failure: dict[str, Any] | None = trial["failure"]
    return failure


def missing(patterns: tuple[str, ...], text: str, ports: Ports) -> list[str]:
    return [wanted for pattern in patterns if not re.search(wanted := filled(pattern, ports), text)]


@pytest.mark.parametrize(
    ("name", "busy"),
    [
        *(pytest.param(name, 0, marks=[] if name in OFTEN else RARE, id=name) for name in CASES),
        *(pytest.param(name, 2, marks=RARE, id=f"{name}, busy") for name in OFTEN),  # where others want the cores
    ],
)
def test_the_first_cause_is_named_first(tmp_path: Path, ports: Ports, name: str, busy: int) -> None:
    case = CASES[name]
    command = [word.format_map(ports) for word in case.command]
    with busy_processes(BESIDE or busy):
        done = ran(tmp_path / "watched", command, watch=True)
        bare = None if case.speaks is None else ran(tmp_path / "bare", command, watch=False)
    failure = failure_in(tmp_path / "watched" / "runs")
    assert failure is not None
    summary = failure["summary"]
    own, live, report = parts_of(done.stderr, summary)
    assert done.returncode == 1
    if bare is not None:
        assert bare.returncode == 1
        assert masked(done.stdout, tmp_path / "watched") == masked(bare.stdout, tmp_path / "bare")
        spoken = [
            masked("\n".join(words_of(case.speaks or 0, text)), tmp_path / way)
            for way, text in (("bare", bare.stderr), ("watched", own))
        ]
        assert spoken[0] == spoken[1] != ""

    assert missing(case.says, summary, ports) == [], summary
    assert not case.rank or failure["rank"] in case.rank
    assert case.step is None or failure["rank"] is None or failure["step"] in range(case.step - 1, case.step + 2)
    assert not case.place or failure["place"] in [place and line_of(place) for place in case.place]
    assert re.search(case.error, failure["error"])
    assert re.search(case.remedy, failure["remedy"])

    assert report.removeprefix("ddptui: ").casefold().startswith(" ".join(summary.casefold().split())), report
    assert [words for words in FALSE_COLOURS if words in report] == []
    if case.hangs:
        assert missing((rf"no step for [{STALL_S}-9] s: ", *case.hangs), " ".join(live), ports) == []


@RARE
def test_a_restart_is_told_with_its_cause_and_the_training_ends_well(tmp_path: Path) -> None:
    with busy_processes(BESIDE):
        done = ran(tmp_path / "watched", [*RESTARTING, "restart.py", "checkpoint.pt"], watch=True)
    _, _, report = parts_of(done.stderr)
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == [f"rank {rank} attempt 1 ends well" for rank in (0, 1)]
    assert failure_in(tmp_path / "watched" / "runs") is None
    patterns = "(?i)restart", f"rank 1 [^.;]*step {{9}}[^;]*{line_of('restart:ray')}: ValueError: cosmic ray"
    assert missing(patterns, report, Ports()) == []
    assert "unexplained" not in report


# What takes long, but ends well, is no failure.


@RARE
@pytest.mark.parametrize(
    ("words", "hangs"),
    [
        (
            ["stuck.py"],
            ("rank 1 is in forward, <stuck:forward>", "rank 0 waits for it in all_reduce", "<stuck:backward>"),
        ),
        (
            ["slow_save.py", "8", "60"],
            ("rank 0 is in write, <slow_save:write>", "rank 1 waits for it in all_reduce", "<slow_save:backward>"),
        ),
        (["uneven_joined.py"], ()),
    ],
    ids=["forward", "checkpoint", "Join"],
)
def test_of_a_training_that_ends_well_a_long_wait_alone_is_told(
    tmp_path: Path, words: list[str], hangs: tuple[str, ...]
) -> None:
    with busy_processes(BESIDE):
        done = ran(tmp_path / "watched", [*TORCHRUN, *words], watch=True)
    _, live, _ = parts_of(done.stderr)
    assert (done.returncode, done.stdout) == (0, "")
    assert failure_in(tmp_path / "watched" / "runs") is None
    assert len(live) == (1 if hangs else 0)
    assert missing(hangs, " ".join(live), Ports()) == []

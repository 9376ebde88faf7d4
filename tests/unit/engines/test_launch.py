"""The exact command and environment of each launch mode; and what torch.compile makes, kept for a run's launches."""

import io
import os
import platform
import subprocess
import sys
from collections.abc import Callable, Mapping
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

import pytest

from ddptui.config.fields import choices
from ddptui.config.trial import LaunchMode, Trial
from ddptui.config.values import from_arguments, make_trial
from ddptui.engines import base as launch
from ddptui.engines.local import engine
from ddptui.engines.local.warm import WarmParent
from ddptui.engines.rank_server import RankServer
from ddptui.host.folders import lab_root
from ddptui.host.machine import HEAP, SPINS, TUNABLES, WAITING, describe, heap_limits, openmp_waits
from ddptui.store.journal import RepeatJournal

TORCH_MODULE = "torch.distributed.launch"


@pytest.fixture
def torch_with_launch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A torch that has distributed/launch.py, whatever is installed here."""
    (tmp_path / "distributed").mkdir()
    (tmp_path / "distributed" / "launch.py").touch()
    found = ModuleSpec("torch", None, origin=str(tmp_path / "__init__.py"))
    monkeypatch.setattr(launch, "find_spec", lambda name: found)
    return tmp_path


COMMANDS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "single": ({"launch": "single"}, ["py", "-m", "workers.single", "world_size=1"]),
    "dp": ({"launch": "dp", "world_size": 3}, ["py", "-m", "workers.dp", "world_size=3"]),
    "process": ({"launch": "process", "start_method": "fork"}, ["py", "-m", "workers.process", "start_method=fork"]),
    "spawn": ({"strategy": "ddp"}, ["py", "-m", "workers.spawn", "strategy=ddp"]),
    "launch": (
        {"launch": "launch", "world_size": 3, "lr": 0.5},
        ["py", "-m", TORCH_MODULE, "--standalone", "--nproc_per_node=3", "-m", "workers.launch", "lr=0.5"],
    ),
    "spawn, all defaults, its name is the console's own affair": ({"name": "mine"}, ["py", "-m", "workers.spawn"]),
    "spawn, late": (
        {"bottleneck": [{"at": "backward", "ranks": [0, 1], "sleep_ms": 20, "jitter": "uniform"}], "save": True},
        [
            "py", "-m", "workers.spawn", "save=true",
            'bottleneck=[{at = "backward", ranks = [0, 1], sleep_ms = 20.0, jitter = "uniform"}]',
        ],
    ),
}  # fmt: skip


@pytest.mark.usefixtures("torch_with_launch")
@pytest.mark.parametrize(("values", "command"), COMMANDS.values(), ids=COMMANDS.keys())
def test_the_command_of_each_launch_mode(values: dict[str, Any], command: list[str]) -> None:
    assert launch.rank_command(make_trial(values), "py") == command


LAB_MODES = [mode for mode in choices("launch") if mode != "command"]


def test_a_torch_without_its_launch_module_is_asked_for_run(torch_with_launch: Path) -> None:
    assert launch.torch_launcher() == TORCH_MODULE
    (torch_with_launch / "distributed" / "launch.py").unlink()
    assert launch.torch_launcher() == "torch.distributed.run"
    assert launch.rank_command(make_trial({"launch": "launch"}), "py")[2] == "torch.distributed.run"


@pytest.mark.parametrize("mode", LAB_MODES)
def test_what_a_command_says_makes_the_trial_again(mode: LaunchMode) -> None:
    """As the entry point reads it: it knows its launch mode, and torch's launcher tells how many ranks there are."""
    trial = make_trial({"launch": mode, "epochs": 2, "momentum": 0.25})
    said = [word for word in launch.rank_command(trial, "py") if "=" in word and not word.startswith("--")]
    assert from_arguments([*said, f"launch={mode}"]) == trial


@pytest.mark.parametrize(
    ("values", "cores", "threads"),
    [
        ({"world_size": 8}, 2, "1"),
        ({"world_size": 2, "threads": 5}, 8, "5"),
        ({"launch": "single"}, 8, "8"),
        ({"launch": "dp", "world_size": 2}, 8, "4"),
    ],
)
def test_ranks_share_the_cores(
    values: dict[str, Any], cores: int, threads: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (*WAITING, *HEAP, TUNABLES, "PYTHONPATH"):
        monkeypatch.delenv(name, raising=False)
    assert launch.rank_environment(make_trial(values), cores) == {
        "PYTHONPATH": str(lab_root()),
        "OMP_NUM_THREADS": threads,
        "GOMP_SPINCOUNT": SPINS,
        **HEAP,
    }


def test_openmp_in_a_rank_waits_as_it_is_told() -> None:
    """torch's own OpenMP says with what it has started."""
    variables = launch.rank_environment(make_trial({}), 2) | {"OMP_DISPLAY_ENV": "VERBOSE"}
    command = [sys.executable, "-c", "import torch"]
    said = subprocess.run(command, env=os.environ | variables, capture_output=True, text=True, check=True).stderr
    if "GOMP_SPINCOUNT" not in said:
        pytest.skip("this torch has another OpenMP than GCC's")
    [(name, value)] = openmp_waits(os.environ).items()
    assert f"{name} = '{value}'" in said.replace('"', "'")


@pytest.mark.parametrize(
    ("kind", "variables", "name", "value", "is_ours"),
    [
        ("openmp", WAITING, "OMP_WAIT_POLICY", "passive", False),
        ("openmp", WAITING, "GOMP_SPINCOUNT", "7", False),
        ("malloc", (*HEAP, TUNABLES), "MALLOC_TRIM_THRESHOLD_", "131072", False),
        ("malloc", (*HEAP, TUNABLES), "MALLOC_MMAP_THRESHOLD_", "7", False),
        ("malloc", (*HEAP, TUNABLES), "GLIBC_TUNABLES", "glibc.malloc.arena_max=1", False),
        ("malloc", (*HEAP, TUNABLES), "GLIBC_TUNABLES", "glibc.pthread.rseq=0", True),
    ],
)
def test_how_threads_wait_and_what_memory_is_kept_is_the_users_choice(
    kind: str, variables: tuple[str, ...], name: str, value: str, is_ours: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for other in variables:
        monkeypatch.delenv(other, raising=False)
    monkeypatch.setenv(name, value)
    expected = HEAP if is_ours else {name: value}
    given = launch.rank_environment(make_trial({}), 2)
    assert {other: given[other] for other in variables if other in given} == expected
    assert describe()[kind] == " ".join(f"{name}={value}" for name, value in expected.items())


FREES = """
import resource
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(20):
    blocks = [b"1" * (10 << 20) for _ in range(3)]
    del blocks
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="needs glibc's malloc")
def test_a_rank_keeps_what_a_step_frees() -> None:
    """30 MB have 7,680 pages: made once, or again and again."""
    plain = {name: value for name, value in os.environ.items() if name not in (*HEAP, TUNABLES)}
    gives_back, keeps = (
        int(subprocess.run([sys.executable, "-c", FREES], env=plain | more, capture_output=True, check=True).stdout)
        for more in ({}, heap_limits(plain))
    )
    assert gives_back > 3 * 7_680
    assert keeps < 1.2 * 7_680


# What torch.compile has made


Told = Callable[[Trial, Path], Mapping[str, str]]


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Told:
    """What ranks would have in their environment besides, in a run that is kept in a folder."""
    started: list[Mapping[str, str]] = []
    monkeypatch.setattr(engine, "start_local", lambda trial, command, environment, *rest: started.append(environment))
    monkeypatch.delenv(engine.COMPILED, raising=False)

    def tell(trial: Trial, run: Path) -> Mapping[str, str]:
        with RankServer(1) as hub:
            local = engine.LocalEngine(run, WarmParent())
            local.start(trial, [], RepeatJournal(run / "trial-a" / "repeat-1", 1, io.BytesIO()), hub)
        return started[-1]

    return tell


def test_all_launches_of_a_run_share_what_is_compiled_in_a_folder_that_is_one_and_nobodys_own(
    told: Told, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = (told(Trial(compile=True), tmp_path) for _ in range(2))
    assert first["TORCHINDUCTOR_CACHE_DIR"] == second["TORCHINDUCTOR_CACHE_DIR"] == str(tmp_path / "compiled")
    assert first["TMPDIR"] != second["TMPDIR"]
    assert engine.COMPILED not in told(Trial(), tmp_path)  # who compiles nothing hears nothing of it
    assert engine.COMPILED not in told(Trial(compile=True), tmp_path / "my runs")  # a compiler would take it for two
    monkeypatch.setenv(engine.COMPILED, "/mine")
    assert engine.COMPILED not in told(Trial(compile=True), tmp_path)


def test_when_the_run_is_over_nothing_of_it_is_left(tmp_path: Path) -> None:
    (tmp_path / "compiled" / "ab").mkdir(parents=True)
    (tmp_path / "preset.toml").touch()
    engine.LocalEngine(tmp_path, WarmParent()).close()
    assert [path.name for path in tmp_path.iterdir()] == ["preset.toml"]

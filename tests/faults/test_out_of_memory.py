"""A rank that the kernel kills because memory runs out is said to have been: for real, in a cgroup with too little."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from ddptui.failure import explain
from ddptui.shortage import kills
from tests.console.builders import failed
from tests.runner import QUICK, environment, write_preset

LIMITS = {  # of a folder of cgroups, the file that says how much memory the members may have: versions 1 and 2
    Path("/sys/fs/cgroup/memory"): "memory.limit_in_bytes",
    Path("/sys/fs/cgroup"): "memory.max",
}
COUNTERS = {Path("/sys/fs/cgroup/memory"): "memory.oom_control", Path("/sys/fs/cgroup"): "memory.events"}
ENOUGH_BYTES = 700 * 2**20  # for a console, a launcher and a small rank
GREEDY = "width = 20000\ndepth = 3\n"  # 1.6 GB a layer


@pytest.fixture
def little_memory() -> Iterator[Path]:
    """A cgroup; whoever writes its number into cgroup.procs is in it."""
    if os.getuid() != 0:
        pytest.skip("to give a console little memory needs the right to make a cgroup (root)")
    for root, limit in LIMITS.items():
        folder = root / f"ddptui-test-{os.getpid()}"
        with suppress(OSError):
            folder.mkdir()
            (folder / limit).write_text(str(ENOUGH_BYTES))
            yield folder
            _remove(folder)
            return
    pytest.skip("to give a console little memory needs a memory controller of cgroups that can be written")


def _remove(folder: Path) -> None:
    deadline = time.monotonic() + 5
    while folder.exists() and time.monotonic() < deadline:
        with suppress(OSError):  # somebody is still in it
            folder.rmdir()
        time.sleep(0.05)


def kills_in(cgroup: Path) -> int:
    return int((cgroup / COUNTERS[cgroup.parent]).read_text().split("oom_kill ")[1].split()[0])


def test_a_rank_that_the_kernel_killed_for_want_of_memory_is_said_to_have_been(
    tmp_path: Path, little_memory: Path
) -> None:
    greedy = QUICK.replace("width = 16\ndepth = 1\n", GREEDY)
    preset = write_preset(tmp_path, f'[[trial]]\nlaunch = "single"\nname = "greedy"\n{greedy}')
    command = f'echo $$ > {little_memory}/cgroup.procs && exec "$0" "$@"'
    done = subprocess.run(
        ["sh", "-c", command, sys.executable, "-m", "ddptui", "--preset", str(preset), "--json"],
        env=environment(tmp_path / "runs"), capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert kills_in(little_memory) > 0, done
    [trial] = json.loads(done.stdout)["trials"]
    headline = trial["error"].splitlines()[0]
    assert headline.startswith("rank 0 killed by SIGKILL: the kernel killed it, since memory ran out; take a smaller")


def test_who_was_killed_while_memory_was_enough_is_not_said_to_have_lacked_it() -> None:
    words = {"exit_code": -9, "launcher_log": "", "rank_logs": {}, "failed": [], "silent": [0], "missing": []}
    assert explain(**words, one_process=True) == "rank 0 killed by SIGKILL"  # type: ignore[arg-type]
    short = explain(**words, one_process=True, memory_was_short=True)  # type: ignore[arg-type]
    assert "memory ran out" in short


@pytest.mark.parametrize(
    "error",
    [
        "MemoryError: ",
        "RuntimeError: [enforce fail at alloc_cpu.cpp:121] . DefaultCPUAllocator: can't allocate memory: you tried …",
    ],
)
def test_a_rank_that_says_itself_that_memory_is_short_is_told_what_to_lower(error: str) -> None:
    said = explain(exit_code=1, launcher_log="", rank_logs={}, failed=[failed(0, error)], silent=[], missing=[])
    assert said.splitlines()[0].endswith("take a smaller batch_size or model, or fewer ranks")


def test_a_gpu_without_memory_is_told_apart_from_a_host_without() -> None:
    words = "OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 GiB."
    said = explain(exit_code=1, launcher_log="", rank_logs={}, failed=[failed(1, words)], silent=[], missing=[])
    assert (
        said
        == "rank 1 ran out of memory on the GPU: 20.00 GiB asked; take a smaller batch_size or model, or amp = 'bf16'"
    )


def counted(folder: Path, own: str) -> int:
    (folder / "own").write_text(own)
    return kills(folder / "own", folder / "cgroups", folder / "vmstat")


def test_kills_are_counted_where_the_ranks_are_and_else_on_the_whole_machine(tmp_path: Path) -> None:
    assert kills(tmp_path / "none", tmp_path / "none", tmp_path / "none") == 0
    (tmp_path / "vmstat").write_text("nr_free 5\noom_kill 3\n")
    assert counted(tmp_path, "0::/user/me\n") == 3
    for version, name in (("user/me", "memory.events"), ("memory/user/me", "memory.oom_control")):
        (tmp_path / "cgroups" / version).mkdir(parents=True)
        (tmp_path / "cgroups" / version / name).write_text(f"under_oom 0\noom_kill {len(version)}\n")
    assert counted(tmp_path, "0::/user/me\n") == len("user/me")
    assert counted(tmp_path, "9:cpu:/user/me\n4:memory,hugetlb:/user/me\n0::/other\n") == len("memory/user/me")

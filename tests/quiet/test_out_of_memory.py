"""A rank that the kernel kills because memory runs out is said to have been: for real, in a cgroup with too little."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from ddptui.config.trial import Trial
from ddptui.diagnosis.failure import explain_failure
from ddptui.host.machine import oom_kills
from tests.support.builders import failed
from tests.support.runner import ENOUGH_S, QUICK, environment, write_preset

LIMITS = {  # of a folder of cgroups, the file that says how much memory the members may have: versions 1 and 2
    Path("/sys/fs/cgroup/memory"): "memory.limit_in_bytes",
    Path("/sys/fs/cgroup"): "memory.max",
}
COUNTERS = {Path("/sys/fs/cgroup/memory"): "memory.oom_control", Path("/sys/fs/cgroup"): "memory.events"}
BESIDES_TORCH = 700 * 2**20  # bytes, for a console, what a process that forks ranks has besides, and a small rank
TELL_PEAK = "import resource, torch; print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"  # KiB
GREEDY = "width = 20000\ndepth = 3\n"  # 1.6 GB a layer


@pytest.fixture
def little_memory() -> Iterator[Path]:
    """A cgroup; whoever writes its number into cgroup.procs is in it."""
    if os.getuid() != 0:
        pytest.skip("to give a console little memory needs the right to make a cgroup (root)")
    imported = subprocess.run([sys.executable, "-c", TELL_PEAK], capture_output=True, text=True, check=True)
    enough = int(imported.stdout) * 1024 + BESIDES_TORCH  # a wheel for GPUs takes several times as much as one without
    for root, limit in LIMITS.items():
        folder = root / f"ddptui-test-{os.getpid()}"
        with suppress(OSError):
            folder.mkdir()
            (folder / limit).write_text(str(enough))
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
        env=environment(tmp_path / "runs"), capture_output=True, text=True, check=False, timeout=ENOUGH_S,
    )  # fmt: skip
    assert kills_in(little_memory) > 0, done
    [trial] = json.loads(done.stdout)["trials"]
    headline = trial["error"].splitlines()[0]
    assert headline.startswith("rank 0 was killed by SIGKILL: the kernel killed it because memory ran out; take")


def said(trial: Trial | None = None, **known: Any) -> str:
    """The headline of a process that is its own launcher."""
    nothing: dict[str, Any] = {"exit_code": 1, "launcher_log": "", "rank_logs": {}, "failed": [], "silent": [0]}
    told = explain_failure(trial=trial or Trial(), missing=[], one_process=True, **(nothing | known))
    return told.summary


def test_who_was_killed_while_memory_was_enough_is_not_said_to_have_lacked_it() -> None:
    assert said(exit_code=-9) == "rank 0 was killed by SIGKILL"
    assert "memory ran out" in said(exit_code=-9, memory_was_short=True)
    put_in = said(exit_code=-9, memory_was_short=True, rank_logs={0: "fault, step 3: kill"})
    assert put_in == "rank 0 was killed by SIGKILL", "its own doing, whoever else the kernel has killed"


def test_a_rank_whose_allocator_says_that_memory_is_short_is_told_what_to_lower() -> None:
    error = "RuntimeError: [enforce fail at alloc_cpu.cpp:121] . DefaultCPUAllocator: can't allocate memory: you tried"
    assert said(failed=[failed(0, error)]).endswith("; take a smaller batch_size or model, or fewer ranks")


@pytest.mark.parametrize("error", ["ValueError: out of memory-mapped range", "RuntimeError: memory is out of order"])
def test_what_only_sounds_like_memory_keeps_its_own_words(error: str) -> None:
    assert said(failed=[failed(0, error)]) == f"rank 0 failed: {error}"


@pytest.mark.parametrize(
    ("trial", "advice"),
    [
        (Trial(), "take a smaller batch_size or model, or fewer ranks"),
        (Trial(world_size=1), "take a smaller batch_size or model"),
        (Trial(primitives="measure"), "take a smaller max_bytes, or fewer ranks"),
        (Trial(primitives="see"), "take fewer ranks"),
        (Trial(primitives="see", world_size=1), "end other programs that use it"),
    ],
)
def test_only_what_takes_less_of_the_hosts_memory_is_offered(trial: Trial, advice: str) -> None:
    assert said(trial, failed=[failed(0, "MemoryError: ")]).endswith(f"MemoryError: ; {advice}")
    assert said(trial, exit_code=-9, memory_was_short=True).endswith(f"because memory ran out; {advice}")


@pytest.mark.parametrize(
    ("trial", "advice"),
    [
        (Trial(), "take a smaller batch_size or model, or amp = 'bf16'"),
        (Trial(amp="fp16"), "take a smaller batch_size or model"),
        (Trial(dtype="float64"), "take a smaller batch_size or model"),
        (Trial(share_gpu=True, amp="bf16"), "take a smaller batch_size or model, or fewer ranks"),
        (Trial(primitives="measure"), "take a smaller max_bytes"),
        (Trial(primitives="see", share_gpu=True), "take fewer ranks"),
    ],
)
def test_only_what_takes_less_of_a_gpus_memory_is_offered(trial: Trial, advice: str) -> None:
    for library in ("CUDA", "HIP"):
        words = f"OutOfMemoryError: {library} out of memory. Tried to allocate 20.00 GiB."
        told = said(trial, failed=[failed(0, words)])
        assert told == f"rank 0 ran out of memory on the GPU: 20.00 GiB asked; {advice}"


def counted(folder: Path, own: str) -> int:
    (folder / "own").write_text(own)
    return oom_kills(folder / "own", folder / "cgroups", folder / "vmstat")


def test_kills_are_counted_where_the_ranks_are_and_else_on_the_whole_machine(tmp_path: Path) -> None:
    assert oom_kills(tmp_path / "none", tmp_path / "none", tmp_path / "none") == 0
    (tmp_path / "vmstat").write_text("nr_free 5\noom_kill 3\n")
    assert counted(tmp_path, "0::/user/me\n") == 3
    for version, name in (("user/me", "memory.events"), ("memory/user/me", "memory.oom_control")):
        (tmp_path / "cgroups" / version).mkdir(parents=True)
        (tmp_path / "cgroups" / version / name).write_text(f"under_oom 0\noom_kill {len(version)}\n")
    assert counted(tmp_path, "0::/user/me\n") == len("user/me")
    assert counted(tmp_path, "9:cpu:/user/me\n4:memory,hugetlb:/user/me\n0::/other\n") == len("memory/user/me")

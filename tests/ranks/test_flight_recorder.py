"""What torch's flight recorder holds is kept in bounds, and whatever happens to it, the rank ends."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from ddptui.host.folders import module_folders
from ddptui.wire.connection import LOGS, flight_record
from tests.support.failing import failing
from workers.instruments import flight_recorder as module
from workers.instruments.flight_recorder import OF_NCCL, OF_OTHERS, bounded, keep, recorded
from workers.instruments.reporter import STAYS_S, end_process

C10D: Any = torch._C._distributed_c10d
NEEDS_OWN = pytest.mark.skipif(not hasattr(C10D, OF_OTHERS), reason="this torch records nothing of gloo")
EMPTY = b'{"comm_lib_version":"","nccl_comm_state":{},"pg_config":{},"pg_status":{},"version":"2.10"}'
RANK = 3
THREE_CALLS = f"""
import torch, torch.distributed as dist
from workers.instruments import flight_recorder
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
for _ in range(3):
    dist.all_reduce(torch.ones(5))
flight_recorder.LONGEST_S = 60  # however busy the machine is
flight_recorder.keep({RANK})
dist.destroy_process_group()
"""


def record_of(*names: str) -> bytes:
    return json.dumps({"version": "2.10", "entries": [{"profiling_name": name} for name in names]}).encode()


@pytest.fixture
def logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(LOGS, str(tmp_path))
    return tmp_path


def kept(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@NEEDS_OWN
def test_a_rank_leaves_what_is_recorded_of_it(tmp_path: Path) -> None:
    """A process of its own: torch looks at the variable once."""
    variables = {"PYTHONPATH": os.pathsep.join(module_folders()), "TORCH_FR_BUFFER_SIZE": "2000", LOGS: "."}
    subprocess.run([sys.executable, "-c", THREE_CALLS], env={**os.environ, **variables}, cwd=tmp_path, check=True)
    record = json.loads((tmp_path / flight_record(RANK)).read_bytes())
    calls = [(entry["profiling_name"], entry["input_sizes"]) for entry in record["entries"]]
    assert calls == [("gloo:all_reduce", [[5]])] * 3


@pytest.mark.parametrize(
    ("of_nccl", "of_others", "backend", "names"),
    [
        (record_of("nccl:all_reduce"), record_of("gloo:barrier"), "nccl", ["nccl:all_reduce"]),
        (record_of("nccl:all_reduce"), record_of("gloo:barrier"), "gloo", ["gloo:barrier"]),
        (EMPTY, record_of("nccl2:all_reduce"), "nccl", ["nccl2:all_reduce"]),
        (None, record_of("gloo:barrier"), "gloo", ["gloo:barrier"]),  # built without NCCL
        (record_of("nccl:all_reduce"), None, "nccl", ["nccl:all_reduce"]),  # torch 2.5 to 2.7
        (EMPTY, EMPTY, "gloo", None),
        (record_of(), record_of(), "nccl", None),
        (None, None, "gloo", None),  # an older torch
    ],
)
def test_the_backends_own_recorder_is_asked_first(
    of_nccl: bytes | None, of_others: bytes | None, backend: str, names: list[str] | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    for name, dump in ((OF_NCCL, of_nccl), (OF_OTHERS, of_others)):
        monkeypatch.delattr(C10D, name, raising=False)
        if dump is not None:
            monkeypatch.setattr(C10D, name, lambda dump=dump: dump, raising=False)
    record = recorded([backend])
    assert record.get("entries") == (names and [{"profiling_name": name} for name in names])


def test_a_recorder_is_asked_by_the_backends_own_name_the_groups_and_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str | None] = []

    def dump(backend: str | None = None) -> bytes:
        asked.append(backend)
        if backend == "nccl":
            raise RuntimeError("no flight recorder for nccl")
        return record_of("all_reduce") if backend is None else EMPTY

    monkeypatch.delattr(C10D, OF_NCCL, raising=False)
    monkeypatch.setattr(C10D, OF_OTHERS, dump, raising=False)
    assert recorded(["nccl2", "nccl"])["entries"] == [{"profiling_name": "all_reduce"}]
    assert asked == ["nccl2", "nccl", None]


def test_of_a_long_record_the_last_collectives_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    record = {"version": "2.10", "entries": [{"record_id": number} for number in range(1000)]}
    whole = bounded(record)
    assert json.loads(whole) == record
    monkeypatch.setattr(module, "MOST_BYTES", len(whole) // 3)
    text = bounded(record)
    assert len(text) <= module.MOST_BYTES
    assert json.loads(text) == {"version": "2.10", "entries": record["entries"][-250:]}
    monkeypatch.setattr(module, "MOST_BYTES", 5)
    assert json.loads(bounded(record)) == {"version": "2.10", "entries": []}


@pytest.mark.usefixtures("alone")
def test_a_recorder_that_hangs_does_not_keep_the_rank(logs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    release = threading.Event()
    monkeypatch.setattr(module, "LONGEST_S", 0.01)
    monkeypatch.setattr(C10D, OF_OTHERS, lambda: release.wait() and EMPTY, raising=False)
    keep(RANK)  # it returns
    assert kept(logs) == []
    release.set()


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize(
    "fails",
    [RuntimeError("CUDA error: unknown error"), OSError(28, "No space left on device"), ValueError("no JSON")],
    ids=lambda error: type(error).__name__,
)
def test_one_that_fails_is_said_in_the_log(
    fails: Exception, logs: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(C10D, OF_OTHERS, failing(fails), raising=False)
    keep(RANK)
    assert kept(logs) == []
    assert capsys.readouterr().out.startswith("torch's flight record could not be kept: ")


def test_without_a_group_or_a_console_there_is_nothing_to_keep(
    logs: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    monkeypatch.setattr(C10D, OF_OTHERS, lambda: pytest.fail("it was asked"), raising=False)
    keep(RANK)
    request.getfixturevalue("alone")
    monkeypatch.delenv(LOGS)
    keep(RANK)
    assert kept(logs) == []


def test_the_log_says_first_where_the_rank_was_and_its_end_leaves_the_others_time_to_write(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What comes after it may hang, or start no thread. And launchers end the other ranks once one has ended."""
    said, killed = list[str](), list[int]()

    def first() -> None:
        said.append(capsys.readouterr().out)
        if len(said) == 2:
            raise RuntimeError("can't start new thread")

    monkeypatch.setattr(os, "kill", lambda _, number: killed.append(number))
    began = time.monotonic()
    end_process("stopped", first)
    assert time.monotonic() - began >= STAYS_S
    assert said[0].startswith("stopped; meanwhile the rank was here:\n")
    assert "end_process" in said[0]
    with pytest.raises(RuntimeError, match="can't start new thread"):
        end_process("stopped", first)
    assert killed == [signal.SIGTERM] * 2

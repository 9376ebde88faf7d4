"""Two checkpoints, compared bit by bit; hostile ones are refused unrun."""

import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from ddptui.host.rank_side import Child
from ddptui.run import verify as verify_run
from workers.verify import compare, difference


def verify(a: Path, b: Path) -> dict[str, Any]:
    """In this process: a new one would import torch for two seconds."""
    return compare(json.dumps([str(a), str(b)]))


class Hostile:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.touch, (self.path,))


def test_parameters_and_buffers_are_told_apart(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = torch.nn.BatchNorm1d(3)
    torch.save(model.state_dict(), tmp_path / "a.pth")
    model(torch.randn(4, 3))
    torch.save(model.state_dict(), tmp_path / "b.pth")
    assert verify_run.checkpoints(tmp_path / "a.pth", tmp_path / "b.pth") == 1
    shown = capsys.readouterr().out
    assert "parameters: all 2 equal" in shown
    assert "buffers: 3 of 3 differ" in shown
    assert "running_mean: 3 of 3 elements" in shown


def test_a_refused_file_is_said_and_the_next_pair_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "broken.pth").write_bytes(b"?")
    torch.save({"weight": torch.ones(1)}, tmp_path / "a.pth")
    with Child(verify_run.MODULE) as child:
        assert verify_run.compare(child, tmp_path / "a.pth", tmp_path / "broken.pth") == verify_run.UNREADABLE
        assert verify_run.compare(child, tmp_path / "a.pth", tmp_path / "a.pth") == verify_run.EQUAL
    assert capsys.readouterr().err.startswith(f"Error: {tmp_path}/broken.pth: not a checkpoint of tensors: write one")


def test_a_file_that_would_run_code_is_refused_unrun(tmp_path: Path) -> None:
    torch.save({"weight": Hostile(tmp_path / "run")}, tmp_path / "hostile.pth")
    found = verify(tmp_path / "hostile.pth", tmp_path / "hostile.pth")
    assert "not a checkpoint of tensors" in found["refused"]
    assert "Traceback" not in found["refused"]
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    "state",
    [
        {1: torch.ones(1)},
        {"weight": torch.ones(1).expand(2**45)},
        {"weight": torch.eye(3).to_sparse()},
        {"weight": torch.ones(3, device="meta")},
        {"weight": "none"},
        [torch.ones(1)],
    ],
)
def test_what_is_no_state_of_plain_tensors_is_refused_in_one_line(state: Any, tmp_path: Path) -> None:
    torch.save(state, tmp_path / "odd.pth")
    found = verify(tmp_path / "odd.pth", tmp_path / "odd.pth")
    assert list(found) == ["refused"]
    assert len(found["refused"].splitlines()) == 1


@pytest.fixture(scope="module")
def bomb(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint, packed anew, that unpacks to 1.5 GB more."""
    path = tmp_path_factory.mktemp("bomb") / "bomb.pth"
    torch.save({"weight": torch.zeros(4)}, path)
    with zipfile.ZipFile(path) as archive:
        content = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, old in content.items():
            with archive.open(name, "w") as packed:
                packed.write(old)
                for _ in range(1536 if name.endswith("data.pkl") else 0):
                    packed.write(bytes(2**20))
    return path


def test_a_checkpoint_that_asks_for_more_than_it_holds_gets_no_memory(bomb: Path) -> None:
    """In a process of its own: the limit is of all its threads."""
    script = """if True:
        import sys
        from workers import verify
        def peak():
            # not ru_maxrss: until it had this program, the process was a copy of the one that started it
            return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM:"))
        before = peak()
        try:
            verify.load(sys.argv[1])
        except verify.NoCheckpoint as why:
            print(why)
        import resource
        print((peak() - before) >> 20, "GB more")
        print(resource.getrlimit(resource.RLIMIT_AS) == (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    """
    done = subprocess.run([sys.executable, "-c", script, str(bomb)], capture_output=True, text=True, check=True)
    why, peak, restored = done.stdout.splitlines()
    assert why.startswith(f"{bomb}: not a checkpoint")
    assert (peak, restored) == ("0 GB more", "True")


@pytest.mark.parametrize("kept", [0, 1, 100, -1])
def test_a_checkpoint_that_was_cut_off_is_refused_in_one_line(tmp_path: Path, kept: int) -> None:
    path = tmp_path / "cut.pth"
    torch.save({"weight": torch.ones(100)}, path)
    path.write_bytes(path.read_bytes()[:kept])
    assert verify(path, path)["refused"].startswith(f"{path}: not a checkpoint of tensors")


@pytest.mark.parametrize(
    ("make", "why"), [(os.mkfifo, "it is a pipe, a socket or a device"), (os.mkdir, "it is a folder, not a file")]
)
def test_what_is_no_file_is_not_waited_for(tmp_path: Path, make: Callable[[Path], None], why: str) -> None:
    make(tmp_path / "a.pth")
    refused = verify(tmp_path / "a.pth", tmp_path / "a.pth")["refused"]
    assert refused.startswith(f"{tmp_path / 'a.pth'}: cannot be read: {why}")


def test_a_name_cannot_forge_a_line_or_speak_to_the_terminal(tmp_path: Path) -> None:
    for file, number in (("a.pth", 1.0), ("b.pth", 2.0)):
        torch.save({"x\nparameters: all 1 equal\x1b[2J": torch.tensor([number])}, tmp_path / file)
    found = verify(tmp_path / "a.pth", tmp_path / "b.pth")
    assert found["differ"] is True
    assert found["lines"][1] == r"  x\nparameters: all 1 equal\x1b[2J: 1 of 1 elements, at most 1 apart"


@pytest.mark.parametrize(
    ("a", "b", "words"),
    [
        (torch.ones(2), torch.ones(2), None),
        (torch.tensor([float("nan")]), torch.tensor([float("nan")]), None),
        (torch.ones(2), None, "is only in the first"),
        (torch.ones(2), torch.ones(3), "float32 [2] against float32 [3]"),
        (torch.ones(2), torch.ones(2).double(), "float32 [2] against float64 [2]"),
        (torch.tensor([1.0, 2.0]), torch.tensor([1.0, 2.5]), "1 of 2 elements, at most 0.5 apart"),
        (torch.tensor([0.0]), torch.tensor([-0.0]), "1 of 1 elements, at most 0 apart"),
        (torch.tensor([1 + 1j]), torch.tensor([1 + 2j]), "1 of 1 elements, at most 1 apart"),
    ],
)
def test_differences_in_words(a: torch.Tensor | None, b: torch.Tensor | None, words: str | None) -> None:
    assert difference(a, b) == words

"""What goes wrong on purpose, does: on its rank, in its step, and in no other."""

from pathlib import Path

import pytest
import torch

from ddptui.config.trial import Fault, FaultKind
from ddptui.engines.local.warm import WarmParent
from tests.support.runner import ENOUGH_S
from workers.rank.faults import EXIT_CODE, Faults

CPU = torch.device("cpu")
# Each in a child of a process that has imported torch once.
SCRIPT = """
import os, torch
from workers.rank.faults import inject
for kind in ("kill", "exit", "abort", "stop"):
    if (pid := os.fork()) == 0:
        inject(kind, torch.device("cpu"))
    _, status = os.waitpid(pid, os.WUNTRACED)
    print(kind, -os.WSTOPSIG(status) if os.WIFSTOPPED(status) else os.waitstatus_to_exitcode(status), flush=True)
    if os.WIFSTOPPED(status):
        os.kill(pid, 9)
        os.waitpid(pid, 0)
"""


def faults(kind: FaultKind, rank: int) -> Faults:
    return Faults((Fault(kind=kind, rank=1, step=5),), rank)


def test_each_ends_or_stops_the_process_as_it_says(warm: WarmParent, tmp_path: Path) -> None:
    path = tmp_path / "log"
    with path.open("wb") as log:
        keeper = warm.fork("tests.support.script", "main", [SCRIPT], {}, tmp_path, tmp_path / "own", log)
    assert keeper.wait(ENOUGH_S) == 0
    ended = dict(line.split() for line in path.read_text().splitlines())
    assert ended == {"kill": "-9", "exit": str(EXIT_CODE), "abort": "-6", "stop": "-19"}


def test_it_strikes_its_rank_in_its_step(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(RuntimeError, match="on purpose"):
        faults("raise", 1).strike(5, CPU)
    assert capsys.readouterr().out == "fault, step 5: raise\n"
    faults("raise", 1).strike(4, CPU)
    faults("raise", 0).strike(5, CPU)
    assert capsys.readouterr().out == ""


def test_its_line_is_written_in_one_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another thread of the rank prints, too: a line of its own came between the text and its end."""
    pieces: list[str] = []
    monkeypatch.setattr("sys.stdout.write", pieces.append)
    with pytest.raises(RuntimeError, match="on purpose"):
        faults("raise", 1).strike(5, CPU)
    assert [piece for piece in pieces if piece] == ["fault, step 5: raise\n"]


def test_only_who_skips_leaves_a_step_out() -> None:
    assert faults("skip", 1).skips(5)
    assert not faults("skip", 1).skips(6)
    assert not faults("skip", 0).skips(5)
    assert not faults("hang", 1).skips(5)

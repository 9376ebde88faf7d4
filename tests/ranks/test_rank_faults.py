"""What goes wrong on purpose, does: on its rank, in its step, and in no other."""

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist

from ddptui.config.trial import Fault, FaultKind
from ddptui.engines.local.warm import WarmParent
from ddptui.wire.messages import Position
from tests.support.runner import ENOUGH_S
from tests.support.worlds import one_rank, tiny_trial
from workers.aggregate import strategy_of
from workers.instruments.clock import Clock
from workers.instruments.progress import Progress
from workers.instruments.records import StepRecord
from workers.instruments.reporter import Reporter
from workers.rank.faults import EXIT_CODE, Faults
from workers.train import after_loop, train

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
Calls = list[tuple[Any, ...]]


def faults(kind: FaultKind, rank: int) -> Faults:
    return Faults((Fault(kind=kind, rank=1, step=5),), rank)


def test_each_ends_or_stops_the_process_as_it_says(warm: WarmParent, tmp_path: Path) -> None:
    path = tmp_path / "log"
    with path.open("wb") as log:
        keeper = warm.fork("tests.support.script", "main", [SCRIPT], {}, tmp_path, tmp_path / "own", log)
    assert keeper.wait(ENOUGH_S) == 0
    ended = dict(line.split() for line in path.read_text().splitlines())
    assert ended == {"kill": "-9", "exit": str(EXIT_CODE), "abort": "-6", "stop": "-19"}


def test_it_strikes_its_rank_in_its_step_and_says_so_in_one_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another thread of the rank prints, too: a line of its own came between the text and its end."""
    pieces: list[str] = []
    monkeypatch.setattr("sys.stdout.write", pieces.append)
    faults("raise", 1).strike(4, CPU)
    faults("raise", 0).strike(5, CPU)
    assert pieces == []
    with pytest.raises(RuntimeError, match="injected by the trial"):
        faults("raise", 1).strike(5, CPU)
    assert [piece for piece in pieces if piece] == ["fault, step 5: raise\n"]
    assert faults("skip", 1).skips(5)
    others = faults("skip", 1).skips(6), faults("skip", 0).skips(5), faults("hang", 1).skips(5)
    assert others == (False, False, False)


# Faults after which the ranks call different collectives


@pytest.fixture
def called(monkeypatch: pytest.MonkeyPatch) -> Calls:
    """The collectives that a fault calls, instead of calling them."""
    calls: Calls = []
    monkeypatch.setattr(dist, "barrier", lambda: calls.append(("barrier",)))
    monkeypatch.setattr(dist, "reduce", lambda tensor, dst: calls.append(("reduce", tensor.numel(), dst)))
    monkeypatch.setattr(dist, "all_reduce", lambda tensor: calls.append(("all_reduce", tensor.numel())))
    return calls


@pytest.mark.parametrize(
    ("kind", "collectives"),
    [("lone_collective", [("reduce", 1, 0)]), ("mismatch", [("all_reduce", 7)]), ("other_shape", []), ("skip", [])],
)
def test_some_call_a_collective_more(called: Calls, kind: FaultKind, collectives: Calls) -> None:
    faults(kind, 1).strike(5, CPU)
    faults(kind, 1).strike(6, CPU)
    faults(kind, 0).strike(5, CPU)
    assert called == collectives


class Counted(Progress):
    """Counts the steps that a rank finishes."""

    steps = 0

    def step(self, mark: StepRecord, clock: Clock) -> None:
        self.steps += 1


@pytest.mark.parametrize(
    ("kind", "rank", "steps", "collectives"),
    [
        ("uneven_inputs", 0, 2, []),
        ("early_stop", 0, 2, [("barrier",)]),
        ("early_stop", 1, 4, []),
        ("lone_collective", 0, 4, [("reduce", 1, 0)]),
    ],
)
def test_who_has_no_batch_or_stops_early_leaves_the_loop_before_the_step(
    called: Calls, capsys: pytest.CaptureFixture[str], kind: FaultKind, rank: int, steps: int, collectives: Calls
) -> None:
    trial = tiny_trial(fault=(Fault(kind=kind, rank=rank, step=2),))
    progress = Counted(0, 0, Reporter(0))
    me = one_rank(trial)
    train(me, strategy_of(trial), progress)
    assert (progress.steps, called) == (steps, collectives)
    lines = capsys.readouterr().out.splitlines()
    assert (f"fault, step 2: {kind}" in lines) == (rank == 0)
    assert lines[-1] == "rank 0  left the training loop"
    assert me.reporter.position() == Position(phase="between steps")
    behind = Position(step=3, calls=1, number=0, kind="all_reduce")
    assert after_loop(behind) == behind, "its device is still in a step"


def test_the_average_gets_other_tensors_in_the_faults_step_only() -> None:
    tensors = [torch.zeros(4, 3), torch.ones(4), torch.ones(2, 4)]

    def shapes(kind: FaultKind, step: int = 5, rank: int = 1) -> list[tuple[int, ...]]:
        return [tuple(tensor.shape) for tensor in faults(kind, rank).averaged(step, tensors)]

    assert shapes("other_shape") == [(1, 3), (4,), (2, 4)]
    assert shapes("wrong_order") == [(4,), (4, 3), (2, 4)]
    same = shapes("hang")
    assert same == shapes("other_shape", step=6) == shapes("wrong_order", rank=0) == [(4, 3), (4,), (2, 4)]
    assert [tensor.numel() for tensor in faults("wrong_order", 1).averaged(5, tensors[:1])] == [12]

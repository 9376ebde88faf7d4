"""torch.compile traces nothing of the tap: on a GPU its events would become a part of the graph."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from ddptui.config.trial import Trial
from tests.support.worlds import one_rank
from workers.instruments import tap as tap_module
from workers.instruments.clock import Clock
from workers.instruments.records import Call, PhaseTimer
from workers.instruments.tap import Tap
from workers.training.instruments import make_tap

pytestmark = pytest.mark.filterwarnings("ignore")  # torch.compile hides what it raises itself, but not as errors
STEPS = 3  # in the second, DDP lays its buckets out anew


@pytest.fixture
def compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    torch.compiler.reset()
    yield
    torch.compiler.reset()


class Model(nn.Module):
    """DDP broadcasts its buffers in C++; it also sends in its forward, and waits for that itself."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(6, 3)
        self.norm = nn.BatchNorm1d(3)

    def forward(self, inputs: Tensor) -> Tensor:
        outputs: Tensor = self.norm(self.layer(inputs))
        seen = outputs.detach().clone()
        work = dist.all_reduce(seen, async_op=True)
        work.wait()
        return outputs + seen


class Traced(Clock):
    """Counts the moments that were taken while torch was compiling."""

    def __init__(self) -> None:
        self.taken: list[bool] = []

    def now(self) -> int:
        self.taken.append(torch.compiler.is_compiling())
        return len(self.taken)


def learn(clock: Traced, *, compiled: bool) -> tuple[list[list[Call]], list[Any]]:
    """What was called in each step; and the graphs that were compiled."""
    graphs: list[Any] = []

    def backend(graph: Any, inputs: Any) -> Any:
        graphs.append([str(node.target) for node in graph.graph.nodes])
        return graph

    torch.manual_seed(0)
    network = DistributedDataParallel(Model())
    tap = Tap(clock, network, buckets=True, overlaps=True, compiles=True)
    forward = torch.compile(network, backend=backend) if compiled else network
    calls = []
    for step in range(STEPS):
        timer = PhaseTimer(clock, step)
        tap.begin(timer)
        timer.end("data")
        loss = forward(torch.ones(4, 6)).sum()
        timer.end("forward")
        loss.backward()
        tap.settle()
        calls.append(tap.end())
    tap.close()
    return calls, graphs


@pytest.mark.usefixtures("compiler", "alone", "way")
def test_nothing_of_the_tap_is_traced_and_it_sees_the_same_calls() -> None:
    clock = Traced()
    bare, _ = learn(Traced(), compiled=False)
    calls, graphs = learn(clock, compiled=True)
    assert len(graphs) > 0
    assert not any(clock.taken)
    kinds = [[call.kind for call in step] for step in calls]
    assert kinds == [[call.kind for call in step] for step in bare]
    assert all("broadcast" in step for step in kinds)
    assert threading.get_ident() in {call.thread for step in calls for call in step}


@pytest.mark.parametrize(
    ("trial", "expected"), [(Trial(), False), (Trial(compile=True), True), (Trial(model="my.models:Net"), True)]
)
def test_it_is_kept_from_it_wherever_something_may_be_compiled(
    trial: Trial, expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model of one's own may compile parts of itself."""
    told: list[bool] = []
    monkeypatch.setattr(dist, "is_initialized", lambda: True)
    monkeypatch.setattr(dist, "get_backend", lambda: "gloo")
    monkeypatch.setattr(tap_module, "attach", lambda *_, compiles: told.append(compiles) or [])
    make_tap(one_rank(trial), nn.Linear(1, 1), Clock()).close()
    assert told == [expected]

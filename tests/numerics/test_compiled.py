"""torch.compile, for real: under hooks, buckets and torch DDP, it trains what the uncompiled model trains."""

import shutil
from typing import Any

import msgspec
import pytest
import torch
import torch.distributed as dist
from torch import Tensor

from ddptui.config.catalog import EXACT
from ddptui.config.trial import Trial
from tests.numerics.ranks import Learned, Said, apart, learn, leave_behind, run
from workers.aggregate import strategy_of

pytestmark = [
    pytest.mark.rare,
    pytest.mark.skipif(
        not any(map(shutil.which, ("g++", "clang++", "c++"))), reason="torch.compile needs a C++ compiler on the CPU"
    ),
]

RANKS = 2
# The last batch of an epoch is smaller: it compiles once more.
TRIAL = Trial(
    model="mlp", width=12, depth=2, dataset="random", shape=(5,), samples=58, classes=4, batch_size=16, steps=12,
    momentum=0.9, lr=0.1, world_size=RANKS, warmup_steps=0,
)  # fmt: skip
CASES: dict[str, dict[str, Any]] = {
    "all_reduce": {"strategy": "all_reduce"},
    "bucketed": {"strategy": "bucketed", "bucket_mb": 0.0005},
    "bucketed-every": {"strategy": "bucketed", "every": 2},
    "ddp": {"strategy": "ddp"},
    "ddp-every": {"strategy": "ddp", "every": 2},
    "ddp-bf16": {"strategy": "ddp", "amp": "bf16"},
}
NEAR = 2e-5  # 12 steps of float32 numbers of about 1, added up in another order


def run_rank(rank: int, folder: str) -> None:
    torch._inductor.config.compile_threads = 1  # in this process, which needs no others then
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=RANKS)
    learned, said, graphs = {}, {}, {}
    for name, fields in CASES.items():
        torch._dynamo.reset()
        torch._dynamo.utils.counters.clear()
        trial = msgspec.structs.replace(TRIAL, compile=True, **fields)
        learned[name], said[name] = learn(rank, trial, strategy_of(trial))
        graphs[name] = torch._dynamo.utils.counters["stats"]["unique_graphs"]
    leave_behind(folder, rank, learned, (said, graphs))


class World(msgspec.Struct):
    learned: list[Learned]
    said: list[dict[str, Said]]
    graphs: list[dict[str, int]]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    folder = tmp_path_factory.mktemp("world")
    learned, heard = run(run_rank, (str(folder),), RANKS, folder, tuple[dict[str, Said], dict[str, int]])
    return World(learned, [said for said, _ in heard], [graphs for _, graphs in heard])


@pytest.fixture(scope="module")
def alone() -> dict[int, dict[str, Tensor]]:
    """What one process learns with the big batch, uncompiled; of two steps' samples at once, too. (An epoch has four
    steps, and none of their rounds is cut short.)"""
    threads = torch.get_num_threads()
    found = {}
    for every in (1, 2):
        fields = {"batch_size": 16 * every, "steps": 12 // every, "world_size": 1}
        trial = msgspec.structs.replace(TRIAL, launch="single", strategy=None, **fields)
        found[every] = learn(0, trial, strategy_of(trial))[0]
    torch.set_num_threads(threads)
    return found


def test_equals_one_process_with_the_big_batch(world: World, alone: dict[int, dict[str, Tensor]]) -> None:
    for name in [name for name in CASES if "bf16" not in name]:
        every, other = CASES[name].get("every", 1), 3 - CASES[name].get("every", 1)
        assert all(apart(rank[name], alone[every]) < NEAR for rank in world.learned), name
        assert all(apart(rank[name], alone[other]) > 100 * NEAR for rank in world.learned), name


def test_something_was_compiled_and_all_ranks_agree_on_tensors_that_are_called_as_those_of_the_bare_model(
    world: World, alone: dict[int, dict[str, Tensor]]
) -> None:
    for name in CASES:
        assert all(graphs[name] > 0 for graphs in world.graphs), name
        assert apart(world.learned[0][name], world.learned[1][name]) == 0, name
        assert all(said[name].audit.error < EXACT["float32"] for said in world.said), name
        assert all(rank[name].keys() == alone[1].keys() for rank in world.learned), name

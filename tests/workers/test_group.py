"""Ranks leave their group with none of its threads behind: one that drops a tensor as Python shuts down aborts it."""

from pathlib import Path

import pytest
import torch
import torch.distributed as dist

from ddptui.preset import Trial
from workers.aggregate import strategy_of
from workers.bottleneck import Delays
from workers.group import Meeting, host_store, join_group, leave_group
from workers.rank import Rank
from workers.reporter import Reporter
from workers.train import train

TASKS = Path("/proc/self/task")


def group_threads() -> list[str]:
    return [name for path in TASKS.glob("*/comm") if "gloo" in (name := path.read_text().strip())]


@pytest.mark.skipif(not TASKS.exists(), reason="only Linux names the threads of native code")
@pytest.mark.parametrize("strategy", ["all_reduce", "bucketed", "ddp", "ddp_fp16", "ddp_powersgd"])
def test_no_thread_of_the_group_is_left(strategy: str) -> None:
    trial = Trial(strategy=strategy, world_size=1, model="mlp", width=8, depth=1, steps=4)  # type: ignore[arg-type]
    me = Rank(trial, 0, 1, torch.device("cpu"), Reporter(0), Delays((), 0, seed=0, warmup_steps=0))
    store = host_store()
    join_group(me, Meeting(store.host, store.port))
    try:
        train(me, strategy_of(trial))
        assert dist.is_initialized()
        assert group_threads()
    finally:
        leave_group()
    assert group_threads() == []

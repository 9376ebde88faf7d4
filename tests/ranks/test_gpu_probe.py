"""What `make test-gpu` tries on ranks, here on the CPU or on a simulated GPU; and what must turn each red."""

import json

import pytest
import torch
import torch.distributed as dist

from tests.gpu import marks, nccl_pair, synchronising
from workers.rank.group import leave_group

CPU = torch.device("cpu")


# The clock


# Calls that wait


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The modes in which torch's check was put, which there is only with CUDA."""
    modes: list[str] = []
    monkeypatch.setattr(torch.cuda, "set_sync_debug_mode", modes.append)
    return modes


def test_every_strategy_and_precision_is_tried_and_only_its_steps_are_watched(watched: list[str]) -> None:
    tried = list(synchronising.trials())
    assert len({(trial.strategy, trial.amp) for trial in tried}) == len(tried) > 40
    of_bf16 = [trial for trial in tried if trial.amp == "bf16" and trial.strategy in ("ddp", "bucketed", "all_reduce")]
    assert [synchronising.refusal(trial, CPU) for trial in of_bf16] == [""] * 3
    assert watched == ["error", "default", "default"] * 3


# Two ranks


def over_gloo(rank: int, port: int) -> None:
    """What a rank of the pair does, on the CPU."""
    store = dist.TCPStore("127.0.0.1", port, is_master=False)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=2)
    store.set(f"report-{rank}", json.dumps(nccl_pair.measured_by(rank, CPU, marks.clock_of(CPU))))
    dist.barrier()
    leave_group()


def test_two_ranks_over_gloo_sum_wait_and_exchange(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nccl_pair, "_run_rank", over_gloo)
    found = nccl_pair.measure()
    assert found["sums_right"]
    assert found["exchanged_right"]
    assert min(found["late_ns"], found["wait_ns"]) >= 15e6  # both are 20 ms on a machine that does nothing else

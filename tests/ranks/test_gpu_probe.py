"""What `make test-gpu` tries on ranks, here on the CPU or on a simulated GPU; and what must turn each red."""

import json
from types import SimpleNamespace

import pytest
import torch
import torch.distributed as dist
from torch import Tensor
from torch.testing._internal.distributed.fake_pg import FakeStore

from tests.gpu import marks, nccl_pair, probes, synchronising
from tests.gpu.marks import Between, Timed, summary, take, timed_of
from tests.support.simulated_gpu import Gpu, simulated
from workers import train as loop
from workers.instruments.clock import Accuracy
from workers.rank.group import leave_group

CPU = torch.device("cpu")


def test_the_probe_answers_what_torch_is_made_of() -> None:
    facts = probes.facts()
    assert facts["torch"] == torch.__version__
    assert set(facts["nccl_implementations"]) <= {"ProcessGroupNCCL", "ProcessGroupNCCL2"}


# The clock


def test_marks_of_the_hosts_clock_lie_between_its_times() -> None:
    found = marks.compare(CPU, busy=False, for_s=0.3)
    assert found["marks"] >= marks.AT_ONCE
    assert (found["outside"], found["farthest_ns"], found["error_ns"]) == (0, 0, 0)


@pytest.mark.parametrize(("work_ns", "off_ns"), [(0, 0), (1_500_000, 0), (0, 200_000)], ids=["idle", "busy", "off"])
def test_a_clock_that_is_off_by_more_than_it_reports_is_found(
    work_ns: float, off_ns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = Gpu()
    monkeypatch.setattr(marks, "time", SimpleNamespace(monotonic_ns=device.host_ns, sleep=device.sleep))
    clock = simulated(monkeypatch, device)
    timed: list[Timed] = []
    accuracies: list[Accuracy] = []
    for _ in range(50):
        taken = [take(clock, lambda: device.main.push(work_ns)) for _ in range(10)]
        times = clock.resolve([each.mark for each in taken])
        assert times is not None
        timed += [timed_of(each, at_ns + off_ns) for each, at_ns in zip(taken, times, strict=True)]
        accuracies += filter(None, [clock.accuracy_change()])
    found = summary(timed, accuracies)
    assert (found["marks"], found["outside"]) == (500, 500 if off_ns else 0)
    assert (found["farthest_ns"] > 0) == bool(off_ns)
    assert 0 < found["error_ns"] < 60_000


def test_a_mark_is_held_against_its_bounds_and_the_error_of_its_moment() -> None:
    between = Between(100, None, 200)
    assert [timed_of(between, at_ns).beyond_ns for at_ns in (90, 100, 200, 230)] == [10, 0, 0, 30]
    accuracies = [Accuracy(0, 50), Accuracy(1_000, 20)]
    found = summary([Timed(0, 51), Timed(2_000, 20), Timed(1_500_000_000, 21)], accuracies)
    assert found == {"marks": 3, "outside": 2, "farthest_ns": 1, "error_ns": 20}


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


def test_what_torch_refuses_in_the_loop_is_told(watched: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def reads(total: Tensor, labels: Tensor) -> Tensor:
        if watched[-1] == "error":
            raise RuntimeError("called a synchronizing CUDA operation\nat …")
        return total.detach()

    watched.append("default")
    monkeypatch.setattr(loop, "mean_loss", reads)
    few = [trial for trial in synchronising.trials() if trial.strategy == "flat"]
    monkeypatch.setattr(synchronising, "trials", lambda: few)
    said = "RuntimeError: called a synchronizing CUDA operation"
    assert synchronising.refused(CPU) == dict.fromkeys(["flat, float32", "flat, bf16", "flat, fp16"], said)


# Two ranks


def test_sums_and_values_that_are_wrong_are_noticed() -> None:
    # a group of two, without the other one: what is sent comes back as it was
    dist.init_process_group("fake", store=FakeStore(), rank=1, world_size=2)
    found = nccl_pair.measured_by(1, CPU, marks.clock_of(CPU))
    leave_group()
    right = found | {"sums_right": True, "exchanged_right": True}
    both = [nccl_pair.compared(*pair) for pair in ((found, right), (right, found))]
    assert not any(each["sums_right"] or each["exchanged_right"] for each in both)


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

"""What the GPU report tries on ranks, on the CPU or on a simulated GPU; and what must turn each red."""

from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor
from torch.testing._internal.distributed.fake_pg import FakeStore

from tests.support.simulated_gpu import Gpu, simulated
from workers import train as loop
from workers.doctor import gpu, marks, nccl_pair, synchronising
from workers.doctor.marks import Between, Timed, error_at, summary, take, timed_of
from workers.doctor.nccl_pair import Report, compared
from workers.instruments.clock import Accuracy
from workers.instruments.cuda_clock import CudaClock
from workers.rank.group import leave_group

CPU = torch.device("cpu")

# The clock


def test_marks_of_the_hosts_clock_lie_between_its_times() -> None:
    found = marks.compare(CPU, busy=False, for_s=0.3)
    assert found["marks"] >= marks.AT_ONCE
    assert (found["outside"], found["farthest_ns"], found["error_ns"]) == (0, 0, 0)


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Gpu:
    """A simulated GPU, in whose time marks are taken."""
    device = Gpu()
    monkeypatch.setattr(marks, "time", SimpleNamespace(monotonic_ns=device.host_ns, sleep=device.sleep))
    return device


def taken(clock: CudaClock, device: Gpu, work_ns: float, number: int = 50) -> tuple[list[Timed], list[Accuracy]]:
    timed: list[Timed] = []
    accuracies: list[Accuracy] = []
    for _ in range(number):
        found = [take(clock, lambda: device.main.push(work_ns)) for _ in range(10)]
        times = clock.resolve([each.mark for each in found])
        assert times is not None
        timed += [timed_of(each, at_ns) for each, at_ns in zip(found, times, strict=True)]
        accuracies += filter(None, [clock.accuracy_change()])
    return timed, accuracies


@pytest.mark.parametrize("work_ns", [0, 1_500_000], ids=["idle", "busy"])
def test_the_clock_of_a_gpu_is_within_its_error(work_ns: float, device: Gpu, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = simulated(monkeypatch, device)
    found = summary(*taken(clock, device, work_ns))
    assert (found["marks"], found["outside"]) == (500, 0)
    assert 0 < found["error_ns"] < 60_000


def test_a_clock_that_is_off_by_more_than_it_reports_is_found(device: Gpu, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = simulated(monkeypatch, device)
    monkeypatch.setattr(clock, "resolve", lambda read, right=clock.resolve: [ns + 200_000 for ns in right(read)])
    found = summary(*taken(clock, device, 0))
    assert found["outside"] == found["marks"]
    assert 0 < found["farthest_ns"] < 200_000


def test_a_mark_is_held_against_its_bounds_and_the_error_of_its_moment() -> None:
    between = Between(100, None, 200)
    assert [timed_of(between, at_ns).beyond_ns for at_ns in (90, 100, 200, 230)] == [10, 0, 0, 30]
    accuracies = [Accuracy(0, 50), Accuracy(1_000, 20)]
    assert [error_at(at_ns, accuracies) for at_ns in (-1, 0, 999, 1_000)] == [0, 50, 50, 20]
    late = 1_500_000_000
    found = summary([Timed(0, 51), Timed(2_000, 20), Timed(late, 21)], accuracies)
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
        if watched == ["error"]:
            raise RuntimeError("called a synchronizing CUDA operation\nat …")
        return total.detach()

    monkeypatch.setattr(loop, "mean_loss", reads)
    trial = next(synchronising.trials())
    assert synchronising.refusal(trial, CPU) == "RuntimeError: called a synchronizing CUDA operation"
    assert watched == ["error", "default"]


def test_all_combinations_are_told_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(synchronising, "refusal", lambda trial, _: f"of {trial.strategy}")
    found = synchronising.refused(CPU)
    assert found["ddp, float32"] == found["ddp, fp16"] == "of ddp"
    assert "ddp_powersgd, fp16" not in found


# Two ranks


@pytest.fixture
def of_two() -> Iterator[None]:
    """A group of two, without the other one: what is sent comes back as it was."""
    dist.init_process_group("fake", store=FakeStore(), rank=1, world_size=2)
    yield
    leave_group()


@pytest.mark.usefixtures("of_two")
def test_sums_and_values_that_are_wrong_are_noticed() -> None:
    found = nccl_pair.report_of(1, CPU, marks.clock_of(CPU))
    assert not found.sums_right  # 2, where 3 is right
    assert not found.exchanged_right
    assert len(found.came_ns) == len(found.took_ns) == nccl_pair.ROUNDS


def report(came_ns: int, took_ns: int, **changes: Any) -> Report:
    rounds = nccl_pair.ROUNDS
    words = {
        "sums_right": True,
        "came_ns": [came_ns] * rounds,
        "took_ns": [10**12] * nccl_pair.SETTLE_ROUNDS + [took_ns] * (rounds - nccl_pair.SETTLE_ROUNDS),
        "exchanged_right": True,
        "exchange_ns": 5,
    }
    return Report(**(words | changes))


def test_two_reports_become_one() -> None:
    assert compared([report(1_000, 25), report(1_020, 5)]) == {
        "sums_right": True, "late_ns": 20, "wait_ns": 20, "exchanged_right": True, "exchange_ns": 5,
    }  # fmt: skip
    assert not compared([report(0, 0), report(0, 0, sums_right=False)])["sums_right"]
    assert not compared([report(0, 0, exchanged_right=False), report(0, 0)])["exchanged_right"]


def over_gloo(rank: int, port: int, folder: str) -> None:
    """What a rank of the pair does, on the CPU."""
    store = dist.TCPStore("127.0.0.1", port, is_master=False)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=2)
    found = nccl_pair.report_of(rank, CPU, marks.clock_of(CPU))
    Path(folder, str(rank)).write_bytes(nccl_pair.msgspec.json.encode(found))
    dist.barrier()
    leave_group()


def test_two_ranks_over_gloo_sum_wait_and_exchange(tmp_path: Path) -> None:
    store = nccl_pair.host_store()
    nccl_pair.mp.start_processes(over_gloo, (store.port, str(tmp_path)), nprocs=2, start_method="spawn")
    found = compared(
        [nccl_pair.msgspec.json.decode((tmp_path / str(rank)).read_bytes(), type=Report) for rank in (0, 1)]
    )
    assert found["sums_right"]
    assert found["exchanged_right"]
    assert found["late_ns"] >= 15e6  # late_ns and wait_ns are 20 ms on a machine that does nothing else
    assert found["wait_ns"] >= 15e6


# The answers


def test_the_probe_answers_what_torch_is_made_of() -> None:
    facts = gpu.facts()
    assert facts["torch"] == torch.__version__
    assert facts["gpus"] == facts["capabilities"] == [] or torch.cuda.is_available()
    assert set(facts["nccl_implementations"]) <= {"ProcessGroupNCCL", "ProcessGroupNCCL2"}


@pytest.mark.parametrize("question", [gpu.clock, gpu.synchronising])
def test_without_a_gpu_a_question_fails(question: Callable[[], object]) -> None:
    if torch.cuda.is_available():
        pytest.skip("there is a GPU here")
    with pytest.raises((RuntimeError, AssertionError)):
        question()

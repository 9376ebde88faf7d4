"""Which device a rank gets, and which backend its group; with a driver that is made up, since few machines have one."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.distributed as dist

from ddptui.config.trial import Trial
from ddptui.text.words import OLDER
from ddptui.wire.messages import Failed, Hello
from tests.support.failing import failing
from tests.support.worlds import one_rank
from workers.rank import group
from workers.rank.device import CPU, DeviceChoice, choose_backend, choose_device, describe
from workers.rank.group import FROM_ENVIRONMENT, join_group
from workers.rank.process import hello, rank_process
from workers.training import evaluate as evaluation

TOO_OLD = (
    "The NVIDIA driver on your system is too old (found version 11040). Please update your GPU driver by downloading "
    "and installing a new version from the URL: http://www.nvidia.com/Download/index.aspx Alternatively, go to: "
    "https://pytorch.org to install a PyTorch version that has been compiled with your version of the CUDA driver."
)
GPU = torch.device("cuda", 0)


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[torch.device]]:
    """Makes one up, with so many GPUs. Returns what will be made the current device."""

    def make(gpus: int, init: Callable[[], None] = lambda: None) -> list[torch.device]:
        current: list[torch.device] = []
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
        monkeypatch.setattr(torch.cuda, "init", init)
        monkeypatch.setattr(torch.cuda, "set_device", current.append)
        return current

    return make


@pytest.mark.parametrize(
    ("gpus", "rank", "here", "trial", "expected", "shared"),
    [
        (2, 1, range(2), {}, 1, False),
        (3, 0, range(2), {}, 0, False),
        (8, 5, range(4, 8), {}, 1, False),
        (4, 3, range(2, 4), {"gpus_per_rank": 2}, 2, False),
        (2, 1, range(2), {"share_gpu": True}, 1, False),  # enough for all
        (1, 1, range(2), {"share_gpu": True}, 0, True),
        (2, 2, range(3), {"share_gpu": True}, 0, True),
        (2, 1, range(3), {"share_gpu": True}, 1, True),  # its own, and yet not one of a group for NCCL
        (2, 3, range(2, 4), {"launch": "task"}, 1, False),
        (1, 3, range(2, 4), {"launch": "task", "share_gpu": True}, 0, True),
        (0, 0, range(2), {}, None, False),
        (0, 0, range(2), {"share_gpu": True}, None, False),
        (0, 0, range(2), {"gpus_per_rank": 2}, None, False),
        (2, 0, range(2), {"device": "cpu"}, None, False),
    ],
)
def test_a_device_follows_from_the_ranks_of_this_host(
    driver: Any, gpus: int, rank: int, here: range, trial: dict[str, Any], expected: int | None, shared: bool
) -> None:
    current = driver(gpus)
    device = CPU if expected is None else torch.device("cuda", expected)
    assert choose_device(Trial(**trial), rank, here) == DeviceChoice(device, "", shared)
    assert current == ([] if expected is None else [device])


@pytest.mark.parametrize("several", [1, 2])
def test_a_task_takes_the_gpus_that_a_platform_shows_to_it_alone(
    driver: Any, monkeypatch: pytest.MonkeyPatch, several: int
) -> None:
    """Where nobody has chosen for the tasks of a host, all see the same, and they would meet on it unasked."""
    driver(several)
    trial = Trial(launch="task", gpus_per_rank=several)
    assert choose_device(trial, 3, range(2, 4)).device == CPU
    assert choose_device(trial, 3, range(3, 4)) == DeviceChoice(GPU)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1,2"[: 2 * several - 1])
    assert choose_device(trial, 3, range(2, 4)) == DeviceChoice(GPU)


@pytest.mark.parametrize(
    ("gpus", "here", "trial", "why"),
    [
        (1, range(2), {}, "1 GPU for 2 ranks: share_gpu = true lets them share it"),
        (2, range(3), {}, "2 GPUs for 3 ranks: share_gpu = true lets them share them"),
        (2, range(4), {"launch": "dp", "world_size": 4}, "2 GPUs for 4 replicas"),
        (3, range(2), {"gpus_per_rank": 2}, "3 GPUs for 2 ranks of 2 GPUs each"),
        (1, range(1), {"gpus_per_rank": 2}, "1 GPU for 1 rank of 2 GPUs each"),
        (1, range(2), {"strategy": "ring"}, "1 GPU for 2 ranks"),  # sharing is over gloo, which would refuse
    ],
)
def test_too_few_gpus_leave_the_cpu_and_a_reason(
    driver: Any, gpus: int, here: range, trial: dict[str, Any], why: str
) -> None:
    driver(gpus)
    assert choose_device(Trial(**trial), 0, here) == DeviceChoice(CPU, why)


def test_who_wants_gpus_is_told_how_many_are_missing(driver: Any) -> None:
    driver(1)
    with pytest.raises(RuntimeError) as raised:
        choose_device(Trial(device="cuda"), 0, range(2))
    share = "share_gpu = true lets them share it"
    assert str(raised.value) == f"device = 'cuda': 1 GPU for 2 ranks: {share}, or take device = 'cpu'"


@pytest.mark.parametrize(
    ("words", "visible", "told"),
    [
        ("Found no NVIDIA driver on your system. Please check", None, "Found no NVIDIA driver on your system: CUDA"),
        ("No CUDA GPUs are available", "7", "No CUDA GPUs are available (CUDA_VISIBLE_DEVICES is '7'): CUDA takes"),
        ("No CUDA GPUs are available", "", "No CUDA GPUs are available (CUDA_VISIBLE_DEVICES is ''): CUDA takes"),
        (TOO_OLD, None, "The NVIDIA driver on your system is too old (found version 11040): update the driver, or"),
    ],
)  # fmt: skip
def test_torchs_own_words_are_one_line_with_a_remedy(
    driver: Any, monkeypatch: pytest.MonkeyPatch, words: str, visible: str | None, told: str
) -> None:
    driver(0, failing(RuntimeError(words)))
    monkeypatch.setattr(torch.version, "cuda", "12.4")
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    with pytest.raises(RuntimeError) as raised:
        choose_device(Trial(device="cuda"), 0, range(1))
    assert str(raised.value).startswith(f"device = 'cuda': {told}")
    assert str(raised.value).endswith(", or take device = 'cpu'")
    assert "\n" not in str(raised.value)


def test_a_torch_without_cuda_says_so(driver: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    driver(0, failing(AssertionError("Torch not compiled with CUDA enabled")))
    for platform in ("cuda", "hip"):
        monkeypatch.setattr(torch.version, platform, None)
    with pytest.raises(RuntimeError, match="this torch is built without CUDA: install one that has it"):
        choose_device(Trial(device="cuda"), 0, range(1))


def test_gpus_that_the_driver_counts_and_torch_cannot_use_are_none(driver: Any) -> None:
    """torch counts by the driver's word as long as CUDA has not been started."""
    current = driver(2, failing(RuntimeError(TOO_OLD)))
    why = f"is too old (found version 11040): {OLDER}"
    chosen = choose_device(Trial(), 0, range(2))
    assert chosen == DeviceChoice(CPU, f"The NVIDIA driver on your system {why}")
    assert current == []
    with pytest.raises(RuntimeError, match="too old"):
        choose_device(Trial(device="cuda"), 0, range(2))


@pytest.mark.parametrize(
    ("trial", "device", "shared", "chosen"),
    [
        ({}, CPU, False, ("gloo", "the ranks are on the CPU")),
        ({}, GPU, False, ("nccl", "the ranks are on GPUs")),
        ({}, GPU, True, ("gloo", "ranks share a GPU, which NCCL refuses")),
        ({"backend": "gloo"}, GPU, False, ("gloo", "the trial says so")),
        ({"backend": "nccl"}, GPU, False, ("nccl", "the trial says so")),
    ],
)
def test_a_backend_has_a_reason(trial: Any, device: torch.device, shared: bool, chosen: tuple[str, str]) -> None:
    assert choose_backend(Trial(**trial), device, shared) == chosen


@pytest.mark.parametrize(
    ("backend", "device", "shared", "error"),
    [
        ("nccl", CPU, False, "'nccl' needs GPUs, and the ranks are on the CPU: backend = 'auto' is gloo there"),
        ("nccl", GPU, True, "'nccl' refuses two ranks on one GPU: with share_gpu = true, leave it 'auto'"),
        ("mpi", CPU, False, "'mpi': this torch has no MPI; only a torch built from source with an MPI"),
    ],
)
def test_a_backend_that_cannot_be_is_refused_before_ranks_wait_for_it(
    monkeypatch: pytest.MonkeyPatch, backend: Any, device: torch.device, shared: bool, error: str
) -> None:
    monkeypatch.setattr(dist, "is_mpi_available", lambda: False)
    with pytest.raises(RuntimeError) as raised:
        choose_backend(Trial(backend=backend), device, shared)
    assert str(raised.value).startswith(f"backend = {error}")


BY_HAND: list[dict[str, Any]] = [{"strategy": "ring"}, {"primitives": "see", "strategy": None}]


@pytest.mark.parametrize("fields", BY_HAND)
@pytest.mark.parametrize(
    ("also", "shared", "why"),
    [
        ({"backend": "gloo"}, False, "the trial says so"),
        ({"share_gpu": True}, True, "ranks share a GPU, which NCCL refuses"),
    ],
)
def test_what_gloo_cannot_send_from_a_gpu_is_refused_where_the_device_is_known(
    fields: dict[str, Any], also: dict[str, Any], shared: bool, why: str
) -> None:
    trial = Trial(**fields, **also)
    with pytest.raises(RuntimeError) as raised:
        choose_backend(trial, GPU, shared)
    assert "gloo cannot send or receive tensors on a GPU" in str(raised.value)
    assert str(raised.value).endswith(f"(gloo: {why})")
    assert choose_backend(trial, CPU, shared=False)[0] == "gloo"
    assert choose_backend(Trial(**fields), GPU, shared=False)[0] == "nccl"


def made_up_mpi(monkeypatch: pytest.MonkeyPatch, rank: int, world_size: int) -> list[dict[str, Any]]:
    """Whose process groups have this rank. Returns what they will be made with."""
    made: list[dict[str, Any]] = []
    monkeypatch.setattr(dist, "is_mpi_available", lambda: True)
    monkeypatch.setattr(dist, "init_process_group", lambda backend, **options: made.append({backend: options}))
    monkeypatch.setattr(dist, "get_rank", lambda: rank)
    monkeypatch.setattr(dist, "get_world_size", lambda: world_size)
    monkeypatch.setattr(group, "leave_group", lambda: made.append({}))
    return made


def test_mpi_says_itself_who_is_which_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    made = made_up_mpi(monkeypatch, rank=1, world_size=2)
    join_group(one_rank(Trial(backend="mpi", launch="task"), 1), FROM_ENVIRONMENT)
    assert [list(each) for each in made] == [["mpi"]]
    assert list(made[0]["mpi"]) == ["timeout"]  # no store, no rank: torch warns of those that MPI passes over


def test_ranks_that_mpirun_has_not_started_are_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    made = made_up_mpi(monkeypatch, rank=0, world_size=1)
    told = r"MPI says rank 0 of 1, the trial rank 1 of 2: start the ranks by hand, `mpirun -n 2 "
    with pytest.raises(RuntimeError, match=told):
        join_group(one_rank(Trial(backend="mpi", launch="task"), 1), FROM_ENVIRONMENT)
    assert made[-1] == {}, "the group was not left"


def test_ranks_that_share_a_gpu_meet_over_gloo(monkeypatch: pytest.MonkeyPatch) -> None:
    made = made_up_mpi(monkeypatch, rank=0, world_size=2)
    me = one_rank(Trial(share_gpu=True), device=GPU)
    join_group(me, FROM_ENVIRONMENT)
    me.shares_gpu = True
    join_group(me, FROM_ENVIRONMENT)
    assert [list(each) for each in made] == [["nccl"], ["gloo"]]


def test_nccl_is_told_its_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []
    monkeypatch.setattr(dist, "init_process_group", lambda backend, **options: made.append((backend, options)))
    join_group(one_rank(Trial(), device=GPU), FROM_ENVIRONMENT)
    join_group(one_rank(Trial()), FROM_ENVIRONMENT)
    assert [(backend, options["device_id"]) for backend, options in made] == [("nccl", GPU), ("gloo", None)]


@pytest.mark.parametrize(
    ("trial", "device", "name"),
    [
        ({}, CPU, "cpu"),
        ({}, torch.device("cuda", 1), "cuda:1"),
        ({"gpus_per_rank": 2}, CPU, "cpu (2 threads, CPU stand-in)"),
        ({"gpus_per_rank": 2}, torch.device("cuda", 2), "cuda:2-3"),
        ({"launch": "dp"}, CPU, "cpu (thread, CPU stand-in)"),
        ({"launch": "dp"}, torch.device("cuda", 1), "cuda:1"),
    ],
)
def test_a_rank_says_what_it_computes_on(trial: dict[str, Any], device: torch.device, name: str) -> None:
    assert describe(Trial(**trial), device) == name
    assert hello(Trial(**trial), 1, DeviceChoice(device, "because"), threads=1).device == name


@pytest.mark.parametrize("trial", [Trial(device="cuda"), Trial(device="cpu", backend="nccl")])
def test_a_rank_without_a_device_or_a_group_says_hello_before_it_fails(
    driver: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], trial: Trial
) -> None:
    """Of somebody who has not, the console takes no last words."""
    driver(1)
    said: list[Any] = []
    monkeypatch.setattr("workers.instruments.reporter.Reporter.send", lambda _, words: said.append(words))
    monkeypatch.setattr("workers.rank.process.guard.die_with_console", lambda: None)
    with pytest.raises(RuntimeError, match=r"device|backend"), rank_process(trial, 0, range(2), has_parent=False):
        pass
    assert [type(words) for words in said] == [Hello, Failed]
    assert said[0].device == "none"
    assert "RuntimeError: device" in said[1].error or "RuntimeError: backend" in said[1].error
    capsys.readouterr()


def test_a_peak_is_of_the_training_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Evaluating takes batches of another size."""
    peak = [7]

    def accuracy(*_: Any) -> tuple[int, int]:
        peak[0] = 900
        return 0, 0

    monkeypatch.setattr(evaluation, "memory_of", lambda _: (1, 2, peak[0], peak[0] + 1))
    monkeypatch.setattr(evaluation, "accuracy", accuracy)
    none: Any = []
    done = evaluation.evaluate(one_rank(Trial()), torch.nn.Linear(1, 1), none)
    assert (done.peak_gpu_bytes, done.peak_gpu_reserved_bytes) == (7, 8)

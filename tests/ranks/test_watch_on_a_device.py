"""Where and when a training on a device begins to be watched, and what is kept of its losses."""

from types import SimpleNamespace
from typing import Any, cast
from weakref import ref

import pytest
import torch

from workers.instruments.clock import Clock
from workers.watch import patches as module
from workers.watch.observer import Observer
from workers.watch.patches import Marks, TorchPatches
from workers.watch.process import device_of, is_autograds_thread


class Model:
    device = torch.device("cuda", 3)


@pytest.mark.parametrize(
    ("shown", "device"),
    [
        (torch.ones(1), "cpu"),
        ([torch.ones(1), torch.ones(1)], "cpu"),
        ((None,), "cpu"),
        ((), "cpu"),
        ((0.5,), "cpu"),
        (torch.ones(1, device="meta"), "cpu"),
        (Model(), "cuda:3"),
    ],
)
def test_the_device_is_that_of_what_shows_a_training(shown: Any, device: str) -> None:
    assert str(device_of(shown)) == device


def test_a_gpu_of_this_threads_counts_only_where_nothing_else_shows_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 1)
    assert str(device_of(())) == "cuda:1"
    assert str(device_of(torch.ones(1))) == "cpu"


class OnAGpu(torch.Tensor):
    is_cuda = True  # type: ignore[assignment]


def seen_on(device: str) -> Observer:
    """An observer of a training on a device with no clock that it reads."""
    observer = Observer.__new__(Observer)
    observer._clock, observer._device, observer._unscaled = Clock(), torch.device(device), {}
    observer._checks = None
    return observer


def test_a_loss_that_would_hold_the_host_up_is_not_read() -> None:
    with pytest.raises(RuntimeError, match="its first backward was on the cpu, and this one on"):
        seen_on("cpu")._kept(torch.ones(()).as_subclass(OnAGpu))
    assert seen_on("mps")._kept(torch.ones(())) is None
    assert seen_on("cpu")._kept(torch.ones((), dtype=torch.complex64)) is None
    assert seen_on("cpu")._kept(torch.ones(())) == 1


def test_what_backward_needs_is_not_held_for_a_loss_that_was_scaled() -> None:
    observer, weights = seen_on("cpu"), torch.ones(3, requires_grad=True)
    loss = weights.square().sum()
    scaled = loss * 4
    observer.loss_is_scaled(loss, scaled)
    held = [ref(loss), ref(scaled)]
    del loss, scaled
    assert [each() for each in held] == [None, None]
    assert observer._loss_of(torch.tensor(0.5)) == 0.5


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> tuple[TorchPatches, list[Any]]:
    """The patches of a process that has shown no training yet, and what has begun to watch it."""
    monkeypatch.setenv("DDPTUI_WATCHED", "nowhere")
    patches, shown = TorchPatches(lambda _: None), list[Any]()
    monkeypatch.setattr(patches, "_begin", shown.append)
    return patches, shown


@pytest.mark.parametrize("hinders", ["nothing", "a capture", "an error of CUDA's", "autograd's thread"])
def test_nothing_begins_within_a_capture_or_a_backward(hinders: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A GPU's clock begins with calls that no capture allows; and the thread that begins is taken for the loop's."""

    def captures() -> bool:
        if hinders == "an error of CUDA's":
            raise RuntimeError("CUDA error: an earlier call has failed")
        return hinders == "a capture"

    monkeypatch.setenv("DDPTUI_WATCHED", "nowhere")
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", captures)
    monkeypatch.setattr(torch._C, "_cuda_getCurrentRawStream", lambda _: 1, raising=False)
    monkeypatch.setattr(module, "is_autograds_thread", lambda: hinders == "autograd's thread")
    made, noted = list[torch.device](), list[BaseException]()
    patches = TorchPatches(noted.append)
    monkeypatch.setattr(patches, "_make_observer", made.append)
    patches.observer(torch.ones(1))
    assert bool(made) is (hinders == "nothing")
    assert bool(noted) is (hinders == "an error of CUDA's")


@pytest.mark.parametrize(("name", "begins"), [("data", 0), ("forward", 0), ("backward", 0), ("optimizer", 1)])
def test_a_mark_begins_nothing_before_the_device_can_be_known(
    name: str, begins: int, begun: tuple[TorchPatches, list[Any]]
) -> None:
    patches, shown = begun
    Marks(patches).phase_begins(name)
    assert len(shown) == begins


@pytest.mark.parametrize(
    ("backwards", "is_autograds", "is_seen"), [(1, True, True), (0, True, False), (1, False, False)]
)
def test_in_backward_what_autograds_threads_do_is_the_loops(
    backwards: int, is_autograds: bool, is_seen: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A GPU's backward runs in a thread of its own: an optimizer that is called there, or a checkpoint."""
    monkeypatch.setenv("DDPTUI_WATCHED", "nowhere")
    monkeypatch.setattr(module, "is_autograds_thread", lambda: is_autograds)
    patches, observer = TorchPatches(lambda _: None), SimpleNamespace(backwards=backwards)
    patches._observer, patches._thread = cast(Any, observer), 1
    assert (patches.observer() is observer) is is_seen


def test_the_end_of_a_step_is_marked_after_its_loss_is_copied() -> None:
    order: list[str] = []
    observer = seen_on("cpu")
    observer._kept = lambda _: order.append("copy") or 0.5  # type: ignore[method-assign, func-returns-value]
    observer._come_home = lambda: order.append("mark") or 1
    observer._note, observer._between_steps = lambda _: None, lambda: None  # type: ignore[method-assign]
    observer.step_ends(torch.ones(()), 8)
    assert order == ["copy", "mark"]


def test_a_thread_of_pythons_is_none_of_autograds() -> None:
    seen = []
    tensor = torch.ones(1, requires_grad=True)
    tensor.register_hook(lambda _: seen.append((torch._C._current_graph_task_id() != -1, is_autograds_thread())))
    tensor.sum().backward()
    assert seen == [(True, False)]
    assert not is_autograds_thread()

"""The training loop never waits for its device: between the first and the last step nothing is read off it, nothing is
copied to it while the host stands still, and nobody calls a synchronize.

Of a device without memory ("meta") there is nothing to read: who tries, fails. What cannot run there runs on the CPU,
where every read is counted. In both cases the clock is that of a simulated GPU, with the real loop and the real tap.

The exception is torch's PowerSGD hook, in which nothing is ours: where there is a GPU it waits for that in every step
(torch.cuda.synchronize, which it does not call on the CPU, and which torch's own check lets pass), and in the first one
in which it compresses, it also copies what it has drawn on the CPU, and blocks.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, nullcontext
from typing import Any, Self

import pytest
import torch
import torch.distributed as dist
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.testing._internal.distributed.fake_pg import FakeStore
from torch.utils._python_dispatch import TorchDispatchMode

from ddptui.config.catalog import STRATEGIES
from ddptui.config.trial import Trial
from ddptui.wire.messages import Ready, Step
from tests.support.builders import done
from tests.support.ears import Ear
from tests.support.simulated_gpu import Gpu, simulated
from tests.support.torches import COLLECTIVES_OF_META
from tests.support.worlds import one_rank, tiny_trial
from workers import train as module
from workers.aggregate import strategy_of
from workers.instruments.clock import Clock
from workers.instruments.progress import Progress
from workers.instruments.records import StepRecord
from workers.instruments.reporter import Deferred
from workers.instruments.tap import Tap
from workers.rank.group import leave_group
from workers.training.data import Data, Samples
from workers.training.instruments import make_tap

META, CPU = torch.device("meta"), torch.device("cpu")
STEPS = 5
READS = {
    torch.ops.aten._local_scalar_dense.default, torch.ops.aten.is_nonzero.default, torch.ops.aten.equal.default,
    torch.ops.aten.nonzero.default, torch.ops.aten.masked_select.default, torch.ops.aten._unique2.default,
}  # fmt: skip


class Watched(TorchDispatchMode):
    """Notes what makes a host wait for a GPU, were the tensors there: values that are read, and copies that block."""

    def __init__(self, device: torch.device) -> None:
        super().__init__()
        self._device = device
        self._indices = WatchedIndices(self)
        self.waits: list[str] = []

    def __enter__(self) -> Self:
        self._indices.__enter__()
        super().__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        self._indices.__exit__(*error)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        out = func(*args, **kwargs)
        if (func in READS and self._has(args[0])) or blocks(func, args, kwargs):
            self.waits.append(str(func))
        return out

    def _has(self, tensor: Tensor) -> bool:
        """Of whole numbers on the CPU, which are indices and seeds, the device has none where there is a GPU."""
        return tensor.device == self._device and (tensor.device != CPU or tensor.is_floating_point())


class WatchedIndices(TorchFunctionMode):
    """Notes an index that is a list of numbers: torch 2.14 copies it to the device unseen by the dispatcher."""

    def __init__(self, watched: Watched) -> None:
        super().__init__()
        self._watched = watched

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is Tensor.__getitem__ and isinstance(args[1], list) and args[0].device != CPU:
            self._watched.waits.append("an index that is a list")
        return func(*args, **(kwargs or {}))


def blocks(func: Any, args: Any, kwargs: Any) -> bool:
    """Whether it copies from one device to another, and the host stands still meanwhile."""
    match func:
        case torch.ops.aten.copy_.default:
            crosses = args[0].device != args[1].device
            return crosses and not (kwargs.get("non_blocking") or (len(args) > 2 and args[2]))
        case torch.ops.aten._to_copy.default:
            crosses = kwargs.get("device") not in (None, args[0].device)
            return crosses and not kwargs.get("non_blocking")
        case torch.ops.aten.lift_fresh.default:  # made of Python's numbers
            return bool(args[0].device != CPU)
        case torch.ops.aten.index.Tensor:
            return any(index is not None and index.device != args[0].device for index in args[1])
    return False


class Edges(Progress):
    """Calls before the first step, and after the last one."""

    def __init__(self, ear: Ear, begin: Callable[[], object], end: Callable[[], object]) -> None:
        super().__init__(0, 0, ear)
        self._begin, self._end = begin, end

    def ready(self, message: Ready) -> None:
        super().ready(message)
        self._begin()

    def step(self, mark: StepRecord, clock: Clock) -> None:
        super().step(mark, clock)
        if mark.step == STEPS - 1:
            self._end()


def trial_of(strategy: Any, **options: Any) -> Trial:
    return tiny_trial(strategy, batch_norm=True, steps=STEPS, **options)


def samples_on(device: torch.device) -> Data:
    samples = Samples(torch.zeros(32, 6, device=device), torch.zeros(32, dtype=torch.long, device=device))
    return Data(samples, samples, (6,), classes=3)


Loop = Callable[..., tuple[Watched, Ear]]


@pytest.fixture
def loop(gpu: Gpu, monkeypatch: pytest.MonkeyPatch) -> Iterator[Loop]:
    """Runs the real loop by the clock of a simulated GPU; what comes after its last step is left out."""
    taps: list[Tap] = []
    clock = simulated(monkeypatch, gpu)
    monkeypatch.setattr(module, "clock_of", lambda device: clock)
    monkeypatch.setattr(module, "evaluate", lambda *_: done())
    monkeypatch.setattr(module, "audit", lambda *_: None)
    autocast = module.autocast  # of which there is none for "meta"
    monkeypatch.setattr(
        module, "autocast", lambda trial, device: autocast(trial, device) if device == CPU else nullcontext()
    )

    def tapped(*arguments: Any) -> Tap:
        taps.append(make_tap(*arguments))
        return taps[-1]

    monkeypatch.setattr(module, "make_tap", tapped)

    def run(trial: Trial, device: torch.device = META, data: torch.device = CPU) -> tuple[Watched, Ear]:
        monkeypatch.setattr(module, "load", lambda *_: samples_on(data))
        watched, ear = Watched(device), Ear()
        me = one_rank(trial, device=device, reporter=ear)
        with ExitStack() as stack:
            module.train(me, strategy_of(trial), Edges(ear, lambda: stack.enter_context(watched), stack.close))
        return watched, ear

    yield run
    for tap in taps:  # of a loop that did not come to its end
        tap.close()


@pytest.fixture
def made_up() -> Iterator[None]:
    """A group of two, without the other one."""
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
    yield
    leave_group()


def check(gpu: Gpu, watched: Watched, ear: Ear) -> list[Deferred]:
    """What is left to ask for, now that the loop is over: a step each."""
    left = [message for message in ear.heard if callable(message)]
    assert watched.waits == []
    assert gpu.synchronised == 0
    assert len(left) == STEPS
    return left


# Where gradients are sent as they come, ranks agree on an order after the first backward, and read it; torch's DDP does
# so, too, and compares values when it is made. PowerSGD compresses from the third step on, and draws there.
ON_META = [name for name, facts in STRATEGIES.items() if not (facts.buckets or facts.is_ddp)]
OPTIONS: dict[str, dict[str, Any]] = {
    "adam": {"optimizer": "adam"},
    "rounds": {"every": 2},
    "clipped": {"clip_norm": 1.0},
    "parameters": {"average": "parameters"},
}


@COLLECTIVES_OF_META
@pytest.mark.usefixtures("made_up")
@pytest.mark.parametrize("strategy", ON_META)
def test_of_a_device_without_memory_nothing_is_read(strategy: str, gpu: Gpu, loop: Loop) -> None:
    check(gpu, *loop(trial_of(strategy)))


@COLLECTIVES_OF_META
@pytest.mark.usefixtures("way", "made_up")
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_nor_with_any_option(options: dict[str, Any], gpu: Gpu, loop: Loop) -> None:
    check(gpu, *loop(trial_of("all_reduce", **options)))


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_on_the_cpu_nothing_is_read_either_and_every_step_is_told(strategy: str, gpu: Gpu, loop: Loop) -> None:
    left = check(gpu, *loop(trial_of(strategy, world_size=1, amp="fp16", clip_norm=1.0), CPU))
    messages = [message for ask in left for message in ask() or ()]
    assert [message.step for message in messages if isinstance(message, Step)] == list(range(STEPS))

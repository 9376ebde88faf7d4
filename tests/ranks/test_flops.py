"""The operations of a step are those that one counts by hand; counting leaves the model, and the CPU, alone."""

import math
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode
from torchvision import models as torchvision_models

from ddptui.config.trial import Trial
from ddptui.wire.messages import Ready
from tests.support.ears import Ear
from tests.support.worlds import one_rank, tiny_trial
from workers import train as loop
from workers.aggregate.none import NoAggregation
from workers.rank.process import Rank
from workers.training import flops
from workers.training.data import Data, Samples
from workers.training.flops import SampleWork, allows_tf32, count_batch, count_work
from workers.training.models import Layers, make_model, mlp

GPU = torch.device("cuda", 0)
CPU = torch.device("cpu")
N = 4  # samples in a batch


def total(model: nn.Module, *shape: int) -> int:
    counted = count_batch(model, (N, *shape))
    return counted.total


def rank(device: torch.device, **fields: Any) -> Rank:
    return one_rank(Trial(batch_size=N, **fields), device=device)


def data(*shape: int) -> Data:
    samples = Samples(torch.zeros(1, *shape), torch.zeros(1, dtype=torch.long))
    return Data(samples, samples, shape, classes=3)


@pytest.fixture
def capability(monkeypatch: pytest.MonkeyPatch) -> Callable[[tuple[int, int]], None]:
    def is_(version: tuple[int, int]) -> None:
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: version)

    monkeypatch.delenv(flops.TF32_OVERRIDE, raising=False)
    return is_


# Figures


def test_a_matrix_product_is_2mnk_and_its_backward_twice_that_but_for_the_inputs() -> None:
    width, depth, inputs, classes = 7, 2, 6, 3
    layers = [inputs * width, width * width, width * classes]  # multiplications for a sample
    forward = 2 * N * sum(layers)
    assert total(mlp((inputs,), width, depth, classes), inputs) == 3 * forward - 2 * N * layers[0]


def test_batchnorm_dropout_and_frozen_layers_are_counted_for_what_they_are() -> None:
    plain = total(mlp((6,), 7, 2, 3), 6)
    assert total(mlp((6,), 7, 2, 3, batch_norm=True), 6) == plain
    assert total(nn.Sequential(nn.Dropout(0.5), mlp((6,), 7, 2, 3)), 6) == plain
    frozen = mlp((6,), 7, 2, 3)
    next(frozen.parameters()).requires_grad_(False)  # the first layer's weights
    assert total(frozen, 6) == plain - 2 * N * 6 * 7


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize(("kind", "stride", "positions"), [(nn.Conv2d, 1, 4 * 4), (nn.ConvTranspose2d, 2, 6 * 6)])
def test_a_convolution_meets_all_its_weights_at_each_position(
    kind: type[nn.Conv2d], stride: int, positions: int, groups: int
) -> None:
    """Torch's own counter counts too much where there are groups."""
    layers = [kind(4, 8, 3, stride=stride, groups=groups), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    weights = 4 * 8 // groups * 3 * 3
    assert total(nn.Sequential(*layers), 4, 6, 6) == 2 * (2 * N * positions * weights)  # forward, gradient of weights


# What torchvision publishes of the forward, in 10^9 multiplications and additions as one; the first layer's weights,
# and the positions where it has them all. ResNet-50: 4.09, as in its documentation.
PUBLISHED = {"resnet50": (3 * 64 * 7 * 7, 112 * 112), "vit_b_16": (3 * 768 * 16 * 16, 14 * 14)}


@pytest.mark.parametrize("name", PUBLISHED)
def test_torchvisions_models_make_the_operations_that_it_publishes(name: str) -> None:
    published = next(iter(torchvision_models.get_model_weights(name))).meta["_ops"] * 1e9
    with torch.device("meta"):
        model = torchvision_models.get_model(name, weights=None)
    expected = 2 * N * (3 * published - math.prod(PUBLISHED[name]))
    assert total(model, 3, 224, 224) == pytest.approx(expected, rel=0.005)


def test_the_count_without_data_is_that_of_a_real_step() -> None:
    shape = (1, 28, 28)
    model = make_model(Trial(model="net"), shape, 10)
    with FlopCounterMode(display=False, custom_mapping=flops.CORRECTED) as counter:
        labels = torch.zeros(N, dtype=torch.long)
        nn.functional.cross_entropy(model(torch.randn(N, *shape)), labels, reduction="sum").backward()
    assert total(model, *shape) == counter.get_total_flops()


# The model, and what is around it


def test_the_model_and_the_random_numbers_stay_as_they_are() -> None:
    model = make_model(Trial(model="resnet18"), (3, 32, 32), 10)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    random = torch.get_rng_state()
    assert count_batch(nn.Sequential(model, nn.Dropout()), (N, 3, 32, 32))
    assert torch.equal(torch.get_rng_state(), random)
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    assert all(parameter.grad is None for parameter in model.parameters())


class Loud(nn.Linear):
    """Prints, warns, and decides by a value."""

    def forward(self, inputs: Tensor) -> Tensor:
        print("shape", inputs.shape)
        if inputs.sum() > 0:
            return super().forward(inputs)
        return super().forward(-inputs)


class Mistaken(nn.Linear):
    """Wants an argument that it does not get."""

    def forward(self, inputs: Tensor) -> Tensor:
        return super().forward(inputs, inputs)  # type: ignore[call-arg]


@pytest.mark.parametrize("kind", [Loud, Mistaken])
def test_a_model_that_does_not_run_without_data_is_not_counted(
    kind: type[nn.Module], capfd: pytest.CaptureFixture[str], recwarn: pytest.WarningsRecorder
) -> None:
    model = kind(3, 3)  # type: ignore[call-arg]
    assert count_work(rank(GPU), model, data(3)) == SampleWork()
    assert capfd.readouterr() == ("", "")
    assert not recwarn


# Precision


@pytest.fixture
def as_before() -> Iterator[None]:
    cudnn, matmul = torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32
    yield
    torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32 = cudnn, matmul


def test_by_default_convolutions_are_in_tf32_and_matrix_products_are_not(capability: Any) -> None:
    capability((8, 0))
    convolution = nn.Sequential(nn.Conv2d(1, 8, 3), nn.Flatten(), nn.Linear(8 * 16, 3))
    assert count_work(rank(GPU), convolution, data(1, 6, 6)).precision == "tf32"
    assert count_work(rank(GPU), nn.Linear(6, 3), data(6)).precision == "float32"
    mixed = nn.Sequential(nn.Conv2d(1, 1, 3), nn.Flatten(), nn.Linear(16, 64), nn.Linear(64, 3))
    assert count_work(rank(GPU), mixed, data(1, 6, 6)).precision == "float32", "most are matrix products"


@pytest.mark.usefixtures("as_before")
def test_it_is_what_torch_and_the_gpu_and_its_user_allow(capability: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    linear, convolution = nn.Linear(2, 2), nn.Conv2d(1, 1, 1)
    torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32 = False, True
    assert (allows_tf32(True), allows_tf32(False)) == (False, True)
    capability((9, 0))
    assert flops.precision(convolution, GPU, True) == "float32"
    assert flops.precision(linear, GPU, False) == "tf32"
    capability((7, 5))
    assert flops.precision(linear, GPU, False) == "float32"
    capability((9, 0))
    monkeypatch.setenv(flops.TF32_OVERRIDE, "0")
    assert flops.precision(linear, GPU, False) == "float32"


@pytest.mark.parametrize(
    ("dtype", "amp", "precision"),
    [
        (torch.float64, None, "float64"),
        (torch.bfloat16, None, "bf16"),
        (torch.float32, "fp16", "fp16"),
        (torch.float32, "bf16", "bf16"),
    ],
)
def test_it_is_the_parameters_type_or_autocasts(
    capability: Any, dtype: torch.dtype, amp: str | None, precision: str
) -> None:
    capability((9, 0))
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)  # as the batches have it
    try:
        assert count_work(rank(GPU, amp=amp), nn.Linear(6, 3), data(6)).precision == precision
    finally:
        torch.set_default_dtype(before)


# The loop


def test_the_loop_counts_the_bare_model_and_tells_it(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []

    def counted(me: Rank, model: nn.Module, data: Data) -> SampleWork:
        seen.append((type(model), data.shape))
        return SampleWork(12.5, "tf32")

    monkeypatch.setattr(loop, "count_work", counted)
    trial, ear = tiny_trial(), Ear()
    loop.train(one_rank(trial, reporter=ear), NoAggregation(trial))
    assert seen == [(Layers, (6,))]
    told = ear.heard[0]
    assert isinstance(told, Ready)
    assert (told.flops, told.precision, told.steps, told.nccl, told.gpus) == (12.5, "tf32", 4, None, ())


# The CPU


def test_on_the_cpu_nothing_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flops, "count_batch", None)  # calling it raises
    assert count_work(rank(CPU), nn.Linear(6, 3), data(6)) == SampleWork()
    with pytest.raises(TypeError):
        count_work(rank(GPU), nn.Linear(6, 3), data(6))


def test_hooks_of_the_users_see_nothing_of_it() -> None:
    model = mlp((6,), 7, 2, 3)
    plain, seen = total(model, 6), list[Any]()
    for module in model.modules():
        module.register_forward_pre_hook(lambda *arguments: seen.append(arguments))
        module.register_forward_hook(lambda *arguments, **keywords: seen.append(arguments), with_kwargs=True)
        module.register_full_backward_pre_hook(lambda *arguments: seen.append(arguments))
        module.register_full_backward_hook(lambda *arguments: seen.append(arguments))
    assert total(model, 6) == plain
    assert seen == []
    model(torch.zeros(1, 6, requires_grad=True)).sum().backward()
    assert seen, "the model has kept its hooks"

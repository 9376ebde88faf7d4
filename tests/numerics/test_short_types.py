"""One batch in a shorter type: what is computed in it, how far off the gradients are, and what is waited for."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ddptui.config.trial import Trial
from workers.training.models import make_model
from workers.training.optimizer import TYPES, autocast, make_scaler

CPU = torch.device("cpu")
UNIT = {"bf16": 2.0**-8, "fp16": 2.0**-11}  # the roundoff: half of the distance from 1 to the next number


@pytest.mark.parametrize("amp", TYPES)
def test_products_are_short_and_the_rest_is_not(amp: str) -> None:
    seen: dict[type[nn.Module], torch.dtype] = {}
    model = make_model(Trial(model="net"), (1, 28, 28), 10)
    for module in model.modules():
        module.register_forward_hook(lambda module, _, outputs: seen.update({type(module): outputs.dtype}))
    with autocast(Trial(amp=amp), CPU):
        loss = F.cross_entropy(model(torch.randn(3, 1, 28, 28)), torch.zeros(3, dtype=torch.long), reduction="sum")
    loss.backward()
    assert seen[nn.Conv2d] == seen[nn.Linear] == TYPES[amp]
    assert loss.dtype == torch.float32
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}
    assert {gradient_of(parameter).dtype for parameter in model.parameters()} == {torch.float32}


def gradient_of(parameter: nn.Parameter) -> Tensor:
    assert parameter.grad is not None
    return parameter.grad


def gradient(amp: str | None) -> Tensor:
    """All gradients of one batch in one vector."""
    torch.manual_seed(0)
    layers = [nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 10)]
    model = nn.Sequential(*layers)  # no ReLU: what is rounded to the other side of its kink is off by all of itself
    inputs, labels = torch.randn(256, 64), torch.arange(256) % 10
    trial = Trial(amp=amp)
    with autocast(trial, CPU):
        loss = F.cross_entropy(model(inputs), labels)
    scaler = make_scaler(trial, CPU)
    scaler.scale(loss).backward()
    vector = torch.cat([gradient_of(parameter).flatten() for parameter in model.parameters()])
    return vector / scaler.get_scale()


def off(amp: str | None) -> float:
    true = gradient(None)
    return ((gradient(amp) - true).norm() / true.norm()).item()


@pytest.mark.parametrize("amp", TYPES)
def test_gradients_are_off_by_the_types_rounding(amp: str) -> None:
    """Three layers: in each, inputs, weights and outputs are rounded on the way there, and gradients on the way back.
    Four roundings a layer, if none evens out another; and a tenth of one, or nothing would be rounded."""
    assert UNIT[amp] / 10 < off(amp) < 12 * UNIT[amp]


def test_without_amp_there_is_no_scale_and_nothing_is_short() -> None:
    assert not make_scaler(Trial(), CPU).is_enabled()
    assert not make_scaler(Trial(amp="bf16"), CPU).is_enabled()
    assert make_scaler(Trial(amp="fp16"), CPU).is_enabled()
    with autocast(Trial(), CPU):
        assert nn.Linear(2, 2)(torch.zeros(1, 2)).dtype == torch.float32

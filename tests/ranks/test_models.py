"""The models take what they want and give a score a class."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from ddptui.config.trial import Trial
from workers.training.models import compiled, input_shape, make_model, memory_format


def test_net_is_the_net_of_the_tutorials() -> None:
    model = make_model(Trial(model="net"), (1, 28, 28), 10).eval()
    assert sum(parameter.numel() for parameter in model.parameters()) == 21_840
    assert torch.allclose(model(torch.rand(3, 1, 28, 28)).exp().sum(1), torch.ones(3))


def test_the_width_and_depth_of_an_mlp_are_fields() -> None:
    model = make_model(Trial(model="mlp", width=7, depth=3), (2, 3), 5)
    shapes = [tuple(parameter.shape) for parameter in model.parameters() if parameter.dim() == 2]
    assert shapes == [(7, 6), (7, 7), (7, 7), (5, 7)]


def test_an_unknown_model_is_refused() -> None:
    with pytest.raises(ValueError, match="Unknown model resnet81"):
        make_model(Trial(model="resnet81"), (3, 32, 32), 10)


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A module of the user's own."""
    (tmp_path / "mine.py").write_text(
        "from torch import nn\ndef net(num_classes): return nn.Linear(3, num_classes)\nn = 1\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    yield
    sys.modules.pop("mine", None)


@pytest.mark.usefixtures("mine")
def test_a_model_of_ones_own_is_made_with_the_number_of_classes() -> None:
    trial = Trial(model="mine:net")
    assert input_shape(trial) is None
    assert make_model(trial, (3,), 7)(torch.zeros(2, 3)).shape == (2, 7)


@pytest.mark.usefixtures("mine")
@pytest.mark.parametrize(
    ("model", "error", "why"),
    [
        ("mine:nett", ValueError, "has no attribute 'nett'"),
        ("nobodys:net", ValueError, "No module named 'nobodys'"),
        ("mine:n", TypeError, "expected a function or a class, not int"),
        ("builtins:dict", TypeError, r"dict\(num_classes=7\) must return an nn.Module, but returned dict"),
        ("os:system", TypeError, r"system\(num_classes=7\): "),
    ],
)
def test_what_makes_no_model_says_so_in_one_line(model: str, error: type[Exception], why: str) -> None:
    with pytest.raises(error, match=f"model '{model}': .*{why}|model '{model}': {why}") as refusal:
        make_model(Trial(model=model), (3,), 7)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(("channels_last", "strides"), [(True, (250, 1, 50, 10)), (False, (250, 25, 5, 1))])
def test_weights_of_convolutions_get_their_layout(channels_last: bool, strides: tuple[int, ...]) -> None:
    trial = Trial(model="net", channels_last=channels_last)
    model = make_model(trial, (1, 28, 28), 10).to(memory_format=memory_format(trial))
    assert model.get_parameter("conv2.weight").stride() == strides
    assert model.get_parameter("fc1.weight").stride() == (320, 1)


def test_what_is_compiled_shares_the_parameters_and_nothing_else_is_wrapped() -> None:
    model = torch.nn.Linear(2, 2)
    network: Any = compiled(Trial(compile=True), model)
    assert compiled(Trial(), model) is model
    assert network is not model
    assert [id(parameter) for parameter in network.parameters()] == [id(parameter) for parameter in model.parameters()]


def test_linears_are_three_layers_of_nine_weights_and_no_bias() -> None:
    model = make_model(Trial(model="linears", dataset="random", classes=3), (3,), 3)
    assert [tuple(parameter.shape) for parameter in model.parameters()] == [(3, 3)] * 3

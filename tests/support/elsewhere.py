"""A model with a mistake, for `model = "tests.support.elsewhere:Net"`."""

import torch
from torch import Tensor, nn


class Net(nn.Module):
    """Adds a tensor that it makes on another device than its parameters' one."""

    def __init__(self, num_classes: int) -> None:
        super().__init__()
        self.layer = nn.Linear(64, num_classes)

    def forward(self, inputs: Tensor) -> Tensor:
        sums: Tensor = self.layer(inputs.flatten(1))
        return sums + torch.ones(self.layer.out_features, device="meta")

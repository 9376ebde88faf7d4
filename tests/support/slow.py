"""A model whose steps are so long that what a busy machine adds is little, for `model = "tests.support.slow:Net"`."""

import time

from torch import Tensor, nn

FORWARD_S = 0.1


class Net(nn.Module):
    """One layer for the digits; it sleeps before it computes, in training."""

    def __init__(self, num_classes: int) -> None:
        super().__init__()
        self.layer = nn.Linear(64, num_classes)

    def forward(self, images: Tensor) -> Tensor:
        if self.training:
            time.sleep(FORWARD_S)
        outputs: Tensor = self.layer(images.flatten(1))
        return outputs

"""A model of convolutions for `model = "tests.numerics.convolutions:make"`."""

from torch import nn


def make(num_classes: int) -> nn.Module:
    """Kernels of 3 by 3 and of 1 by 1, on images of 3 channels, 6 by 5."""
    return nn.Sequential(
        nn.Conv2d(3, 4, 3),
        nn.ReLU(),
        nn.Conv2d(4, 5, 1),
        nn.ReLU(),
        nn.Conv2d(5, 2, 3),
        nn.Flatten(),
        nn.Linear(4, num_classes),
    )

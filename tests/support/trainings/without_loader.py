"""Trainings whose calls of torch tell little, as they make their batches themselves. Argument: which one.

modules: a plain model, whose whole object is saved at the end. methods: a loader fetches the batches once, and the
model is used by a method. marks: no backward, no optimizer; it says what it does.
"""

import sys
import time

import torch
from torch import nn

from ddptui import phase, step

STEPS = 20


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Sequential(nn.Linear(8, 1)))

    def forward(self, inputs):
        time.sleep(0.003)
        return self.layers(inputs)

    def encode(self, inputs):
        outputs = self.layers(inputs)
        time.sleep(0.004)
        return outputs


def make_batch():
    time.sleep(0.005)
    return torch.randn(16, 4)


def train_model(path: str) -> None:
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.001)
    for _ in range(STEPS):
        loss = net(make_batch()).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    torch.save(net, path)
    print(torch.load(path, weights_only=False)(make_batch()).shape)


def train_by_methods() -> None:
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.001)
    kept = []

    def train(inputs) -> None:
        optimizer.zero_grad()
        net.encode(inputs).square().mean().backward()
        optimizer.step()

    for inputs in torch.utils.data.DataLoader(torch.randn(4 * 16, 4), batch_size=16):
        kept.append(inputs)
        train(inputs)
    for number in range(STEPS):
        train(kept[number % 4])


def train_by_hand() -> None:
    weight = torch.zeros(4)
    for _ in range(STEPS):
        with phase("data"):
            inputs = make_batch()
        with phase("forward"):
            time.sleep(0.003)
            errors = inputs @ weight - inputs.sum(1)
        with phase("backward"):
            time.sleep(0.002)
            gradient = inputs.T @ errors / len(inputs)
        with phase("optimizer"):
            time.sleep(0.001)
            weight -= 0.1 * gradient
        step(loss=errors.square().mean(), samples=len(inputs))


{"marks": train_by_hand, "methods": train_by_methods, "modules": train_model}[sys.argv[1]](*sys.argv[2:])

"""The optimizer, and steps in a shorter type: matrix products in bfloat16 or float16 where that is safe.

Parameters, their gradients and the loss stay in float32.
"""

import torch
from torch import nn

from ddptui.config.trial import Trial

TYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}


def make_optimizer(trial: Trial, model: nn.Module) -> torch.optim.Optimizer:
    """The trial's optimizer: Adam or SGD."""
    # A fused one skips a step whose gradients have overflowed by itself. For any other, the scaler asks the device in
    # every step whether to call it, and the loop waits for the answer.
    fused = trial.amp == "fp16" or None  # None: as torch sees fit
    if trial.optimizer == "adam":
        return torch.optim.Adam(model.parameters(), lr=trial.lr, weight_decay=trial.weight_decay, fused=fused)
    sgd = torch.optim.SGD(
        model.parameters(), lr=trial.lr, momentum=trial.momentum, weight_decay=trial.weight_decay, fused=fused
    )
    if fused:
        begin_momentum(sgd)
    return sgd


def begin_momentum(optimizer: torch.optim.SGD) -> None:
    """Set momentum to zero, which is what the first step would start from."""
    # A fused SGD allocates it uninitialized. When its first step overflows and is skipped, the second would take that
    # memory for momentum.
    for group in optimizer.param_groups:
        if group["momentum"]:
            for parameter in group["params"]:
                optimizer.state[parameter]["momentum_buffer"] = torch.zeros_like(parameter)


def autocast(trial: Trial, device: torch.device) -> torch.autocast:
    """The context for the forward: matrix products and convolutions run in the trial's `amp` type, and so do their
    backwards. Sums over many numbers stay in float32, the loss too."""
    return torch.autocast(device.type, TYPES.get(trial.amp or ""), enabled=trial.amp is not None)


def make_scaler(trial: Trial, device: torch.device) -> torch.amp.GradScaler:
    """Multiplies the loss, and divides the gradients again, so that float16 keeps small gradients: it ends at 6e-8.
    Without float16 it does nothing, as bfloat16 has the range of float32.

    When a gradient overflows, that step is skipped, and the next ones have half the scale. Gradients are averaged
    before the check. So an overflow on one rank is in everyone's mean: all ranks skip, and keep one scale. (Where
    parameters are averaged, each rank steps, skips and scales by itself.) The scale begins too large, and the first
    steps overflow: let them be warm-up.
    """
    return torch.amp.GradScaler(device.type, enabled=trial.amp == "fp16")


def clip(trial: Trial, model: nn.Module) -> None:
    """Scale the gradients, as one vector, down to the length `clip_norm` if they are longer."""
    if trial.clip_norm is not None:  # averaged gradients are clipped alike on all ranks
        nn.utils.clip_grad_norm_(model.parameters(), trial.clip_norm)


def optimize(scaler: torch.amp.GradScaler, optimizer: torch.optim.Optimizer, trial: Trial, model: nn.Module) -> None:
    """Make the optimizer's step, and clear the gradients."""
    scaler.unscale_(optimizer)  # clipping needs their true length
    clip(trial, model)
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()

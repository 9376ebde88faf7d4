"""The optimizer, and mixed precision: matrix products in bfloat16 or float16 where that is safe.

Parameters, their gradients and the loss stay in float32.
"""

import torch
from torch import nn

from ddptui.config.trial import Trial

TYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}


def make_optimizer(trial: Trial, model: nn.Module) -> torch.optim.Optimizer:
    """The trial's optimizer: Adam or SGD."""
    # A fused optimizer itself skips a step whose gradients have overflowed. For any other, the scaler reads from the
    # device in every step whether to call it, and the loop waits for that.
    fused = trial.amp == "fp16" or None  # None: torch decides
    if trial.optimizer == "adam":
        return torch.optim.Adam(model.parameters(), lr=trial.lr, weight_decay=trial.weight_decay, fused=fused)
    sgd = torch.optim.SGD(
        model.parameters(), lr=trial.lr, momentum=trial.momentum, weight_decay=trial.weight_decay, fused=fused
    )
    if fused:
        begin_momentum(sgd)
    return sgd


def begin_momentum(optimizer: torch.optim.SGD) -> None:
    """Initialize momentum with zeros, as the first step would."""
    # A fused SGD allocates momentum uninitialized. If its first step overflows and is skipped, the second step would
    # use that memory as momentum.
    for group in optimizer.param_groups:
        if group["momentum"]:
            for parameter in group["params"]:
                optimizer.state[parameter]["momentum_buffer"] = torch.zeros_like(parameter)


def autocast(trial: Trial, device: torch.device) -> torch.autocast:
    """The context for the forward: matrix products and convolutions, and their backwards, run in the trial's `amp`
    dtype. Sums over many numbers, including the loss, stay in float32."""
    return torch.autocast(device.type, TYPES.get(trial.amp or ""), enabled=trial.amp is not None)


def make_scaler(trial: Trial, device: torch.device) -> torch.amp.GradScaler:
    """A scaler that multiplies the loss, and divides the gradients again, so that float16 does not lose gradients below
    6e-8. It does nothing without float16: bfloat16 has the range of float32.

    If a gradient overflows, the scaler skips the step and halves the scale. Gradients are averaged before the check, so
    an overflow on one rank is in the mean of all ranks: all skip the step, and keep the same scale. (If parameters are
    averaged, each rank steps, skips and scales by itself.) The initial scale is too large, so the first steps overflow:
    include them in the warm-up.
    """
    return torch.amp.GradScaler(device.type, enabled=trial.amp == "fp16")


def clip(trial: Trial, model: nn.Module) -> None:
    """If the gradients, as one vector, are longer than `clip_norm`, scale them down to that length."""
    if trial.clip_norm is not None:  # all ranks clip averaged gradients equally
        nn.utils.clip_grad_norm_(model.parameters(), trial.clip_norm)


def optimize(scaler: torch.amp.GradScaler, optimizer: torch.optim.Optimizer, trial: Trial, model: nn.Module) -> None:
    """Make the optimizer's step, and clear the gradients."""
    scaler.unscale_(optimizer)  # clipping needs the true length
    clip(trial, model)
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()

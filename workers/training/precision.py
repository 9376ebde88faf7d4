"""Steps in a shorter type: products where that is safe. Parameters, their gradients and the loss stay in float32."""

import torch
from torch import nn

from ddptui.config.trial import Trial

TYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}


def autocast(trial: Trial, device: torch.device) -> torch.autocast:
    """Around the forward: matrix products and convolutions in the trial's `amp` type. Backward follows each of them.

    What adds up many numbers stays in float32, the loss too.
    """
    return torch.autocast(device.type, TYPES.get(trial.amp or ""), enabled=trial.amp is not None)


def make_scaler(trial: Trial, device: torch.device) -> torch.amp.GradScaler:
    """What multiplies the loss, so that float16, which ends at 6e-8, does not lose the small gradients; and divides the
    gradients again. Without float16 it does nothing: bfloat16 reaches as far as float32.

    When a gradient overflows, that step is skipped, and the next ones have half the scale. The gradients are averaged
    before that is looked for: an overflow on one rank is in the mean of all, so all of them skip, and keep one scale.
    (Where parameters are averaged each rank steps, skips and scales by itself.) The first steps overflow, since the
    scale begins too large: let them be warm-up.
    """
    return torch.amp.GradScaler(device.type, enabled=trial.amp == "fp16")


def clip(trial: Trial, model: nn.Module) -> None:
    """Shorten the gradients, all of them as one vector, to `clip_norm` if they are longer. Of gradients that have been
    averaged, all ranks shorten the same. The host does not wait for the length."""
    if trial.clip_norm is not None:
        nn.utils.clip_grad_norm_(model.parameters(), trial.clip_norm)


def begin_momentum(optimizer: torch.optim.SGD) -> None:
    """Momentum from zero, which is what the first step would make of it. A fused SGD makes it by itself of memory that
    nobody has filled, and where that step overflows and is skipped, the next one takes it for momentum."""
    for group in optimizer.param_groups:
        if group["momentum"]:
            for parameter in group["params"]:
                optimizer.state[parameter]["momentum_buffer"] = torch.zeros_like(parameter)


def optimize(scaler: torch.amp.GradScaler, optimizer: torch.optim.Optimizer, trial: Trial, model: nn.Module) -> None:
    """The optimizer's step with the gradients that are there, of their true lengths: clipping is about those."""
    scaler.unscale_(optimizer)
    clip(trial, model)
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()

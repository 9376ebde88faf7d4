"""One all_reduce a step: copy all gradients into one long vector, sum that, divide, copy them back.

The latency of a collective is paid once; the price is two copies of the gradients.
"""

import torch
import torch.distributed as dist
from torch import nn

from workers.aggregate.initial import broadcast_from_rank_0


class Flat:
    def prepare(self, model: nn.Module) -> nn.Module:
        broadcast_from_rank_0(model)
        return model

    def average(self, model: nn.Module) -> None:
        gradients = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
        flat = torch.cat([gradient.flatten() for gradient in gradients])
        dist.all_reduce(flat, op=dist.ReduceOp.SUM)
        flat /= dist.get_world_size()
        for gradient, mean in zip(gradients, flat.split([gradient.numel() for gradient in gradients]), strict=True):
            gradient.copy_(mean.view_as(gradient))

"""torch DDP, its buckets sent as float16: half the bytes, and every number is rounded at its eleventh bit.

Each rank's gradient is rounded, divided by the number of ranks, and summed, all in float16. What is below 3e-8 after
the division becomes zero; from 65,520 on, a gradient becomes infinite.
"""

from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import fp16_compress_hook

from workers.aggregate.ddp import DDP


class DDPFloat16(DDP):
    def prepare(self, model: nn.Module) -> nn.Module:
        super().prepare(model)
        self.network.register_comm_hook(None, fp16_compress_hook)
        return self.network

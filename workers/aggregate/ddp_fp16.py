"""torch DDP, its buckets sent as float16: half the bytes, and an eleventh bit is where each number is rounded.

Rounded are each rank's gradient and every sum on its way. Below 6e-8 a gradient becomes zero, above 65,504 infinite.
"""

from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import fp16_compress_hook

from workers.aggregate.ddp import DDP


class DDPFloat16(DDP):
    def prepare(self, model: nn.Module) -> nn.Module:
        super().prepare(model)
        self.network.register_comm_hook(None, fp16_compress_hook)
        return self.network

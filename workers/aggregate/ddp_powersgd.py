"""torch DDP where each weight's gradient is sent as the product of two thin matrices of rank `powersgd_rank`.

What the approximation leaves out is kept, and added to the next step's gradient: nothing is lost, but much comes late.
Sent whole are biases, matrices that would not shrink by half, and everything in the first two steps, before which DDP's
buckets are not final. (Vogels, Karimireddy and Jaggi, "PowerSGD: practical low-rank gradient compression for
distributed optimization", 2019.)

All gradients are in one bucket. torch's hook sends three tensors a bucket, each when the one before has come back. With
two buckets in flight, gloo's threads send them in another order on each rank, and the ranks hang or abort.

    calls    3, and 1 for the buffers
    sends    2 (n - 1) / n of (a + b) × powersgd_rank numbers for a matrix of a × b
    latency  3 × 2 (n - 1) messages, after backward
"""

from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook import PowerSGDState, powerSGD_hook

from workers.aggregate.ddp import DDP

WHOLE_STEPS = 2  # the first step with approximations is number 2
MB = 2**20  # bytes


class DDPPowerSGD(DDP):
    """torch DDP with its PowerSGD communication hook."""

    def prepare(self, model: nn.Module) -> nn.Module:
        super().prepare(model)
        self.state = PowerSGDState(
            process_group=None,
            matrix_approximation_rank=self.trial.powersgd_rank,
            start_powerSGD_iter=WHOLE_STEPS,
            random_seed=self.trial.seed,
        )
        self.network.register_comm_hook(self.state, powerSGD_hook)
        return self.network

    def bucket_mb(self, model: nn.Module) -> float:
        """More than the whole model."""
        return 1 + sum(parameter.numel() * parameter.element_size() for parameter in model.parameters()) / MB

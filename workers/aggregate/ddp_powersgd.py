"""torch DDP that sends each weight's gradient as the product of two thin matrices of rank `powersgd_rank`.

Each rank keeps the error of the approximation and adds it to the next step's gradient: nothing is lost, but much comes
late. Some gradients are sent uncompressed: biases, matrices that would not shrink by half, and everything in the first
two steps, since DDP's buckets are not final before. (Vogels, Karimireddy and Jaggi, "PowerSGD: practical low-rank
gradient compression for distributed optimization", 2019.)

All gradients are in one bucket. torch's hook sends three tensors per bucket, each after the previous one has come back.
With two buckets in flight, gloo's threads would send them in a different order on each rank, and the ranks would hang
or abort.

    calls    3, and 1 for the buffers
    sends    2 (n - 1) / n of (a + b) × powersgd_rank numbers for a matrix of a × b
    latency  3 × 2 (n - 1) messages, after backward
"""

from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook import PowerSGDState, powerSGD_hook

from workers.aggregate.ddp import DDP

WHOLE_STEPS = 2  # steps 0 and 1 send uncompressed gradients
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
        """A size in MB larger than the whole model, so that there is one bucket."""
        return 1 + sum(parameter.numel() * parameter.element_size() for parameter in model.parameters()) / MB

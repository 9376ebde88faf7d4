"""torch DDP, each weight's gradient sent as the product of two thin matrices of rank `powersgd_rank`.

A matrix of n × m then costs (n + m) × rank numbers. What the approximation leaves out is kept, and added to the next
step's gradient: nothing is lost, much comes late. Sent whole are biases, matrices of which that would not save half,
and everything in the first two steps, before which DDP's buckets are not final. (Vogels, Karimireddy and Jaggi,
"PowerSGD: practical low-rank gradient compression for distributed optimization", 2019.)

All gradients are in one bucket. torch's hook sends three tensors a bucket, each when the one before has come back; with
two buckets under way gloo's threads send them in whatever order they come, on each rank another one, and the ranks hang
or abort.
"""

from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook import PowerSGDState, powerSGD_hook

from workers.aggregate.ddp import DDP

WHOLE_STEPS = 2
MB = 2**20  # bytes


class DDPPowerSGD(DDP):
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

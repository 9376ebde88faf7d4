"""Makes the message that a rank sends before its first step."""

import time

from torch import nn

from ddptui.wire.messages import Ready
from workers.rank.device import gpus_of, nccl_of
from workers.rank.process import Rank
from workers.training.flops import Work


def ready(me: Rank, steps: int | None, batches: int, model: nn.Module, work: Work) -> Ready:
    """The rank's Ready. steps: how many it makes; None if unknown. batches: in an epoch. model: without wrappers."""
    return Ready(
        rank=me.rank,
        at_ns=time.monotonic_ns(),
        steps=steps,
        batches=batches,
        parameters=sum(parameter.numel() for parameter in model.parameters()),
        start_ns=me.start_ns,
        flops=work.flops,
        precision=work.precision,
        nccl=nccl_of(me.device),
        gpus=gpus_of(me.device, me.trial.gpus_per_rank),
    )

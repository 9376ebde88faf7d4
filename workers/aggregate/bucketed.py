"""DDP by hand: average while backward still runs.

Backward computes the gradients from the last layer to the first. They are put into buckets in the order in which they
arrive; as soon as a bucket is full, its all_reduce starts, and backward goes on meanwhile. At the end we wait for what
is still under way. The first step shows the order; until then there is only one bucket, sent at the end.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
import torch.distributed as dist
from torch import Tensor, nn

from workers.aggregate.buffer import move_into_buffer
from workers.aggregate.strategy import Strategy

MB = 2**20  # bytes, as torch DDP counts them
BUCKET_MB = 25.0  # torch DDP's


class Bucket:
    """Gradients that are sent together. They are views of one buffer."""

    def __init__(self, parameters: list[nn.Parameter], divisor: int) -> None:
        self.buffer = move_into_buffer([gradient_of(parameter) for parameter in parameters], divisor=divisor)
        self.views = {parameter: gradient_of(parameter) for parameter in parameters}
        self.divisor = divisor
        self.missing = set(parameters)  # of this backward
        self.work: dist.Work | None = None  # the all_reduce under way

    def put(self, parameter: nn.Parameter) -> None:
        """Divide a gradient that has arrived into its place, and let that be the gradient from now on."""
        view = self.views[parameter]
        torch.div(gradient_of(parameter), self.divisor, out=view)
        parameter.grad = view
        self.missing.discard(parameter)


class Bucketed(Strategy):
    def prepare(self, model: nn.Module) -> nn.Module:
        self.parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
        self.arrived: list[nn.Parameter] = []  # the order, in the first backward
        self.buckets: list[Bucket] = []
        self.bucket_of: dict[nn.Parameter, Bucket] = {}
        self.paused = False
        for parameter in self.parameters:
            parameter.register_post_accumulate_grad_hook(self.arrive)
        return super().prepare(model)

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        self.paused = True
        try:
            yield
        finally:
            self.paused = False

    def arrive(self, parameter: Tensor) -> None:
        """Backward has just finished this parameter's gradient."""
        assert isinstance(parameter, nn.Parameter)
        if self.paused:
            return
        if not self.buckets:
            self.arrived.append(parameter)
            return
        if parameter not in self.bucket_of:
            raise RuntimeError("a parameter has a gradient that had none in the first step: it is in no bucket")
        self.bucket_of[parameter].put(parameter)
        # Strictly in order, since all ranks must send the same bucket at a time: a full one waits for those before it.
        for bucket in self.buckets:
            if bucket.missing:
                break
            self.send(bucket)

    def send(self, bucket: Bucket) -> None:
        if bucket.work is None:
            bucket.work = dist.all_reduce(bucket.buffer, op=self.op, async_op=True)

    def average(self, tensors: list[Tensor]) -> None:
        """Wait for the buckets that are under way, and send those that wait for a gradient without it. (The tensors are
        the gradients, which lie in the buckets already.)"""
        if not self.buckets:
            self.fill_buckets()
        for bucket in self.buckets:
            for parameter in bucket.missing:  # unused here, but perhaps not on the other ranks
                parameter.grad = bucket.views[parameter].zero_()
            self.send(bucket)
        for bucket in self.buckets:
            assert bucket.work is not None
            bucket.work.wait()
            bucket.work, bucket.missing = None, set(bucket.views)

    def fill_buckets(self) -> None:
        """Lay the gradients of the first backward out as they have arrived on rank 0."""
        size = (self.trial.bucket_mb or BUCKET_MB) * MB
        self.buckets = [Bucket(parameters, self.divisor) for parameters in fill_by_size(self.order_of_rank_0(), size)]
        self.bucket_of = {parameter: bucket for bucket in self.buckets for parameter in bucket.views}
        for bucket in self.buckets:
            bucket.missing = set()

    def order_of_rank_0(self) -> list[nn.Parameter]:
        number = {parameter: index for index, parameter in enumerate(self.parameters)}
        order = torch.tensor([number[parameter] for parameter in self.arrived], device=self.parameters[0].device)
        dist.broadcast(order, src=0)
        return [self.parameters[index] for index in order.tolist()]


def fill_by_size(parameters: list[nn.Parameter], size: float) -> list[list[nn.Parameter]]:
    """Cut the order into buckets: a new one begins when the last holds `size` bytes, and where the dtype changes."""
    buckets: list[list[nn.Parameter]] = []
    filled = 0
    for parameter in parameters:
        if not buckets or filled >= size or parameter.dtype != buckets[-1][0].dtype:
            buckets.append([])
            filled = 0
        buckets[-1].append(parameter)
        filled += parameter.numel() * parameter.element_size()
    return buckets


def gradient_of(parameter: Tensor) -> Tensor:
    assert parameter.grad is not None
    return parameter.grad

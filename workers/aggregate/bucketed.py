"""DDP by hand: average the gradients while backward still runs.

Backward computes the gradients from the last layer to the first. They go into buckets in the order in which they
arrive. As soon as a bucket is full, its all_reduce starts, and backward continues meanwhile. At the end we wait for the
all_reduces still in flight. The first step reveals the order of arrival; it has no buckets yet, so it sends all
gradients at its end.

    calls    1 per bucket
    sends    2 (n - 1) / n × S
    latency  hidden behind backward, except for the last bucket's 2 (n - 1) messages
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
import torch.distributed as dist
from torch import Tensor, nn

from workers.aggregate.buffer import move_into_buffer
from workers.aggregate.strategy import Strategy

MB = 2**20  # bytes, as torch DDP counts them
BUCKET_MB = 25.0  # torch DDP's default


class Bucket:
    """Gradients that are sent together; each is a view of one buffer."""

    def __init__(self, parameters: list[nn.Parameter], divisor: int) -> None:
        self.buffer = move_into_buffer([gradient_of(parameter) for parameter in parameters], divisor=divisor)
        self.views = {parameter: gradient_of(parameter) for parameter in parameters}
        self.divisor = divisor
        self.missing = set(parameters)  # those whose gradient has not arrived in this backward
        self.work: dist.Work | None = None  # the all_reduce in flight

    def put(self, parameter: nn.Parameter) -> None:
        """Write a gradient that has arrived, divided by the divisor, into the buffer; `grad` becomes that view."""
        view = self.views[parameter]
        torch.div(gradient_of(parameter), self.divisor, out=view)
        parameter.grad = view
        self.missing.discard(parameter)


class Bucketed(Strategy):
    """One all_reduce per bucket of gradients, while backward continues."""

    def prepare(self, model: nn.Module) -> nn.Module:
        self.parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
        self.arrived: list[nn.Parameter] = []  # parameters in the order of their gradients in the first backward
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
        """Backward has just finished this gradient. Raises RuntimeError if the first step did not have it."""
        assert isinstance(parameter, nn.Parameter)
        if self.paused:
            return
        if not self.buckets:
            self.arrived.append(parameter)
            return
        if parameter not in self.bucket_of:
            raise RuntimeError("a parameter without a gradient in the first step has one now, so no bucket contains it")
        self.bucket_of[parameter].put(parameter)
        # Strictly in order, since all ranks must send the same bucket: a full bucket waits for those before it.
        for bucket in self.buckets:
            if bucket.missing:
                break
            self.send(bucket)

    def send(self, bucket: Bucket) -> None:
        """Start the bucket's all_reduce, unless it is already in flight."""
        if bucket.work is None:
            bucket.work = dist.all_reduce(bucket.buffer, op=self.op, async_op=True)

    def average(self, tensors: list[Tensor]) -> None:
        """Send the buckets that lack a gradient, then wait for all. The tensors already are views of the buckets."""
        if not self.buckets:
            self.make_buckets()
        for bucket in self.buckets:
            for parameter in bucket.missing:  # this rank did not use it, but others may have
                parameter.grad = bucket.views[parameter].zero_()
            self.send(bucket)
        for bucket in self.buckets:
            assert bucket.work is not None
            bucket.work.wait()
            bucket.work, bucket.missing = None, set(bucket.views)

    def make_buckets(self) -> None:
        """Move the first backward's gradients into buckets, in the order in which they arrived on rank 0."""
        number = {parameter: index for index, parameter in enumerate(self.parameters)}
        order = torch.tensor([number[parameter] for parameter in self.arrived], device=self.parameters[0].device)
        dist.broadcast(order, src=0)  # all ranks need the same buckets
        in_order = [self.parameters[index] for index in order.tolist()]
        size = (self.trial.bucket_mb or BUCKET_MB) * MB
        self.buckets = [Bucket(parameters, self.divisor) for parameters in split_by_size(in_order, size)]
        self.bucket_of = {parameter: bucket for bucket in self.buckets for parameter in bucket.views}
        for bucket in self.buckets:
            bucket.missing = set()  # this backward is over


def split_by_size(parameters: list[nn.Parameter], size: float) -> list[list[nn.Parameter]]:
    """Split the parameters, in order, into buckets. A new bucket begins after `size` bytes and at a change of dtype."""
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
    """The parameter's gradient, which must exist."""
    assert parameter.grad is not None
    return parameter.grad

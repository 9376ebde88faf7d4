"""The primitives of torch.distributed, each as one would call it. primitive.py defines their interface."""

from workers.primitives import operations
from workers.primitives.primitive import Primitive

PRIMITIVES: dict[str, type[Primitive]] = {
    "send_recv": operations.SendRecv,
    "isend_irecv": operations.IsendIrecv,
    "broadcast": operations.Broadcast,
    "reduce": operations.Reduce,
    "all_reduce": operations.AllReduce,
    "gather": operations.Gather,
    "all_gather": operations.AllGather,
    "scatter": operations.Scatter,
    "reduce_scatter": operations.ReduceScatter,
    "all_to_all": operations.AllToAll,
    "barrier": operations.Barrier,
    "local_sum": operations.LocalSum,
}

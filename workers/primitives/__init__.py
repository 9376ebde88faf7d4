"""The primitives of torch.distributed, each as one would call it. primitive.py defines their interface."""

from workers.primitives import collectives, point_to_point
from workers.primitives.primitive import Primitive

PRIMITIVES: dict[str, type[Primitive]] = {
    "send_recv": point_to_point.SendRecv,
    "isend_irecv": point_to_point.IsendIrecv,
    "broadcast": collectives.Broadcast,
    "reduce": collectives.Reduce,
    "all_reduce": collectives.AllReduce,
    "gather": collectives.Gather,
    "all_gather": collectives.AllGather,
    "scatter": collectives.Scatter,
    "reduce_scatter": collectives.ReduceScatter,
    "all_to_all": collectives.AllToAll,
    "barrier": collectives.Barrier,
    "local_sum": collectives.LocalSum,
}

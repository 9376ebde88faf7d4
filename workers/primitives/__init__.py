"""The primitives of torch.distributed, each as one calls it. What each must define is in primitive.py."""

from workers.primitives.all_ranks import AllGather, AllReduce, AllToAll, Barrier, LocalSum, ReduceScatter
from workers.primitives.point_to_point import IsendIrecv, SendRecv
from workers.primitives.primitive import Primitive
from workers.primitives.rooted import Broadcast, Gather, Reduce, Scatter

PRIMITIVES: dict[str, type[Primitive]] = {
    "send_recv": SendRecv,
    "isend_irecv": IsendIrecv,
    "broadcast": Broadcast,
    "reduce": Reduce,
    "all_reduce": AllReduce,
    "gather": Gather,
    "all_gather": AllGather,
    "scatter": Scatter,
    "reduce_scatter": ReduceScatter,
    "all_to_all": AllToAll,
    "barrier": Barrier,
    "local_sum": LocalSum,
}

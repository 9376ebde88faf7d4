"""What the console knows of each primitive, and which fields of a trial go with primitives.

How each one is called is in workers/primitives/."""

from collections.abc import Callable
from typing import Literal, NamedTuple

ReduceOpName = Literal["sum", "product", "max", "min", "avg"]
REDUCE_OPS: tuple[ReduceOpName, ...] = ("sum", "product", "max", "min", "avg")
Factor = Callable[[int], float]


def _all_of_it(ranks: int) -> float:
    return 1.0


def _but_ones_own(ranks: int) -> float:
    return (ranks - 1) / ranks


def _there_and_back(ranks: int) -> float:
    return 2 * (ranks - 1) / ranks


class PrimitiveFacts(NamedTuple):
    """moves     what it does, in a line
    factor    bus bandwidth over algorithm bandwidth, by the number of ranks (nccl-tests, doc/PERFORMANCE.md)
    reduces   takes a reduction operator
    rooted    one rank gives to all, or gets from all
    in_parts  its bytes are those of all ranks' parts together, again as in nccl-tests: each rank gives or gets one part
    has_bytes something moves, so that there are sizes; shown: it can be looked at
    """

    moves: str
    factor: Factor = _all_of_it
    reduces: bool = False
    rooted: bool = False
    in_parts: bool = False
    has_bytes: bool = True
    shown: bool = True


OPERATIONS: dict[str, PrimitiveFacts] = {
    "send_recv": PrimitiveFacts("one rank sends, one receives; both wait until it is done"),
    "isend_irecv": PrimitiveFacts("every rank sends to its right and receives from its left, at once"),
    "broadcast": PrimitiveFacts("the root's tensor to all", rooted=True),
    "reduce": PrimitiveFacts("all tensors as one to the root", reduces=True, rooted=True),
    "all_reduce": PrimitiveFacts("all tensors as one to all", _there_and_back, reduces=True),
    "gather": PrimitiveFacts("everybody's part to the root", _but_ones_own, rooted=True, in_parts=True),
    "all_gather": PrimitiveFacts("everybody's part to all", _but_ones_own, in_parts=True),
    "scatter": PrimitiveFacts("of the root's parts, one to each", _but_ones_own, rooted=True, in_parts=True),
    "reduce_scatter": PrimitiveFacts("all tensors as one, of which each rank gets a part", _but_ones_own, reduces=True,
                            in_parts=True),
    "all_to_all": PrimitiveFacts("of everybody's parts, one to each", _but_ones_own, in_parts=True),
    "barrier": PrimitiveFacts("nothing moves: nobody goes on before all have come", has_bytes=False),
    "local_sum": PrimitiveFacts("a rank adds one tensor to another, alone: no wire", shown=False),
}  # fmt: skip
# Strategies that are made of primitives: what their mean of one tensor consists of.
COMPOSITES: dict[str, str] = {
    "all_reduce": "all_reduce, then divide",
    "reduce_broadcast": "reduce + broadcast",
    "gather_scatter": "gather + scatter",
    "all_gather": "all_gather, then add up",
    "reduce_scatter_all_gather": "reduce_scatter + all_gather",
    "ring": "ring by hand",
}


def primitive_facts(operation: str, *, composite: bool = False) -> PrimitiveFacts:
    """Of a composite: those of what it stands for, an all_reduce."""
    return OPERATIONS["all_reduce" if composite else operation]


def primitive_title(operation: str, *, composite: bool = False) -> str:
    """As it is shown: torch.distributed's name, or what a composite is made of."""
    return COMPOSITES[operation] if composite else operation.replace("_", "/", 1) if "recv" in operation else operation


OF_TRAINING = (
    "strategy", "average", "every", "reduction", "bucket_mb", "gradient_as_bucket_view", "static_graph",
    "powersgd_rank", "sync_batchnorm", "mistake", "hash_every", "model", "width", "depth", "batch_norm", "dataset",
    "data_dir", "download", "shape", "samples", "classes", "batch_size", "epochs", "steps", "optimizer", "lr",
    "momentum", "weight_decay", "save", "instruments", "fault",
    "gpus_per_rank", "amp", "channels_last", "compile", "clip_norm", "num_workers", "pin_memory",
)  # fmt: skip
OF_MEASURING = ("composites", "min_bytes", "max_bytes", "step_factor", "iterations", "cell_s", "cadence")
OF_PRIMITIVES = ("operations", "reduce_ops", "root", *OF_MEASURING)


def meaningless_with_primitives(primitives: str | None) -> dict[str, str]:
    """The fields that mean nothing to a trial that trains (None), shows primitives, or measures them; and why."""
    if primitives is None:
        return dict.fromkeys(OF_PRIMITIVES, "training: it is for primitives")
    fields = dict.fromkeys(OF_TRAINING, f"primitives = {primitives!r}: the ranks train nothing")
    if primitives == "see":
        why = "primitives = 'see': each one is called once, with a small tensor"
        fields |= dict.fromkeys((*OF_MEASURING, "warmup_steps"), why)
    return fields


def problem(
    operations: tuple[str, ...],
    composites: tuple[str, ...],
    *,
    root: int,
    world_size: int,
    sizes: tuple[int, int],
    shows: bool,
) -> tuple[str, str] | None:
    """The field that cannot be, and why."""
    for key, named in (("operations", operations), ("composites", composites)):
        if len(set(named)) < len(named):
            return key, "names one twice"
    if shows and "local_sum" in operations:
        return "operations", "local_sum sends nothing: there is nothing to be seen"
    if world_size < 2:
        return "world_size", "primitives are between ranks: two at least"
    if root >= world_size:
        return "root", f"rank {root} of {world_size}: ranks count from 0"
    if sizes[0] > sizes[1]:
        return "min_bytes", f"{sizes[0]} is more than max_bytes = {sizes[1]}"
    return None


def operations_tried(named: tuple[str, ...], *, shown: bool) -> list[str]:
    """The operations that are meant: as named, or else all, in their order."""
    return list(named) or [name for name, facts in OPERATIONS.items() if facts.shown or not shown]


def message_sizes(min_bytes: int, max_bytes: int, step_factor: int) -> list[int]:
    """From the smallest to the largest, each `step_factor` times the one before: as nccl-tests' -b, -e and -f."""
    found = [min_bytes]
    while found[-1] * step_factor <= max_bytes:
        found.append(found[-1] * step_factor)
    return found

"""Plans which primitives are called, in which order. Each rank computes the plans itself, and all get the same."""

from collections.abc import Sequence
from typing import NamedTuple

import torch

from ddptui.config.catalog import OPERATIONS, REDUCE_OPS, ReduceOpName, message_sizes, operations_tried
from ddptui.config.trial import Trial
from workers.aggregate import strategy_class
from workers.primitives import PRIMITIVES
from workers.primitives.collectives import Composite
from workers.primitives.pipelined import Pipelined, calls_in_flight
from workers.primitives.primitive import Primitive, Setting
from workers.rank.process import Rank

SHOWN_ELEMENTS = 4  # elements of a tensor, or about that many in all parts: all ranks' must fit on a screen
DTYPES = {"float32": torch.float32, "float64": torch.float64}


class Plan(NamedTuple):
    """One primitive with one size."""

    operation: str
    composite: bool
    reduce_op: ReduceOpName | None
    elements: int  # elements of each tensor that a rank passes
    tensors: int  # how many of these tensors make up the size that nccl-tests would report


def plans_to_show(trial: Trial) -> list[Plan]:
    """The plans for showing: each operation once; reductions once with each operator."""
    plans = []
    part = 2 if trial.world_size <= SHOWN_ELEMENTS else 1
    for name in operations_tried(trial.operations, shown=True):
        elements, tensors = (part, trial.world_size) if OPERATIONS[name].in_parts else (SHOWN_ELEMENTS, 1)
        plans += [Plan(name, False, op, elements, tensors) for op in operators(name, trial.reduce_ops or REDUCE_OPS)]
    return plans


def plans_to_measure(trial: Trial) -> list[Plan]:
    """The plans for measuring: each operation and composite with each size; reductions with each of the trial's
    operators (by default, sum)."""
    sizes = message_sizes(trial.min_bytes, trial.max_bytes, trial.step_factor)
    plans = []
    for name in operations_tried(trial.operations, shown=False, pipelined=trial.cadence == "pipelined"):
        tensors = trial.world_size if OPERATIONS[name].in_parts else 1
        for op in operators(name, trial.reduce_ops or ("sum",)):
            for size in sizes if OPERATIONS[name].has_bytes else (0,):
                elements = max(1, size // element_bytes(trial) // tensors) if size else 0
                plans.append(Plan(name, False, op, elements, tensors))
    for name in trial.composites:
        plans += [Plan(name, True, None, max(1, size // element_bytes(trial)), 1) for size in sizes]
    return plans


def operators(operation: str, wanted: Sequence[ReduceOpName]) -> Sequence[ReduceOpName | None]:
    """The operators with which to call an operation; a single None if it does not reduce."""
    return wanted if OPERATIONS[operation].reduces else (None,)


def make_primitive(me: Rank, plan: Plan) -> Primitive:
    """The plan's primitive, with its buffers on this rank."""
    op: ReduceOpName = plan.reduce_op or "sum"
    dtype = DTYPES[me.trial.dtype]
    setting = Setting(me.rank, me.world_size, me.trial.root, plan.elements, dtype, me.device, op)
    if plan.composite:
        return Composite(setting, strategy_class(plan.operation)(me.trial))
    kind = PRIMITIVES[plan.operation]
    if me.trial.cadence == "pipelined" and me.trial.primitives == "measure":
        return Pipelined(setting, kind, calls_in_flight(bytes_of(plan, me.trial), me.trial.iterations))
    return kind(setting)


def bytes_of(plan: Plan, trial: Trial) -> int:
    """The plan's message size in bytes, as nccl-tests counts it."""
    return plan.elements * plan.tensors * element_bytes(trial)


def element_bytes(trial: Trial) -> int:
    """The size of one element in bytes."""
    return DTYPES[trial.dtype].itemsize

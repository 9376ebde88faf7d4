"""Which presets the checks of GPUs run, and how: shortened, so that all together take minutes."""

from typing import Any

import msgspec

from ddptui.config.preset import Preset
from ddptui.host.folders import lab_root
from ddptui.store.presets import load


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """A preset as a check runs it, once."""

    preset: str
    set: dict[str, Any] = {}  # fields of every trial, as --set has them
    trials: tuple[str, ...] = ()  # only these
    vary: dict[str, dict[str, Any]] = {}  # each trial once a variant, with these fields; by the variant's name
    env: dict[str, str] = {}  # variables of the console, and so of its ranks


def planned(plan: Plan) -> Preset:
    """The preset that a plan describes. Raises PresetError."""
    path = str(lab_root() / "presets" / f"{plan.preset}.toml")  # the user's own may have its name
    presets = {name: load(path, plan.set | fields) for name, fields in (plan.vary or {"": {}}).items()}
    trials = tuple(
        msgspec.structs.replace(trial, name=f"{trial.name}-{variant}" if variant else trial.name)
        for variant, preset in presets.items()
        for trial in preset.trials
        if not plan.trials or trial.name in plan.trials
    )
    first = next(iter(presets.values()))
    return msgspec.structs.replace(
        first, name=plan.preset, repeats=1, trials=trials, baseline=trials[0].name, columns=(), references=()
    )


ON_GPU = {"device": "cuda"}
ALONE = {**ON_GPU, "world_size": 1}
SHARED = {**ON_GPU, "share_gpu": True}
OPERATIONS = ["all_reduce", "broadcast", "all_gather", "reduce_scatter", "local_sum", "barrier"]
SEEN_AND_UNSEEN = {"seen": {"instruments": "on"}, "unseen": {"instruments": "off"}}
IMPLEMENTATIONS = STOCK, NEWER = "ProcessGroupNCCL", "ProcessGroupNCCL2"  # torch's classes around NCCL

QUICKSTART = Plan(preset="gpu-quickstart", set={"epochs": 200})  # some seconds: its clock needs one to settle
DELAYS = Plan(preset="bottleneck-where", set=SHARED)
STRATEGIES = Plan(preset="strategies", set=ALONE)
STRATEGIES_SHARED = Plan(
    preset="strategies",
    set=SHARED,
    trials=(  # ring cannot send between GPUs over gloo
        "ddp", "bucketed", "flat", "all_reduce", "all_reduce_async", "reduce_broadcast", "gather_scatter", "all_gather",
        "reduce_scatter_all_gather",
    ),
)  # fmt: skip
PRIMITIVES_SHARED = Plan(
    preset="primitives-measure", set={**SHARED, "operations": OPERATIONS, "iterations": 20}, trials=("ranks-2",)
)
AMP = Plan(
    preset="gpu-amp",
    set={"steps": 160},  # some seconds: a GPU's clock and energy are read once a second
    trials=("float32", "bf16", "fp16", "bf16-channels-last"),
)
COMPILED = msgspec.structs.replace(AMP, trials=("bf16-compiled",))
LOOKING = Plan(
    preset="cost-of-looking",
    set={**ALONE, "model": "resnet50", "dataset": "random", "shape": [3, 64, 64], "batch_size": 32, "steps": 103},
)
PINNING = Plan(
    preset="gpu-quickstart",
    set={"epochs": 60},
    trials=("one-process",),
    vary={"pageable": {"pin_memory": False}, "page-locked": {"pin_memory": True}},
)
SPLIT = Plan(
    preset="dp-vs-ddp", set={"dataset": "random", "download": False, "shape": [3, 32, 32], "samples": 2560, "steps": 33}
)
STRATEGIES_OF_TWO = Plan(preset="strategies", set=ON_GPU)
FAULTS = Plan(
    preset="faults",
    set={**ON_GPU, "world_size": 2},
    trials=("sound", "kill", "mismatch", "stop", "hang", "skip"),
    # flight records; every torch reads this name, newer ones with a warning
    env={"TORCH_NCCL_TRACE_BUFFER_SIZE": "2000"},
)
BATCHNORM = Plan(
    preset="batchnorm", set={**ON_GPU, "sync_batchnorm": True, "save": False}, trials=("ddp", "all_reduce")
)
PRIMITIVES = Plan(preset="primitives-measure", set={**ON_GPU, "iterations": 20}, trials=("ranks-2",))


def alone(implementation: str) -> Plan:
    """A few strategies with one rank over NCCL, by one of torch's classes around it."""
    return Plan(
        preset="strategies", set=ALONE, trials=("ddp", "bucketed", "flat", "all_reduce"), env=taking(implementation)
    )


def backends(implementation: str) -> Plan:
    """gloo and NCCL between two GPUs, likewise."""
    return Plan(preset="gpu-backends", set={"epochs": 10}, env=taking(implementation))


def overlap(implementation: str) -> Plan:
    """What backward hides, likewise; with instruments and without."""
    fields = {**ON_GPU, "width": 4096, "steps": 83}
    return Plan(preset="overlap", set=fields, vary=SEEN_AND_UNSEEN, env=taking(implementation))


def taking(implementation: str) -> dict[str, str]:
    """The variable by which torch takes this class around NCCL."""
    return {"TORCH_DIST_USE_NCCL2": str(int(implementation == NEWER))}


OF_ONE = (
    QUICKSTART, DELAYS, STRATEGIES, STRATEGIES_SHARED, PRIMITIVES_SHARED, AMP, COMPILED, LOOKING, PINNING,
    *map(alone, IMPLEMENTATIONS),
)  # fmt: skip
OF_TWO = (
    SPLIT, PRIMITIVES, STRATEGIES_OF_TWO, FAULTS, BATCHNORM,
    *(make(implementation) for make in (backends, overlap) for implementation in IMPLEMENTATIONS),
)  # fmt: skip

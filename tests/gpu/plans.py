"""Which presets the checks of GPUs run, and how: shortened, so that all together take minutes."""

from typing import Any

import msgspec
from msgspec.structs import replace

from ddptui.config.preset import Preset
from ddptui.host.folders import lab_root
from ddptui.store.presets import load


class Plan(msgspec.Struct, frozen=True):
    """A preset as a check runs it, once."""

    preset: str
    set: dict[str, Any] = {}  # fields of every trial, as --set has them
    trials: tuple[str, ...] = ()  # only these
    vary: dict[str, dict[str, Any]] = {}  # each trial once a variant, with these fields; by the variant's name


def planned(plan: Plan) -> Preset:
    """The preset that a plan describes. Raises PresetError."""
    path = str(lab_root() / "presets" / f"{plan.preset}.toml")  # the user's own may have its name
    presets = {variant: load(path, plan.set | fields) for variant, fields in (plan.vary or {"": {}}).items()}
    trials = tuple(
        replace(trial, name=f"{trial.name}-{variant}".removesuffix("-"))
        for variant, preset in presets.items()
        for trial in preset.trials
        if not plan.trials or trial.name in plan.trials
    )
    first = next(iter(presets.values()))
    return replace(
        first, name=plan.preset, repeats=1, trials=trials, baseline=trials[0].name, columns=(), references=()
    )


ON_GPU = {"device": "cuda"}
ALONE = {**ON_GPU, "world_size": 1}
SHARED = {**ON_GPU, "share_gpu": True}
OPERATIONS = ["all_reduce", "broadcast", "all_gather", "reduce_scatter", "local_sum", "barrier"]
OVER_GLOO = (  # ring cannot send between GPUs over gloo
    "ddp", "bucketed", "flat", "all_reduce", "all_reduce_async", "reduce_broadcast", "gather_scatter", "all_gather",
    "reduce_scatter_all_gather",
)  # fmt: skip
SMALL_IMAGES = {"model": "resnet50", "dataset": "random", "shape": [3, 64, 64], "batch_size": 32, "steps": 103}
SMALLER_IMAGES = {"dataset": "random", "download": False, "shape": [3, 32, 32], "samples": 2560, "steps": 33}

# For one GPU
QUICKSTART = Plan("gpu-quickstart", {"epochs": 200})  # some seconds: its clock needs one to settle
DELAYS = Plan("bottleneck-where", SHARED)
STRATEGIES = Plan("strategies", ALONE)
STRATEGIES_SHARED = Plan("strategies", SHARED, OVER_GLOO)
PRIMITIVES_SHARED = Plan("primitives-measure", {**SHARED, "operations": OPERATIONS, "iterations": 20}, ("ranks-2",))
# some seconds: a GPU's clock and energy are read once a second
AMP = Plan("gpu-amp", {"steps": 160}, ("float32", "bf16", "fp16", "bf16-channels-last"))
COMPILED = Plan("gpu-amp", {"steps": 160}, ("bf16-compiled",))
LOOKING = Plan("cost-of-looking", {**ALONE, **SMALL_IMAGES})
PAGES = {"pageable": {"pin_memory": False}, "page-locked": {"pin_memory": True}}
PINNING = Plan("gpu-quickstart", {"epochs": 60}, ("one-process",), PAGES)
GROUP_OF_ONE = Plan("strategies", ALONE, ("ddp", "bucketed", "flat", "all_reduce"))

# For two
BACKENDS = Plan("gpu-backends", {"epochs": 10})
INSTRUMENTS = {"seen": {"instruments": "on"}, "unseen": {"instruments": "off"}}
OVERLAP = Plan("overlap", {**ON_GPU, "width": 4096, "steps": 83}, vary=INSTRUMENTS)
PRIMITIVES = Plan("primitives-measure", {**ON_GPU, "iterations": 20}, ("ranks-2",))
STRATEGIES_OF_TWO = Plan("strategies", ON_GPU)
BATCHNORM = Plan("batchnorm", {**ON_GPU, "sync_batchnorm": True, "save": False}, ("ddp", "all_reduce"))
# Without other-shape and wrong-order: NCCL compares neither sizes nor tensors, so these may train to the end.
STALLS = ("stop", "hang", "skip", "uneven-inputs", "early-stop", "lone-collective")
FAULTS = Plan("faults", {**ON_GPU, "world_size": 2}, ("sound", "kill", "mismatch", *STALLS))
SPLIT = Plan("dp-vs-ddp", SMALLER_IMAGES)
OF_TWO = (BACKENDS, OVERLAP, PRIMITIVES, STRATEGIES_OF_TWO, BATCHNORM, FAULTS, SPLIT)

"""The fields of a trial as the Lab's form has them: those that everybody changes, and groups of the others."""

from ddptui.config.fields import FIELDS, kind, meaningless, work_of
from ddptui.config.preset import Preset
from ddptui.config.trial import choices

REPEATS = "repeats"  # of the preset; a change like any other here, on the command line an option of its own
COMMON = (
    "launch", "world_size", "strategy", "average", "model", "dataset", "operations", "reduce_ops", "root", "max_bytes",
    "iterations", "cadence", "epochs", "steps", REPEATS, "bottleneck",
)  # fmt: skip
GROUPS = {
    "Data": (
        "batch_size", "warmup_steps", "num_workers", "pin_memory", "data_dir", "download", "shape", "samples",
        "classes", "seed",
    ),
    "Model": ("width", "depth", "batch_norm", "dtype", "amp", "channels_last", "compile"),
    "Optimizer": ("optimizer", "lr", "momentum", "weight_decay", "clip_norm"),
    "Strategy": (
        "every", "reduction", "bucket_mb", "gradient_as_bucket_view", "static_graph", "powersgd_rank",
        "sync_batchnorm", "mistake",
    ),
    "Sizes": ("composites", "min_bytes", "step_factor", "cell_s"),
    "Command": ("command", "env"),
    "Devices": ("device", "backend", "gpus_per_rank", "share_gpu", "threads", "sched_batch"),
    "Start": ("start", "start_method", "init_method", "stall_s"),
    "Faults": ("fault",),
    "Checks": ("hash_every", "instruments", "save"),
}  # fmt: skip
ORDER = (*COMMON, *(key for keys in GROUPS.values() for key in keys))  # of the changes on the command line
# Labels that are shorter than the field's name.
LABELS = {
    "world_size": "ranks",
    "dataset": "data",
    "sleep_ms": "ms",
    "mbit": "Mbit/s",
    "gradient_as_bucket_view": "bucket_view",
    "sync_batchnorm": "sync_bn",
}
ABOUT_REPEATS = "launches of each trial, one after the other; medians are over them"


def group_of(key: str) -> str | None:
    """Return the group that a field is in; None: it is among the common ones."""
    return next((name for name, keys in GROUPS.items() if key in keys), None)


def label(key: str) -> str:
    """Return what the form calls a field."""
    return LABELS.get(key, key)


def about(key: str) -> str:
    """Return a sentence about a field."""
    if key == REPEATS:
        return f"{REPEATS}: {ABOUT_REPEATS}"
    is_typed = not choices(key) and kind(key) not in ("true or false", "list of tables")  # not chosen from a list
    type_of_it = f" ({kind(key)})" if is_typed else ""
    return f"{key}: {FIELDS[key].description}{type_of_it}"


def common(preset: Preset) -> set[str]:
    """Return the common fields that mean something in the preset's kinds of work, whatever is changed."""
    works = {work_of(trial.launch, trial.primitives) for trial in preset.trials}
    fields = {key for key in COMMON if key == REPEATS or works & {*FIELDS[key].work}}
    if works == {"watch"}:
        fields.discard("launch")  # a command stays one
    if all(trial.steps is not None for trial in preset.trials):
        fields.discard("epochs")
    return fields


def meaningful(preset: Preset) -> set[str]:
    """Return the fields that mean something to at least one of the trials."""
    useless = [meaningless(trial.launch, trial.strategy, trial.primitives) for trial in preset.trials]
    return {key for key in FIELDS if any(key not in fields for fields in useless)}

"""Which of a trial's fields mean something where the ranks try primitives, and what they may say. Pure."""

from ddptui.config.operations import OPERATIONS

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

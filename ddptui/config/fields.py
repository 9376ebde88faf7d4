"""Which fields of a trial mean something with which launch mode, strategy or kind of work."""

from ddptui.config import primitives as of_primitives
from ddptui.config import strategies

NO_GROUP = {
    "backend": "one process has no group",
    "init_method": "one process has nobody to meet",
    "gpus_per_rank": "one process with several GPUs is launch = 'dp'",
    "share_gpu": "one process has nobody to share a GPU with",
    "average": "one process has nobody to average with",
    "reduction": "one process has nobody to average with",
    "bucket_mb": "one process sends no gradients",
    "gradient_as_bucket_view": "one process has no buckets",
    "static_graph": "it is an option of torch DDP",
    "powersgd_rank": "one process sends no gradients",
    "sync_batchnorm": "one process has nobody to share statistics with",
    "hash_every": "there is one copy of the model",
}
MEANINGLESS_IN_MODE: dict[str, dict[str, str]] = {
    "single": {
        "strategy": "one process has nobody to agree with",
        "world_size": "one process is one rank",
        "start_method": "the process is started directly",
        **NO_GROUP,
    },
    "dp": {
        "strategy": "the gather on the output device is the aggregation",
        "instruments": "its replicas are seen from within their forward, and cannot be left unseen",
        "start_method": "the replicas are threads of one process",
        "compile": "nn.DataParallel copies the model anew in every step, and torch.compile compiles one",
        **NO_GROUP,
    },
    "launch": {
        "start_method": "torch.distributed.launch starts the ranks itself",
        "init_method": "torch.distributed.launch tells the ranks where they meet",
    },
    "process": {},
    "spawn": {},
    "task": {"start_method": "somebody else starts the ranks"},
}


def meaningless(launch: str, strategy: str | None, primitives: str | None) -> dict[str, str]:
    """The fields that a launch mode, a strategy or what the ranks do at all has no use for, and why. Such a field is
    refused in a [[trial]] or [matrix], and passed over in [defaults] and --set, which speak to all trials at once."""
    work = of_primitives.meaningless_with_primitives(primitives)
    if primitives is not None:
        return work
    of_strategy = strategies.meaningless_with_strategy(strategy) if strategy in strategies.STRATEGIES else {}
    fields = {field: f"strategy = {strategy!r}: {why}" for field, why in of_strategy.items()}
    of_mode = MEANINGLESS_IN_MODE.get(launch, {})
    return work | fields | {field: f"launch = {launch!r}: {why}" for field, why in of_mode.items()}

"""The variables by which launchers place a process among ranks. A console starts ranks of its own, and none of what a
platform or a launcher around it says may reach them: torch's launcher would wait for PET_NNODES nodes, say."""

from collections.abc import Mapping

# Read by torch's launchers, or set by them for ranks; torchrun takes the default of every option from PET_OPTION.
PREFIXES = ("PET_", "TORCHELASTIC_", "TORCH_ELASTIC_")
NAMES = (
    "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "GROUP_WORLD_SIZE", "ROLE_NAME", "ROLE_RANK",
    "ROLE_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "PYTHON_EXEC", "TORCH_WORKER_SERVER_SOCKET",
    "TORCH_DISABLE_SHARE_RDZV_TCP_STORE",
    "NODE_RANK", "NNODES", "INIT_METHOD",  # of workers/rank
)  # fmt: skip


def without_launchers(variables: Mapping[str, str]) -> dict[str, str]:
    """An environment without them. What a user sets for torch or its backends stays."""
    return {name: value for name, value in variables.items() if name not in NAMES and not name.startswith(PREFIXES)}

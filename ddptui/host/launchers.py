"""The environment variables by which launchers place a process among ranks.

The ranks that a console starts must not inherit them from a platform or launcher around it: torch's launcher, for
example, would wait for PET_NNODES nodes.
"""

from collections.abc import Mapping

# Torch's launchers read these variables or set them for ranks; torchrun reads the default of each option from PET_….
PREFIXES = ("PET_", "TORCHELASTIC_", "TORCH_ELASTIC_")
NAMES = (
    "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "GROUP_WORLD_SIZE", "ROLE_NAME", "ROLE_RANK",
    "ROLE_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "PYTHON_EXEC", "TORCH_WORKER_SERVER_SOCKET",
    "TORCH_DISABLE_SHARE_RDZV_TCP_STORE",
    "NODE_RANK", "NNODES", "INIT_METHOD",  # of workers/rank
)  # fmt: skip


def without_launchers(variables: Mapping[str, str]) -> dict[str, str]:
    """The environment without the variables of launchers. Those that a user sets for torch or its backends stay."""
    return {name: value for name, value in variables.items() if name not in NAMES and not name.startswith(PREFIXES)}

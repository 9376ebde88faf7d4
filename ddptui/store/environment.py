"""What environment.json may hold, and which of it matters to figures."""

from typing import Annotated, Any

import msgspec

# Keys of the environment whose change may change figures; the versions of packages count, too.
MATTERS_TO_FIGURES = (
    "ddptui", "python", "host", "cpu", "cores", "gpus", "gpu_driver", "gpus_visible", "gpu_power_limit_w", "gpu_links",
    "openmp", "malloc", "watched",
)  # fmt: skip
DEEPEST = 16  # tables and lists in one another in environment.json; a console writes 4 at most
TOO_DEEP = "its tables and lists are nested too deeply"


class Environment(msgspec.Struct):
    """The types of those keys of environment.json that the program relies on; there are others."""

    preset: Annotated[str, msgspec.Meta(max_length=255)] = ""
    packages: dict[str, Any] = {}
    resumed: list[dict[str, Any]] = []
    cores: int | None = None


def problem_of(environment: dict[str, Any]) -> str:
    """Why this is no environment that the program can use; empty if it is one."""
    try:
        msgspec.convert(environment, Environment)
    except msgspec.ValidationError as error:
        return str(error)
    return "" if _nests_at_most(environment, DEEPEST) else TOO_DEEP


def what_matters(environment: dict[str, Any]) -> dict[str, Any]:
    """What of it may change figures."""
    packages: dict[str, Any] = environment.get("packages", {})
    return {key: environment.get(key) for key in MATTERS_TO_FIGURES} | packages


def _nests_at_most(value: Any, levels: int) -> bool:
    children = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return levels >= 0 and all(_nests_at_most(child, levels - 1) for child in children)

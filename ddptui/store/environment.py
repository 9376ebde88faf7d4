"""The contents of environment.json, and which entries affect measurements."""

from typing import Annotated, Any

import msgspec

# Keys whose change may change measurements. So may the versions of packages.
MATTERS_TO_FIGURES = (
    "ddptui", "python", "host", "cpu", "cores", "gpus", "gpu_driver", "gpus_visible", "gpu_power_limit_w", "gpu_links",
    "openmp", "malloc", "watched",
)  # fmt: skip
DEEPEST = 16  # allowed nesting of tables and lists in environment.json; a console writes at most 4 levels
TOO_DEEP = "its tables and lists are nested too deeply"


class Environment(msgspec.Struct):
    """The keys of environment.json that the program relies on, with their types. Other keys are allowed."""

    preset: Annotated[str, msgspec.Meta(max_length=255)] = ""
    packages: dict[str, Any] = {}
    resumed: list[dict[str, Any]] = []
    cores: int | None = None


def problem_of(environment: dict[str, Any]) -> str:
    """Why the program cannot use this environment; empty if it can."""
    try:
        msgspec.convert(environment, Environment)
    except msgspec.ValidationError as error:
        return str(error)
    return "" if _nests_at_most(environment, DEEPEST) else TOO_DEEP


def what_matters(environment: dict[str, Any]) -> dict[str, Any]:
    """The entries that may change measurements, including the versions of packages."""
    packages: dict[str, Any] = environment.get("packages", {})
    return {key: environment.get(key) for key in MATTERS_TO_FIGURES} | packages


def _nests_at_most(value: Any, levels: int) -> bool:
    children = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return levels >= 0 and all(_nests_at_most(child, levels - 1) for child in children)

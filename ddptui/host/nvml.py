"""Asking NVIDIA's management library (NVML), which may refuse, or lack, any function."""

from typing import Any

from ddptui.text.words import printable


def answer(nvml: Any, function: str, *arguments: Any) -> Any:
    """The result of a function of NVML; None where this GPU, this driver, or this release of the library lacks it."""
    try:
        return getattr(nvml, function)(*arguments)
    except (AttributeError, nvml.NVMLError):
        return None


def text(answered: str | bytes) -> str:
    """A name that NVML returned, to be printed: some releases of the library return bytes."""
    return printable(answered.decode("utf-8", "replace") if isinstance(answered, bytes) else answered)

"""Asking NVIDIA's management library (NVML), which may refuse, or lack, any function."""

from typing import Any

from ddptui.text.words import printable

MW_PER_W = MJ_PER_J = 1000
NOT_SUPPORTED, FUNCTION_NOT_FOUND = 3, 13  # values of NVMLError, by nvml.h
# Why a GPU's clock is lower than it might be: bits of nvmlClocksEventReasons, by nvml.h. One that idles (1) is not held
# back. The last two reasons for heat and power also set HW_SLOWDOWN, and so may a change of clocks alone.
HW_SLOWDOWN, HEAT, HW_HEAT, POWER_BRAKE = 0x08, 0x20, 0x40, 0x80
CLOCK_REASONS = {
    0x02: "application clocks",  # that its user has set
    0x04: "power cap",
    HW_SLOWDOWN: "hardware slowdown",
    0x10: "sync boost",  # another GPU of its group is slower
    HEAT: "heat",
    HW_HEAT: "heat (hardware)",
    POWER_BRAKE: "power brake",  # the power supply's
    0x100: "display clocks",
}


def answer(nvml: Any, function: str, *arguments: Any) -> Any:
    """The result of a function of NVML; None where this GPU, this driver, or this release of the library lacks it."""
    try:
        return getattr(nvml, function)(*arguments)
    except (AttributeError, nvml.NVMLError):
        return None


def is_unsupported(nvml: Any, function: str, *arguments: Any) -> bool:
    """Whether NVML refuses a function for good: this GPU does not support it, or the driver or the library lacks it."""
    try:
        getattr(nvml, function)(*arguments)
    except AttributeError:
        return True
    except nvml.NVMLError as error:
        return getattr(error, "value", None) in (NOT_SUPPORTED, FUNCTION_NOT_FOUND)
    return False


def clock_reasons(nvml: Any, handle: Any) -> int:
    """Bits that say why the clocks are as they are; 0: NVML does not say. Older drivers know the second name."""
    names = ("nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons")
    return next((int(reasons) for name in names if (reasons := answer(nvml, name, handle)) is not None), 0)


def reasons_in_words(reasons: int) -> tuple[str, ...]:
    """These bits in words. What is not known here is left out, and so is a slowdown that another bit explains."""
    if reasons & (HW_HEAT | POWER_BRAKE):
        reasons &= ~HW_SLOWDOWN
    return tuple(word for bit, word in CLOCK_REASONS.items() if reasons & bit)


def text(answered: str | bytes) -> str:
    """A name that NVML returned, to be printed: some releases of the library return bytes."""
    return printable(answered.decode("utf-8", "replace") if isinstance(answered, bytes) else answered)

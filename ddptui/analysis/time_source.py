"""Tells whether the times of a rank's steps are those of the host or of its device. Pure.

On the CPU both are the same: a call returns when its work is done. On a GPU with CUDA events, times are the device's,
which continues while the host has no core or stands still. On any other device, times are the host's: when Python got
there, which tells neither how long the device worked nor which rank's device was late.
"""

HOST_TIME = "*"  # marks phases in tables


def is_timed_by_device(device: str) -> bool:
    """Whether times of a rank on this device are measured on the device. device: as in Hello."""
    return device.startswith("cuda")


def is_host_time(device: str) -> bool:
    """Whether times of a rank on this device are host times, while the device may lag behind. device: as in Hello;
    empty: unknown."""
    return bool(device) and not device.startswith(("cpu", "cuda"))

"""Whose times a rank's steps have: the host's or its device's. Pure.

On the CPU the two are the same: a call returns when its work is done. On a GPU with CUDA events they are the device's,
which goes on while the host has no core or stands still. On any other device they are the host's: when Python came
there, which says neither how long the device worked nor which rank's device was late.
"""

HOST_TIME = "*"  # marks phases in tables


def is_timed_by_device(device: str) -> bool:
    """Whether the times of a rank on this device are those at which the device came there. device: as in Hello."""
    return device.startswith("cuda")


def is_host_time(device: str) -> bool:
    """Whether they are those at which the host came there, and the device may be behind. Empty: not known yet."""
    return bool(device) and not device.startswith(("cpu", "cuda"))

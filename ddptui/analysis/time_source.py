"""Whose times a rank's steps have: the host's or its device's. Pure.

On the CPU the two are the same: a call returns when its work is done. On a GPU with CUDA events they are the device's,
which goes on while the host has no core or stands still.
"""


def is_timed_by_device(device: str) -> bool:
    """Whether the times of a rank on this device are those at which the device came there. device: as in Hello."""
    return device.startswith("cuda")

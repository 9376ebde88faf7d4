"""Writes checkpoints, slowly."""

import io
import os
import tempfile
import time

import torch


def packed(state):
    buffer = io.BytesIO()
    torch.save(state, buffer)
    return buffer.getvalue()


def save(state, upload_s):
    """Saves the state as if it uploaded it, for so many seconds."""
    packed(state)
    time.sleep(upload_s)  # slow: checkpoint


def write(state, disk_s):
    """Writes the state to a disk that is slow, for so many seconds."""
    content, until = packed(state), time.perf_counter() + disk_s
    with tempfile.TemporaryFile() as file:
        while time.perf_counter() < until:  # slow: writes
            file.seek(0)  # slow: writes
            file.write(content)  # slow: writes
            file.flush()  # slow: writes
            os.fsync(file.fileno())  # slow: writes

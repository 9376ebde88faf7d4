"""Writes checkpoints, slowly."""

import io
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

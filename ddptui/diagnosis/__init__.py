"""Explains why a launch failed or hangs. Pure: no I/O, no clock."""

"""Computes the figures of repeats, trials and runs from the ranks' messages. Pure: no I/O, no clock."""

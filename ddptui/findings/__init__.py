"""Derives findings, verdicts and comparisons from the figures of steps, trials and runs. Pure."""

"""What it means: from the figures of steps to findings, verdicts and comparisons. Pure."""

"""Prints a rank's output."""


def print_line(line: str) -> None:
    """Print a line with a single write. `print` writes text and newline separately, so that other threads, or other
    ranks on the same terminal, may print between the two."""
    print(f"{line}\n", end="", flush=True)

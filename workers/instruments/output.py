"""What a rank prints."""


def print_line(line: str) -> None:
    """Print a line in one piece. `print` itself writes the text and its end apart, and other threads of the rank, or
    other ranks on the same terminal, print between the two."""
    print(f"{line}\n", end="", flush=True)

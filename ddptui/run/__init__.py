"""A run from its preset to its results: started, supervised, recorded, replayed."""

import os
import sys


def show(text: str) -> None:
    """Print results on stdout. If the reader has gone (`| head`), they are still in the run's folder."""
    try:
        print(text, end="", flush=True)
    except OSError:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115  (else Python reports the same error again at exit)

"""Where the lab's own files stand: in a checkout beside this package, in a wheel inside it."""

from pathlib import Path


def lab_root() -> Path:
    """The folder that holds `workers/` and `presets/`; rank processes get it first on PYTHONPATH."""
    package = Path(__file__).resolve().parents[1]
    shipped = package / "_lab"
    return shipped if shipped.is_dir() else package.parent

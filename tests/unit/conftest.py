"""What several rooms' tests share."""

from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[str], str]:
    """Writes a module that a child can be asked to run; returns its name."""
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    def write(text: str) -> str:
        (tmp_path / "asked_by_a_test.py").write_text(text, encoding="utf-8")
        return "asked_by_a_test"

    return write

"""A home of its own for the command line."""

from pathlib import Path

import pytest


@pytest.fixture
def at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, signals_given_back: None) -> None:
    """Every file of this user's is below tmp_path."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("LINES", "40")
    for variable in ("DDPTUI_RUNS", "DDPTUI_DATA"):
        monkeypatch.delenv(variable, raising=False)

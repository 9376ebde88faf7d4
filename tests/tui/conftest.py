"""What every test of the console wants: no variable that changes its look, no settings but its own."""

import os
from pathlib import Path

import pytest

for name in ("NO_COLOR", "TEXTUAL_THEME", "COLORFGBG"):
    os.environ.pop(name, None)  # before textual is imported


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Nobody's own presets, and no settings that a test could overwrite."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    return tmp_path


@pytest.fixture(autouse=True)
def toasts_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine may take longer than a toast stays before a test reads it."""
    from textual.notifications import Notification

    monkeypatch.setattr(Notification, "has_expired", property(lambda notification: False))

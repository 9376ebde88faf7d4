"""What the console remembers, and which theme it begins with."""

import os
from pathlib import Path

import pytest

from ddptui.tui import settings
from ddptui.tui.settings import DARK, LIGHT, Settings, first_theme

KNOWN = {DARK, LIGHT, "nord", "dracula", "gruvbox"}


@pytest.fixture(autouse=True)
def nothing_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A home of its own, and a terminal that says nothing of itself."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("COLORFGBG", raising=False)
    monkeypatch.delenv("TEXTUAL_THEME", raising=False)


def test_it_lies_in_the_users_folder_for_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert settings.path() == tmp_path / "config" / "ddptui" / "console.json"
    monkeypatch.delenv("XDG_CONFIG_HOME")
    assert tmp_path / "home" in settings.path().parents


def test_what_was_saved_is_there_the_next_time() -> None:
    assert settings.load() == Settings()
    settings.save(Settings(theme="nord"))
    assert settings.load() == Settings(theme="nord")
    settings.save(Settings(theme="dracula"))
    assert settings.load() == Settings(theme="dracula")


@pytest.mark.parametrize(
    "spoilt", [b"", b"{", b"[]", b"null", b'{"theme": 5}', b'{"theme": "\xff"}', b"\xff\xfe", b"\0" * 100]
)
def test_what_cannot_be_read_is_as_good_as_nothing_and_is_replaced(spoilt: bytes) -> None:
    settings.path().parent.mkdir(parents=True)
    settings.path().write_bytes(spoilt)
    assert settings.load() == Settings()
    assert first_theme(None, KNOWN) == DARK
    settings.save(Settings(theme="nord"))
    assert settings.load() == Settings(theme="nord")


def test_what_a_later_console_keeps_there_does_no_harm() -> None:
    settings.path().parent.mkdir(parents=True)
    settings.path().write_text('{"theme": "nord", "panes": ["table"]}')
    assert settings.load() == Settings(theme="nord")


def test_a_folder_in_the_files_place_does_no_harm() -> None:
    settings.path().mkdir(parents=True)
    settings.save(Settings(theme="nord"))
    assert settings.load() == Settings()


def test_a_home_that_is_a_file_does_no_harm(tmp_path: Path) -> None:
    (tmp_path / "config").write_text("")
    settings.save(Settings(theme="nord"))
    assert settings.load() == Settings()
    assert (tmp_path / "config").read_text() == ""


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read and write everything")
def test_a_file_that_may_not_be_read_or_written_does_no_harm() -> None:
    settings.save(Settings(theme="nord"))
    settings.path().chmod(0)
    assert settings.load() == Settings()
    settings.save(Settings(theme="dracula"))


@pytest.mark.parametrize(
    ("colours", "theme"),
    [
        (None, DARK),
        ("", DARK),
        ("15;0", DARK),
        ("0;15", LIGHT),
        ("0;7", LIGHT),
        ("0;default;15", LIGHT),
        ("15;default;0", DARK),
        ("7;default", DARK),
        ("15", LIGHT),
        ("0;8", DARK),
        ("nonsense;;", DARK),
    ],
)
def test_at_first_it_is_as_light_as_the_terminal(
    colours: str | None, theme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if colours is not None:
        monkeypatch.setenv("COLORFGBG", colours)
    assert first_theme(None, KNOWN) == theme


def test_the_command_line_comes_first_then_the_variable_then_what_was_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLORFGBG", "0;15")
    settings.save(Settings(theme="nord"))
    assert first_theme(None, KNOWN) == "nord"
    monkeypatch.setenv("TEXTUAL_THEME", "dracula")
    assert first_theme(None, KNOWN) == "dracula"
    assert first_theme("gruvbox", KNOWN) == "gruvbox"


def test_a_theme_that_is_not_known_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLORFGBG", "0;15")
    assert first_theme("no-such", KNOWN) == LIGHT
    monkeypatch.setenv("TEXTUAL_THEME", "nrod")
    settings.save(Settings(theme="of an older console"))
    assert first_theme(None, KNOWN) == LIGHT
    settings.save(Settings(theme="nord"))
    assert first_theme("no-such", KNOWN) == "nord"

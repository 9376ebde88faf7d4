"""The file of the user's settings: read, written for a theme alone, and what comes before it."""

import os
from pathlib import Path

import pytest

from ddptui.config.settings import NO_SETTINGS, Settings, SettingsError
from ddptui.store import settings
from ddptui.store.settings import DARK, LIGHT, load, refreshes_per_s, save_theme


@pytest.fixture(autouse=True)
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file, in a home of its own; a terminal that says nothing of itself."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    for variable in ("COLORFGBG", "TEXTUAL_THEME", "SSH_CONNECTION"):
        monkeypatch.delenv(variable, raising=False)
    return tmp_path / "config" / "ddptui" / "config.toml"


def write(file: Path, text: str | bytes) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(text.encode() if isinstance(text, str) else text)


def test_it_lies_in_the_users_folder_else_there_are_the_defaults(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(file, '\ufefftheme = "nord"\r\nrefresh = 2.5\r\n')
    assert load() == Settings("nord", 2.5)
    assert settings.path() == file
    monkeypatch.delenv("XDG_CONFIG_HOME")
    assert settings.path().is_relative_to(os.environ["HOME"])
    assert load() == NO_SETTINGS

    def no_home() -> Path:
        raise FileNotFoundError(2, "no home folder", "~")

    monkeypatch.setattr(settings, "path", no_home)
    assert load() == NO_SETTINGS


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("theme = ", "is not valid TOML: "),
        ("them = 1", "them: unknown key; did you mean 'theme'?"),
        (b'theme = "\xff"', "is not UTF-8 text"),
        ("a = 1\n" * 300_000, "is not a settings file: it is larger than 1 MB"),
    ],
    ids=["not TOML", "unknown key", "no text", "huge"],
)
def test_what_is_wrong_with_it_is_said_in_one_line(file: Path, content: str | bytes, why: str) -> None:
    write(file, content)
    with pytest.raises(SettingsError) as refused:
        load()
    assert str(refused.value).startswith(f"{file}: {why}")
    assert len(str(refused.value).splitlines()) == 1


def test_what_lies_in_its_place_and_is_no_file_is_refused(file: Path) -> None:
    file.mkdir(parents=True)
    with pytest.raises(SettingsError, match=r"config\.toml: cannot be read: it is a folder, not a file: replace it"):
        load()
    file.rmdir()
    os.mkfifo(file)
    with pytest.raises(SettingsError, match=r"config\.toml: cannot be read: it is a pipe, a socket or a device, not"):
        load()
    file.unlink()
    file.symlink_to("nowhere")
    with pytest.raises(SettingsError, match=r"config\.toml: cannot be read: No such file or directory"):
        load()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", 'theme = "nord"\n'),
        ('theme = "dracula"  # mine\r\nrefresh = 2\r\n', 'theme = "nord"  # mine\r\nrefresh = 2\r\n'),
        ("# mine\n\nrefresh = 2", '# mine\n\ntheme = "nord"\nrefresh = 2'),
        ("# the rate\nrefresh = 2  # slow\n", 'theme = "nord"\n# the rate\nrefresh = 2  # slow\n'),
        ('# of keys\n[keys]\nplay = "a"', 'theme = "nord"\n# of keys\n[keys]\nplay = "a"'),
    ],
)
def test_a_theme_is_written_and_all_other_lines_stay(file: Path, before: str, after: str) -> None:
    if before:
        write(file, before)
    save_theme("nord")
    assert file.read_bytes().decode() == after
    assert load().theme == "nord"
    assert [path.name for path in file.parent.iterdir()] == ["config.toml"]


def test_a_home_that_takes_no_file_is_named_and_a_link_stays_one(file: Path, tmp_path: Path) -> None:
    (tmp_path / "config").write_text("")
    with pytest.raises(SettingsError, match="the theme cannot be saved: "):
        save_theme("nord")
    assert load() == NO_SETTINGS
    (tmp_path / "config").unlink()
    kept = tmp_path / "dotfiles.toml"
    write(kept, "refresh = 2\n")
    kept.chmod(0o600)
    file.parent.mkdir(parents=True)
    file.symlink_to(kept)
    save_theme("nord")
    assert file.is_symlink()
    assert kept.read_text() == 'theme = "nord"\nrefresh = 2\n'
    assert kept.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("spoilt", [b"theme = ", b'a = "\xff"'])
def test_a_file_that_cannot_be_read_is_left_as_it_is(file: Path, spoilt: bytes) -> None:
    write(file, spoilt)
    with pytest.raises(SettingsError, match=r"config\.toml: the theme cannot be saved: not valid TOML"):
        save_theme("nord")
    assert file.read_bytes() == spoilt


@pytest.mark.parametrize(
    ("colours", "theme"),
    [
        (None, DARK),
        ("15;0", DARK),
        ("0;15", LIGHT),
        ("0;default;15", LIGHT),
        ("15;default;0", DARK),
        ("0;8", DARK),
        ("nonsense;;", DARK),
    ],
)
def test_at_first_it_is_as_light_as_a_terminal(
    colours: str | None, theme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if colours is not None:
        monkeypatch.setenv("COLORFGBG", colours)
    assert settings.theme(NO_SETTINGS).value == theme


def test_the_command_line_comes_first_then_the_environment_then_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = Settings(theme="nord")
    monkeypatch.setenv("COLORFGBG", "0;15")
    assert settings.theme(kept) == ("nord", "file")
    monkeypatch.setenv("TEXTUAL_THEME", "dracula")
    assert settings.theme(kept) == ("dracula", "environment: TEXTUAL_THEME")
    assert settings.theme(kept, "gruvbox") == ("gruvbox", "command line")
    monkeypatch.setenv("TEXTUAL_THEME", "nrod")  # Textual passes over it, too
    assert settings.theme(kept) == ("nord", "file")
    assert settings.theme(NO_SETTINGS).value == LIGHT
    assert refreshes_per_s(NO_SETTINGS) == (4.0, "default")
    monkeypatch.setenv("SSH_CONNECTION", "somewhere")
    assert refreshes_per_s(NO_SETTINGS) == (2.0, "default over SSH")
    assert refreshes_per_s(Settings(refresh=8.0)) == (8.0, "file")
    assert refreshes_per_s(Settings(refresh=8.0), 1.0) == (1.0, "command line")

"""Reads TOML files, replaces files as a whole; the user's settings in config.toml, and their defaults."""

import errno
import os
import re
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from ddptui.config.settings import NO_SETTINGS, THEMES, Settings, SettingsError, parse
from ddptui.config.values import read_toml
from ddptui.host.folders import read_plain, user_config

MOST_BYTES = 2**20


class TomlFileError(ValueError):
    """A TOML file cannot be read. The message is one line: the file, and why."""


def read_table(path: Path, what: str) -> dict[str, Any]:
    """The contents of a TOML file. what: the expected kind of file for errors, e.g. "a preset". Raises
    TomlFileError."""
    try:
        text = read_plain(path, MOST_BYTES).decode("utf-8-sig")  # drops a byte-order mark
        return read_toml(text.replace("\r\n", "\n"))  # line ends of Windows
    except OSError as error:
        raise TomlFileError(f"{path}: {_why_not(error, what)}") from None
    except UnicodeDecodeError as error:
        raise TomlFileError(f"{path}: is not UTF-8 text (byte {error.start}): save it as UTF-8") from None
    except (ValueError, RecursionError) as error:  # also raised for huge numbers and deep nesting
        raise TomlFileError(f"{path}: is not valid TOML: {error}") from None


def _why_not(error: OSError, what: str) -> str:
    """Why a file cannot be read, and what to do."""
    if error.errno == errno.EFBIG:
        return f"is not {what}: {error.strerror}"
    remedy = ": replace it with one, or remove it" if error.errno in (errno.EISDIR, errno.EINVAL) else ""
    return f"cannot be read: {error.strerror}{remedy}"


def replace_file(path: Path, content: bytes) -> None:
    """Replace a file atomically: readers see the old or the new content, even after a crash. Raises OSError."""
    new = path.with_name(f"{path.name}.new")
    try:
        new.unlink(missing_ok=True)  # an existing link would redirect the writing
        with new.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())  # otherwise a crash could leave an empty file
        if path.exists():
            with suppress(OSError):  # some file systems have no modes
                shutil.copymode(path, new)
        new.replace(path)
    except OSError:
        with suppress(OSError):
            new.unlink()
        raise


THEME_VARIABLE = "TEXTUAL_THEME"
DARK, LIGHT = "textual-dark", "textual-light"
LIGHT_BACKGROUNDS = {"7", "15"}  # ANSI color numbers in COLORFGBG, which some terminals set
REFRESHES_PER_S = 4.0
REFRESHES_PER_S_OVER_SSH = 2.0  # lower, because every screen is sent over the network
FILE, DEFAULT, TYPED = "file", "default", "command line"  # where a setting comes from
NONE = "none"
HEADING = re.compile(r"(?:#[^\n]*\n)+[ \t]*\r?\n")  # a comment at the top of the file and the blank line after it


def path() -> Path:
    """The path of config.toml, which need not exist. Raises OSError if the user has no home."""
    return user_config("config.toml")


def load() -> Settings:
    """Read the settings; without a file, the defaults. Raises SettingsError, which names the file."""
    try:
        file = path()
        file.lstat()
    except (FileNotFoundError, NotADirectoryError):  # no file, or the user has no home
        return NO_SETTINGS
    except OSError as error:
        raise SettingsError(f"{error.filename}: cannot be read: {error.strerror}") from None
    try:
        return parse(read_table(file, "a settings file"))
    except TomlFileError as error:
        raise SettingsError(f"{error}; correct the file, or move it away") from None
    except SettingsError as error:
        raise SettingsError(f"{file}: {error}") from None


def save_theme(theme: str) -> None:
    """Write the theme into config.toml and leave its other lines unchanged. Raises SettingsError if that fails."""
    try:
        file = path().resolve()  # keeps a link, e.g. into a folder of dotfiles
        text = read_plain(file, MOST_BYTES).decode("utf-8-sig") if file.exists() else ""
        file.parent.mkdir(parents=True, exist_ok=True)
        replace_file(file, _with_theme(text, theme).encode())  # as bytes, to keep the line ends
    except OSError as error:
        where = error.filename or "config.toml"
        raise SettingsError(f"{where}: the theme cannot be saved: {error.strerror}") from None
    except ValueError:  # not valid UTF-8 or TOML
        raise SettingsError(f"{file}: the theme cannot be saved: not valid TOML; `ddptui config` says more") from None


def _with_theme(text: str, theme: str) -> str:
    """The text of the file with this theme. Raises ValueError if it is not TOML."""
    import tomlkit  # imported late: few sessions change the theme

    document = tomlkit.parse(text)
    if "theme" in document:
        document["theme"] = theme
        return tomlkit.dumps(document)
    place = heading.end() if (heading := HEADING.match(text)) else 0
    return f'{text[:place]}theme = "{theme}"\n{text[place:]}'


class SettingValue(NamedTuple):
    """The value of a setting, and where it comes from."""

    value: str
    source: str


def theme(settings: Settings, wanted: str | None = None) -> SettingValue:
    """The initial theme: `wanted` from the command line, else TEXTUAL_THEME, else from the file, else one that suits
    the terminal's background. Themes that Textual does not have are ignored."""
    variable = os.environ.get(THEME_VARIABLE)
    for name, source in ((wanted, TYPED), (variable, f"environment: {THEME_VARIABLE}"), (settings.theme, FILE)):
        if name in THEMES:
            return SettingValue(name, source)
    if os.environ.get("COLORFGBG", "").rpartition(";")[2] in LIGHT_BACKGROUNDS:
        return SettingValue(LIGHT, f"{DEFAULT}, since COLORFGBG has a light background")
    return SettingValue(DARK, DEFAULT)


def refreshes_per_s(settings: Settings, wanted: float | None = None) -> tuple[float, str]:
    """Screen refreshes per second, and where the value comes from."""
    if wanted is not None:
        return wanted, TYPED
    if settings.refresh is not None:
        return settings.refresh, FILE
    if "SSH_CONNECTION" in os.environ:
        return REFRESHES_PER_S_OVER_SSH, f"{DEFAULT} over SSH"
    return REFRESHES_PER_S, DEFAULT


def in_force(settings: Settings) -> dict[str, SettingValue]:
    """The value of every setting without command-line options, keyed by its name in config.toml."""
    rate, source = refreshes_per_s(settings)
    columns, keys = ", ".join(settings.columns), settings.keys
    return {
        "theme": theme(settings),
        "refresh": SettingValue(f"{rate:g} per second", source),
        "columns": SettingValue(columns or NONE, FILE if columns else DEFAULT),
        "lang": SettingValue(settings.lang, FILE if settings.lang != NO_SETTINGS.lang else DEFAULT),
        **{f"keys.{action}": SettingValue(", ".join(pressed), FILE) for action, pressed in keys.items()},
        **({} if keys else {"keys": SettingValue(NONE, DEFAULT)}),
    }

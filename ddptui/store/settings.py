"""The user's settings: the file config.toml, and what holds where it says nothing."""

import os
import re
from pathlib import Path
from typing import NamedTuple

from ddptui.config.settings import NO_SETTINGS, THEMES, Settings, SettingsError, parse
from ddptui.host.files import read_plain
from ddptui.host.folders import user_config
from ddptui.store.toml_file import MOST_BYTES, TomlFileError, read_table, replace_file

THEME_VARIABLE = "TEXTUAL_THEME"
DARK, LIGHT = "textual-dark", "textual-light"
LIGHT_BACKGROUNDS = {"7", "15"}  # ANSI colors in COLORFGBG, which some terminals set
REFRESHES_PER_S = 4.0
REFRESHES_PER_S_OVER_SSH = 2.0  # every picture goes over the network
FILE, DEFAULT, TYPED = "file", "default", "command line"  # where a setting comes from
NONE = "none"
HEADING = re.compile(r"(?:#[^\n]*\n)+[ \t]*\r?\n")  # a comment on the file as a whole, and the blank line after it


def path() -> Path:
    """The file of the settings; it need not exist. Raises OSError if the user has no home."""
    return user_config("config.toml")


def load() -> Settings:
    """The settings; the defaults if there is no file. Raises SettingsError, which names the file."""
    try:
        file = path()
        file.lstat()
    except (FileNotFoundError, NotADirectoryError):  # also: there is no home
        return NO_SETTINGS
    except OSError as error:
        raise SettingsError(f"{error.filename}: cannot be read: {error.strerror}") from None
    try:
        return parse(read_table(file, "a file of settings"))
    except TomlFileError as error:
        raise SettingsError(f"{error}; correct the file, or move it away") from None
    except SettingsError as error:
        raise SettingsError(f"{file}: {error}") from None


def save_theme(theme: str) -> None:
    """Write a theme into the file, whose other lines stay as they are. Raises SettingsError if that cannot be."""
    try:
        file = path().resolve()  # a link, as into a folder of dotfiles, stays one
        text = read_plain(file, MOST_BYTES).decode("utf-8-sig") if file.exists() else ""
        file.parent.mkdir(parents=True, exist_ok=True)
        replace_file(file, _with_theme(text, theme).encode())  # as bytes: line ends stay as they are
    except OSError as error:
        where = error.filename or "config.toml"
        raise SettingsError(f"{where}: the theme cannot be kept: {error.strerror}") from None
    except ValueError:  # of UTF-8 or TOML
        raise SettingsError(f"{file}: the theme cannot be kept: not valid TOML; `ddptui config` says more") from None


def _with_theme(text: str, theme: str) -> str:
    """The text of the file with this theme. Raises ValueError if it is not TOML."""
    import tomlkit  # late: few sessions choose a theme

    document = tomlkit.parse(text)
    if "theme" in document:
        document["theme"] = theme
        return tomlkit.dumps(document)
    place = heading.end() if (heading := HEADING.match(text)) else 0
    return f'{text[:place]}theme = "{theme}"\n{text[place:]}'


class Setting(NamedTuple):
    """A setting as it holds, and where that comes from."""

    value: str
    source: str


def theme(settings: Settings, wanted: str | None = None) -> Setting:
    """The theme to begin with: `wanted` on the command line, else TEXTUAL_THEME, else the file's, else one for the
    terminal's background. A theme that Textual does not have is passed over."""
    variable = os.environ.get(THEME_VARIABLE)
    for name, source in ((wanted, TYPED), (variable, f"environment: {THEME_VARIABLE}"), (settings.theme, FILE)):
        if name in THEMES:
            return Setting(name, source)
    if os.environ.get("COLORFGBG", "").rpartition(";")[2] in LIGHT_BACKGROUNDS:
        return Setting(LIGHT, f"{DEFAULT}, since COLORFGBG has a light background")
    return Setting(DARK, DEFAULT)


def refreshes_per_s(settings: Settings, wanted: float | None = None) -> tuple[float, str]:
    """How often screens are drawn a second, and where that comes from."""
    if wanted is not None:
        return wanted, TYPED
    if settings.refresh is not None:
        return settings.refresh, FILE
    if "SSH_CONNECTION" in os.environ:
        return REFRESHES_PER_S_OVER_SSH, f"{DEFAULT} over SSH"
    return REFRESHES_PER_S, DEFAULT


def in_force(settings: Settings) -> dict[str, Setting]:
    """Every setting by its key, as it holds without options of the command line."""
    rate, source = refreshes_per_s(settings)
    columns, keys = ", ".join(settings.columns), settings.keys
    return {
        "theme": theme(settings),
        "refresh": Setting(f"{rate:g} a second", source),
        "columns": Setting(columns or NONE, FILE if columns else DEFAULT),
        **{f"keys.{action}": Setting(", ".join(pressed), FILE) for action, pressed in keys.items()},
        **({} if keys else {"keys": Setting(NONE, DEFAULT)}),
    }

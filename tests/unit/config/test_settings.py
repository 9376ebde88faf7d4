"""The user's settings: what is accepted, and how the rest is refused."""

import pytest

from ddptui.config.settings import NO_SETTINGS, THEMES, Settings, SettingsError, parse
from ddptui.config.toml import read_toml


def test_all_of_them_are_read() -> None:
    text = 'lang = "zh"\n'
    text += 'theme = "nord"\nrefresh = 8\ncolumns = ["startup", "sync"]\n[keys]\nplay = "a"\nnext = ["n", "ctrl+n"]\n'
    keys = {"play": ("a",), "next": ("n", "ctrl+n")}
    assert parse(read_toml(text)) == Settings("nord", 8.0, ("startup", "sync"), keys, "zh")
    assert parse({}) == NO_SETTINGS == Settings(None, None, (), {}, "en")


def test_the_themes_are_textuals() -> None:
    from textual.theme import BUILTIN_THEMES

    assert tuple(sorted(BUILTIN_THEMES)) == THEMES


REMEDY = "; correct it, or remove it to use the default"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('them = "nord"', "them: unknown key; did you mean 'theme'?"),
        ("zzz = 1", "zzz: unknown key; the keys are theme, refresh, columns, keys, lang"),
        ('theme = "nrod"', "theme: no theme 'nrod'; did you mean 'nord'?"),
        ("theme = 5", f"theme: expected text, got 5{REMEDY}"),
        ('refresh = "fast"', f'refresh: "fast" is not a number{REMEDY}'),
        ('lang = "zz"', "lang: "),
        ("refresh = 0", "refresh: expected a number of 0.2 or more, got 0"),
        ("refresh = 31", "refresh: expected a number of 30 at most, got 31"),
        ("refresh = nan", "refresh: expected a number of 0.2 or more"),
        ("refresh = true", "refresh: expected a number, got true"),
        ('columns = "startup"', f'columns: expected a list, got "startup"{REMEDY}'),
        ('columns = ["sync", "startpu"]', "columns[1]: no column 'startpu'; did you mean 'startup'?"),
        ("columns = [3]", "columns[0]: expected text, got 3"),
        ('[keys]\nplya = "a"', "keys.plya: no such action; did you mean 'play'?"),
        ('[keys]\nzzz = "a"', "keys.zzz: no such action; `ddptui config --keys` lists them"),
        (
            '[keys]\nplay = "b"',
            "keys.play: 'b' is already the key for 'delay'; choose another key, or give that action another one",
        ),
        ('[keys]\nplay = "5"', "keys.play: '5' is reserved; choose another key"),
        ('[keys]\nplay = "two words"', "keys.play: 'two words' is not a key"),
        ('keys = "a"', f'keys: expected a table, got "a"{REMEDY}'),
        ("[keys]\nplay = 1", f'keys.play: 1 is not a key; use e.g. "x", "ctrl+x" or "f6"{REMEDY}'),
        ('[keys]\nplay = ["a", 1]', "keys.play: 1 is not a key"),
        ("[keys]\nplay = []", "keys.play: '' is not a key"),
        ('[keys]\nplay = ""', "keys.play: '' is not a key"),
        ('[keys.play]\nkey = "a"', "keys.play: {'key': 'a'} is not a key"),
    ],
)
def test_what_is_wrong_is_refused_with_its_key_and_what_to_do(text: str, message: str) -> None:
    with pytest.raises(SettingsError) as refused:
        parse(read_toml(text))
    assert str(refused.value).startswith(message)
    assert "\n" not in str(refused.value)

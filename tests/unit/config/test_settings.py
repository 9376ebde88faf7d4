"""The user's settings and keys: what is accepted, and how the rest is refused."""

import pytest

from ddptui.config.settings import KEY, KEYS, NO_SETTINGS, TAKEN, THEMES, Settings, SettingsError, check_keys, parse
from ddptui.config.trial import TrialError
from ddptui.config.values import read_toml


def test_all_of_them_are_read_and_the_themes_are_textuals() -> None:
    text = 'lang = "zh"\n'
    text += 'theme = "nord"\nrefresh = 8\ncolumns = ["startup", "sync"]\n[keys]\nplay = "a"\nnext = ["n", "ctrl+n"]\n'
    keys = {"play": ("a",), "next": ("n", "ctrl+n")}
    assert parse(read_toml(text)) == Settings("nord", 8.0, ("startup", "sync"), keys, "zh")
    assert parse({}) == NO_SETTINGS == Settings(None, None, (), {}, "en")
    from textual.theme import BUILTIN_THEMES

    assert tuple(sorted(BUILTIN_THEMES)) == THEMES


REMEDY = "; correct it, or remove it to use the default"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('them = "nord"', "them: unknown key; did you mean 'theme'?"),
        ('theme = "nrod"', "theme: no theme 'nrod'; did you mean 'nord'?"),
        ("theme = 5", f"theme: expected text, got 5{REMEDY}"),
        ('refresh = "fast"', f'refresh: "fast" is not a number{REMEDY}'),
        ('lang = "zz"', "lang: "),
        ("refresh = 0", "refresh: expected a number of 0.2 or more, got 0"),
        ("refresh = nan", "refresh: expected a number of 0.2 or more"),
        ('columns = "startup"', f'columns: expected a list, got "startup"{REMEDY}'),
        ('columns = ["sync", "startpu"]', "columns[1]: no column 'startpu'; did you mean 'startup'?"),
        ('[keys]\nplya = "a"', "keys.plya: no such action; did you mean 'play'?"),
        ('[keys]\nplay = "b"', "keys.play: 'b' is already the key for 'delay'; choose another key, or give that"),
        ('keys = "a"', f'keys: expected a table, got "a"{REMEDY}'),
        ("[keys]\nplay = 1", f'keys.play: 1 is not a key; use e.g. "x", "ctrl+x" or "f6"{REMEDY}'),
        ("[keys]\nplay = []", "keys.play: '' is not a key"),
        ('[keys]\ndelay = "5"', "keys.delay: '5' is reserved; choose another key"),
        ('[keys]\ndelay = "ctrl+i"', "keys.delay: 'ctrl+i' is reserved; choose another key"),
        ('[keys]\ndelay = "question_mark"', "keys.delay: 'question_mark' is not a key; use e.g. "),
        ('[keys]\ndelay = "a,b"', "keys.delay: 'a,b' is not a key; use e.g. "),
    ],
)
def test_what_is_wrong_is_refused_with_its_key_and_what_to_do(text: str, message: str) -> None:
    with pytest.raises(SettingsError) as refused:
        parse(read_toml(text))
    assert str(refused.value).startswith(message)
    assert "\n" not in str(refused.value)


def test_two_meanings_may_swap_their_keys_but_have_no_key_in_common() -> None:
    assert len({key.default for key in KEYS.values()}) == len(KEYS)
    check_keys({})
    check_keys({name: (key.default,) for name, key in KEYS.items()})
    for key in KEYS.values():
        assert KEY.fullmatch(key.default)
        assert not TAKEN.fullmatch(key.default)
        assert key.meaning
    check_keys({"delay": ("x",), "export": ("b",)})
    with pytest.raises(TrialError):
        check_keys({"delay": ("x",), "export": ("x",)})
    check_keys({"delay": ("b", "b")})
    check_keys({"delay": ("%", "ä", "ctrl+shift+n", "f12")})

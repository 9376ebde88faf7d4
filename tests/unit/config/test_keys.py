"""What each letter and sign means, and which ones a user may choose instead."""

import pytest

from ddptui.config.settings import KEY, KEYS, TAKEN, check_keys
from ddptui.config.trial import TrialError


def test_no_two_meanings_have_the_same_key() -> None:
    assert len({key.usual for key in KEYS.values()}) == len(KEYS)
    check_keys({})
    check_keys({name: (key.usual,) for name, key in KEYS.items()})


@pytest.mark.parametrize("name", KEYS)
def test_every_key_is_one_that_could_be_chosen(name: str) -> None:
    assert KEY.fullmatch(KEYS[name].usual)
    assert not TAKEN.fullmatch(KEYS[name].usual)
    assert KEYS[name].meaning


@pytest.mark.parametrize("key", ["%", "ä", "ctrl+n", "ctrl+shift+n", "f6", "f12", "insert"])
def test_any_other_key_may_be_chosen(key: str) -> None:
    check_keys({"delay": (key,)})


def test_two_meanings_may_swap_their_keys() -> None:
    check_keys({"delay": ("x",), "export": ("b",)})
    with pytest.raises(TrialError):
        check_keys({"delay": ("x",), "export": ("x",)})
    check_keys({"delay": ("b", "b")})


@pytest.mark.parametrize(
    ("key", "why"),
    [
        ("x", "'x' is already the key for 'export'; choose another key, or give that action another one"),
        ("5", "'5' is reserved; choose another key"),
        ("ctrl+q", "'ctrl+q' is reserved; choose another key"),
        ("ctrl+i", "'ctrl+i' is reserved; choose another key"),
        ("banana", '\'banana\' is not a key; use e.g. "x", "ctrl+x" or "f6"'),
        ("question_mark", '\'question_mark\' is not a key; use e.g. "x", "ctrl+x" or "f6"'),
        ("two words", '\'two words\' is not a key; use e.g. "x", "ctrl+x" or "f6"'),
        (" ", '\' \' is not a key; use e.g. "x", "ctrl+x" or "f6"'),
        ("a,b", '\'a,b\' is not a key; use e.g. "x", "ctrl+x" or "f6"'),
    ],
)
def test_a_key_that_cannot_be_is_refused_with_the_reason(key: str, why: str) -> None:
    with pytest.raises(TrialError) as refused:
        check_keys({"delay": (key,)})
    assert (refused.value.key, refused.value.why) == ("keys.delay", why)

"""What each letter and sign means, and which ones a user may choose instead."""

import pytest

from ddptui.config.keys import KEY, KEYS, TAKEN, problem


def test_no_two_meanings_have_the_same_key() -> None:
    assert len({key.usual for key in KEYS.values()}) == len(KEYS)
    assert problem({}) is None
    assert problem({name: (key.usual,) for name, key in KEYS.items()}) is None


@pytest.mark.parametrize("name", KEYS)
def test_every_key_is_one_that_could_be_chosen(name: str) -> None:
    assert KEY.fullmatch(KEYS[name].usual)
    assert not TAKEN.fullmatch(KEYS[name].usual)
    assert KEYS[name].meaning


@pytest.mark.parametrize("key", ["%", "ä", "ctrl+n", "ctrl+shift+n", "f6", "f12", "insert"])
def test_any_other_key_may_be_chosen(key: str) -> None:
    assert problem({"delay": (key,)}) is None


def test_two_meanings_may_swap_their_keys() -> None:
    assert problem({"delay": ("x",), "export": ("b",)}) is None
    assert problem({"delay": ("x",), "export": ("x",)}) is not None
    assert problem({"delay": ("b", "b")}) is None


@pytest.mark.parametrize(
    ("key", "why"),
    [
        ("x", "'x' is the key for 'export': choose another one, or give that one another key, too"),
        ("5", "'5' has a meaning of its own: choose another one"),
        ("ctrl+q", "'ctrl+q' has a meaning of its own: choose another one"),
        ("ctrl+i", "'ctrl+i' has a meaning of its own: choose another one"),
        ("banana", '\'banana\' is no key: a sign, as "x", or a name, as "ctrl+x" or "f6"'),
        ("question_mark", '\'question_mark\' is no key: a sign, as "x", or a name, as "ctrl+x" or "f6"'),
        ("two words", '\'two words\' is no key: a sign, as "x", or a name, as "ctrl+x" or "f6"'),
        (" ", '\' \' is no key: a sign, as "x", or a name, as "ctrl+x" or "f6"'),
        ("a,b", '\'a,b\' is no key: a sign, as "x", or a name, as "ctrl+x" or "f6"'),
    ],
)
def test_a_key_that_cannot_be_is_refused_with_the_reason(key: str, why: str) -> None:
    assert problem({"delay": (key,)}) == ("delay", why)

"""The language of titles, questions and findings. A process chooses it once, when it reads the user's settings."""

from typing import Literal

Language = Literal["en", "zh"]
_chosen: Language = "en"


def choose(language: Language) -> None:
    """Show texts in this language from now on, and in English those that have no other."""
    global _chosen
    _chosen = language


def chosen() -> Language:
    """The language that texts are shown in."""
    return _chosen


def is_chinese() -> bool:
    """Whether texts are shown in Chinese."""
    return _chosen == "zh"


def localized(english: str, chinese: str) -> str:
    """The text in the chosen language; in English if it has no Chinese one."""
    return chinese if chinese and is_chinese() else english

"""Hostile input ends in one line or in a run: never in a traceback, a hang, or a control sequence on the terminal."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.real.hostile import rows
from tests.real.hostile.scenes import UNPACKED, Scene, lay
from tests.support.watched import ON_A_PIPE, ON_A_TERMINAL, ON_SCREEN, Over, assert_harmless, watched
from tests.unit.cli.test_bad_input import environment

ROWS = rows.TEXTS | rows.FILES | rows.TICKETS | rows.SURROUNDINGS | rows.ON_SCREEN
OFTEN = ("a folder's name", "a title, trained")


@pytest.fixture(scope="module")
def most_bytes(tmp_path_factory: pytest.TempPathFactory) -> float:
    """What a process may take: what a harmless training takes here, and less than what hostile files grow to."""
    over = ends(tmp_path_factory.mktemp("harmless"), rows.HARMLESS)
    assert over.code == 0, over
    return over.peak_bytes + UNPACKED / 2


def ends(folder: Path, scene: Scene) -> Over:
    variables: Mapping[str, str | bytes | None] = {
        **environment(folder), "LC_ALL": "C.UTF-8", "TERM": "xterm-256color", **scene.variables,
    }  # fmt: skip
    told = {name: value for name, value in variables.items() if value is not None}
    lay(folder, scene.files)
    with watched(scene.words, folder, told, on_a_terminal=scene.on_a_terminal, within=scene.within) as command:
        for text, keys in scene.keys:
            if command.until(text):
                command.press(keys)
        return command.over()


def assert_ends_well(folder: Path, scene: Scene, most_bytes: float) -> None:
    over = ends(folder, scene)
    may = ON_SCREEN if not scene.words else ON_A_TERMINAL if scene.on_a_terminal else ON_A_PIPE
    assert_harmless(over, may, most_bytes)
    assert over.code == 0 or not scene.well, over


@pytest.mark.rare
@pytest.mark.parametrize("scene", ROWS.values(), ids=ROWS.keys())
def test_what_once_broke_the_console_is_harmless(scene: Scene, tmp_path: Path, most_bytes: float) -> None:
    assert_ends_well(tmp_path, scene, most_bytes)


@pytest.mark.parametrize("name", OFTEN)
def test_hostile_names_and_titles_are_harmless(name: str, tmp_path: Path) -> None:
    assert_ends_well(tmp_path, ROWS[name], UNPACKED)

"""Hostile input ends in one line or in a run: never in a traceback, a hang, or a control sequence on the terminal."""

import tempfile
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from tests.real.hostile import rows
from tests.real.hostile.scenes import UNPACKED, Scene, lay
from tests.real.hostile.strategies import on_pipes_and_terminals, on_screen
from tests.support.watched import ON_A_PIPE, ON_A_TERMINAL, ON_SCREEN, Over, assert_harmless, watched
from tests.unit.cli.test_bad_input import environment

# A scene holds names of 500 KB, and hypothesis draws some only to print them.
pytestmark = [pytest.mark.rare, pytest.mark.filterwarnings("ignore:Generating overly large repr")]

ROWS = rows.TEXTS | rows.FILES | rows.TICKETS | rows.SURROUNDINGS | rows.ON_SCREEN
# The same scenes each time. A scene is small, and a process takes long: none is made smaller.
FUZZ = settings(derandomize=True, database=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck))


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


@pytest.mark.parametrize("scene", ROWS.values(), ids=ROWS.keys())
def test_what_once_broke_the_console_is_harmless(scene: Scene, tmp_path: Path, most_bytes: float) -> None:
    assert_ends_well(tmp_path, scene, most_bytes)


@settings(FUZZ, max_examples=80)
@given(on_pipes_and_terminals)
def test_no_command_is_broken_by_what_it_is_given(most_bytes: float, scene: Scene) -> None:
    with tempfile.TemporaryDirectory() as folder:
        assert_ends_well(Path(folder), scene, most_bytes)


@settings(FUZZ, max_examples=8)
@given(on_screen)
def test_the_console_shows_what_is_there_and_can_be_quit(most_bytes: float, scene: Scene) -> None:
    with tempfile.TemporaryDirectory() as folder:
        assert_ends_well(Path(folder), scene, most_bytes)

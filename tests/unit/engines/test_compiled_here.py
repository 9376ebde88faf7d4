"""What torch.compile has made: kept for all launches of a run, and gone with the run's last one."""

import io
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from ddptui.config.trial import Trial
from ddptui.engines.hub import Hub
from ddptui.engines.local import engine
from ddptui.engines.local.warm import WarmParent
from ddptui.store.journal import RepeatJournal

Told = Callable[[Trial, Path], Mapping[str, str]]


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Told:
    """What ranks would have in their environment besides, in a run that is kept in a folder."""
    started: list[Mapping[str, str]] = []
    monkeypatch.setattr(engine, "start_local", lambda trial, command, environment, *rest: started.append(environment))
    monkeypatch.delenv(engine.COMPILED, raising=False)

    def tell(trial: Trial, run: Path) -> Mapping[str, str]:
        with Hub(1) as hub:
            local = engine.LocalEngine(run, WarmParent())
            local.start(trial, [], RepeatJournal(run / "trial-a" / "repeat-1", 1, io.BytesIO()), hub)
        return started[-1]

    return tell


def test_all_launches_of_a_run_share_what_is_compiled(told: Told, tmp_path: Path) -> None:
    first, second = (told(Trial(compile=True), tmp_path) for _ in range(2))
    assert first["TORCHINDUCTOR_CACHE_DIR"] == second["TORCHINDUCTOR_CACHE_DIR"] == str(tmp_path / "compiled")
    assert first["TMPDIR"] != second["TMPDIR"]


def test_who_compiles_nothing_hears_nothing_of_it(told: Told, tmp_path: Path) -> None:
    assert engine.COMPILED not in told(Trial(), tmp_path)


def test_who_names_a_folder_for_it_keeps_his_own(told: Told, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(engine.COMPILED, "/mine")
    assert engine.COMPILED not in told(Trial(compile=True), tmp_path)


def test_a_folder_that_a_compiler_would_take_for_two_is_not_named(told: Told, tmp_path: Path) -> None:
    assert engine.COMPILED not in told(Trial(compile=True), tmp_path / "my runs")


def test_when_the_run_is_over_nothing_of_it_is_left(tmp_path: Path) -> None:
    (tmp_path / "compiled" / "ab").mkdir(parents=True)
    (tmp_path / "preset.toml").touch()
    engine.LocalEngine(tmp_path, WarmParent()).close()
    assert [path.name for path in tmp_path.iterdir()] == ["preset.toml"]

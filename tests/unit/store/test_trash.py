"""The trash: what is deleted moves there, and comes back as it was."""

import os
import shutil
from pathlib import Path

import pytest

from ddptui.store.runs import Run, RunError, all_runs
from ddptui.store.trash import TRASH, deleted, discard, empty, restore
from tests.support.builders import journal, two_trials, write_run


def a_run(runs: Path, name: str) -> Run:
    return Run(write_run(runs, two_trials(), journal("a"), journal("b")).folder.rename(runs / name))


def names(runs: Path) -> list[str]:
    return [run.name for run in all_runs(runs)]


def in_trash(runs: Path) -> list[str]:
    return [each.run.name for each in deleted(runs)]


def content(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_deleted_run_is_in_the_trash_alone_and_comes_back_as_it_was(tmp_path: Path) -> None:
    run, _ = a_run(tmp_path, "x"), a_run(tmp_path, "y")
    was = content(run.folder)
    assert discard(tmp_path, [run]).problems == []
    assert (names(tmp_path), in_trash(tmp_path)) == (["y"], ["x"])
    [back] = restore(tmp_path).runs
    assert back.folder == run.folder
    assert content(back.folder) == was
    assert (names(tmp_path), in_trash(tmp_path)) == (["y", "x"], [])
    assert list((tmp_path / TRASH).iterdir()) == []


def test_what_was_deleted_together_comes_back_together_the_last_deletion_first(tmp_path: Path) -> None:
    w, x, y, z = (a_run(tmp_path, name) for name in "wxyz")
    discard(tmp_path, [w])
    discard(tmp_path, [x, y])
    discard(tmp_path, [z])
    assert in_trash(tmp_path) == ["z", "y", "x", "w"]
    for back in ({"z"}, {"x", "y"}, {"w"}):
        assert {run.name for run in restore(tmp_path).runs} == back
    assert restore(tmp_path).problems == [f"nothing in the trash of {tmp_path}; `ddptui runs --trash` lists it"]


def test_two_runs_of_one_name_are_both_kept_and_both_come_back(tmp_path: Path) -> None:
    for text in ("old", "new"):
        run = a_run(tmp_path, "x")
        (run.folder / "note").write_text(text)
        assert discard(tmp_path, [run]).problems == []
    assert in_trash(tmp_path) == ["x", "x"]
    assert [restore(tmp_path, "x").runs[0].name for _ in range(2)] == ["x", "x.2"]
    assert [(tmp_path / name / "note").read_text() for name in ("x", "x.2")] == ["new", "old"]


def test_a_run_that_a_console_holds_stays_and_the_others_go(tmp_path: Path) -> None:
    held, free = a_run(tmp_path, "held"), a_run(tmp_path, "free")
    with held.held():
        moved = discard(tmp_path, [held, free])
    assert [run.name for run in moved.runs] == ["free"]
    assert moved.problems == [f"{held.folder}: not deleted: a console is running it: stop it there first"]
    assert (names(tmp_path), in_trash(tmp_path)) == (["held"], ["free"])


def test_what_is_no_run_of_that_folder_is_left_alone(tmp_path: Path) -> None:
    runs, elsewhere = tmp_path / "runs", a_run(tmp_path / "elsewhere", "x")
    a_run(runs, "y")
    link, nothing = runs / "link", runs / "nothing"
    link.symlink_to(elsewhere.folder)
    nothing.mkdir()
    for folder in (link, nothing, elsewhere.folder, runs, runs / ".." / "elsewhere" / elsewhere.name, runs / "gone"):
        moved = discard(runs, [Run(folder)])
        assert moved.runs == []
        assert "not deleted: it is not a run's folder" in moved.problems[0]
    assert (elsewhere.folder / "preset.toml").is_file()
    assert link.is_symlink()
    assert nothing.is_dir()
    assert deleted(runs) == []


def test_a_run_that_cannot_be_moved_stays_and_a_trash_that_leads_elsewhere_is_not_emptied(tmp_path: Path) -> None:
    run = a_run(tmp_path, "x")
    (tmp_path / TRASH).write_text("a file, where the trash should be")
    assert discard(tmp_path, [run]).problems == [f"{run.folder}: not deleted: Not a directory"]
    assert names(tmp_path) == ["x"]
    runs, elsewhere = tmp_path / "runs", tmp_path / "elsewhere"
    a_run(elsewhere, "x")
    runs.mkdir()
    (runs / TRASH).symlink_to(elsewhere)
    with pytest.raises(RunError, match="not emptied"):
        empty(runs)
    assert names(elsewhere) == ["x"]


def test_only_emptying_deletes_for_good_and_follows_no_link(tmp_path: Path) -> None:
    runs, precious = tmp_path / "runs", tmp_path / "precious"
    precious.mkdir()
    (precious / "file").touch()
    run, other = a_run(runs, "x"), a_run(runs, "y")
    (run.folder / "link").symlink_to(precious)
    discard(runs, [run])
    assert empty(runs) == 1
    assert empty(runs) == 0
    assert not os.path.lexists(runs / TRASH)
    assert names(runs) == [other.name]
    assert (precious / "file").exists()


def test_one_run_can_be_named_and_what_ddptui_has_not_put_there_is_not_listed(tmp_path: Path) -> None:
    discard(tmp_path, [a_run(tmp_path, "x"), a_run(tmp_path, "y")])
    shutil.copytree(deleted(tmp_path)[0].run.folder, tmp_path / TRASH / "by-hand" / "w")
    (tmp_path / TRASH / "file").touch()
    assert [run.name for run in restore(tmp_path, "x").runs] == ["x"]
    assert in_trash(tmp_path) == ["y"]
    assert "no run 'z' in the trash" in restore(tmp_path, "z").problems[0]

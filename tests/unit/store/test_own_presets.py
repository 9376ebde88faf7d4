"""The user's own presets: renamed, deleted, brought back; those of others are left alone."""

from pathlib import Path

import pytest

from ddptui.config.parser import PresetError
from ddptui.store import user_presets
from ddptui.store.presets import load

TEXT = 'title = "Mine"  # my words\n[[trial]]\nname = "a"\n'


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "config" / "ddptui" / "presets"
    folder.mkdir(parents=True)
    for name in ("one", "two"):
        (folder / f"{name}.toml").write_text(TEXT, encoding="utf-8")
    return folder


def names(own: Path) -> set[str]:
    return {path.stem for path in own.glob("*.toml")}


def test_only_those_in_the_users_folder_are_his(own: Path, tmp_path: Path) -> None:
    (tmp_path / "presets").mkdir()
    (tmp_path / "presets" / "ours.toml").write_text(TEXT, encoding="utf-8")
    assert user_presets.why_not_own("one") == ""
    assert user_presets.why_not_own("quickstart") == "quickstart is shipped with ddptui"
    assert user_presets.why_not_own("ours") == "ours belongs to this project: presets/ours.toml"
    assert user_presets.why_not_own("nowhere") == "nowhere no longer exists"


def test_the_last_one_deleted_comes_back_first_as_it_was(own: Path) -> None:
    user_presets.discard("one")
    user_presets.discard("two")
    assert names(own) == set()
    assert [user_presets.bring_back(), user_presets.bring_back()] == ["two", "one"]
    assert (own / "one.toml").read_text(encoding="utf-8") == TEXT
    assert [*(own / user_presets.TRASH).iterdir()] == []
    with pytest.raises(PresetError, match="the trash is empty"):
        user_presets.bring_back()


def test_one_that_comes_back_takes_no_other_ones_place_and_other_files_stay(own: Path) -> None:
    user_presets.discard("one")
    [stamp] = (own / user_presets.TRASH).iterdir()
    (stamp / "notes.txt").write_text("mine", encoding="utf-8")
    assert user_presets.bring_back() == "one"
    assert [*stamp.iterdir()] == [stamp / "notes.txt"]
    user_presets.discard("one")
    (own / "one.toml").write_text("new", encoding="utf-8")
    assert user_presets.bring_back() == "one-2"
    assert (own / "one.toml").read_text(encoding="utf-8") == "new"
    assert load("one-2").title == "Mine"


def test_a_renamed_one_keeps_its_text_and_one_in_its_way_can_be_brought_back(own: Path) -> None:
    (own / "two.toml").write_text("other", encoding="utf-8")
    user_presets.rename("one", "two")
    assert names(own) == {"two"}
    assert (own / "two.toml").read_text(encoding="utf-8") == TEXT
    assert user_presets.bring_back() == "two-2"
    assert (own / "two-2.toml").read_text(encoding="utf-8") == "other"


def test_one_that_is_saved_over_another_can_be_undone_and_what_cannot_be_moved_is_said(own: Path) -> None:
    user_presets.save(load("quickstart"), "one")
    assert load("one").title == load("quickstart").title
    assert user_presets.bring_back() == "one-2"
    assert (own / "one-2.toml").read_text(encoding="utf-8") == TEXT
    with pytest.raises(PresetError, match=r"gone.toml: cannot be moved to .*: No such file"):
        user_presets.discard("gone")

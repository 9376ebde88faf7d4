"""The command line on runs: listed, deleted, shown, compared, and what the settings change."""

import csv
import io
import json
import re
from pathlib import Path

import pytest

from ddptui.cli import inspect
from ddptui.report import table
from ddptui.store.runs import Run
from tests.support.builders import failure, journal, preset_of, two_trials, write_preset, write_run
from tests.unit.cli.test_cli import assert_refused, ddptui, write_settings

pytestmark = pytest.mark.usefixtures("at_home")


@pytest.fixture
def run(tmp_path: Path) -> Run:
    journals = [journal("a", 1), journal("b", 1, step_ms=20), journal("a", 2), failure("b", 2)]
    return write_run(tmp_path / "runs", two_trials(), *journals)


def test_the_runs_are_listed_with_their_outcomes_and_those_under_way(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = f"{run.name}  failed  1 of 2 trials finished\n"
    assert ddptui("runs", "--runs", "runs").stdout == expected
    monkeypatch.setenv("DDPTUI_RUNS", "runs")
    assert ddptui("runs").stdout == expected
    with run.held():
        assert ddptui("runs", "--runs", "runs").stdout == f"{run.name}  under way  1 of 2 trials finished\n"


def test_the_runs_are_listed_as_json(run: Run) -> None:
    [told] = json.loads(ddptui("runs", "--runs", "runs", "--json").stdout)
    keys = "name folder started status under_way preset repeats baseline fastest trials problem"
    assert [*told] == keys.split()  # a promise, as those of results.json
    assert (told["name"], told["folder"], told["status"]) == (run.name, str(run.folder), "failed")
    assert told["trials"][1] == {"name": "b", "status": "failed", "repeats": 1, "train_time_s": pytest.approx(0.06)}
    assert json.loads(ddptui("runs", "--runs", "nowhere", "--json").stdout) == []
    assert json.loads(ddptui("runs", "--runs", "runs", "--json", "--trash").stdout) == []
    ddptui("delete", "last", "--runs", "runs")
    [deleted] = json.loads(ddptui("runs", "--runs", "runs", "--json", "--trash").stdout)
    assert [*deleted] == ["name", "folder", "deleted"]
    assert deleted["name"] == run.name


@pytest.mark.parametrize(
    "command", [("show",), ("report",), ("compare", "last"), ("verify",), ("project",), ("delete",), ("attach",)]
)
def test_every_command_that_takes_a_run_takes_the_name_of_its_preset(command: tuple[str, ...], run: Run) -> None:
    result = ddptui(*command, "made", "--runs", "runs")
    assert "no run 'made'" not in result.output
    assert "no run 'nothing'" in ddptui(*command, "nothing", "--runs", "runs").output


def test_a_deleted_run_is_brought_back_and_only_an_emptied_trash_is_gone(run: Run) -> None:
    def listed(*words: str) -> str:
        return ddptui("runs", "--runs", "runs", *words).stdout

    before = listed()
    assert ddptui("delete", "last", run.name, "--runs", "runs").stderr.splitlines() == [
        f"moved to the trash: {run.name}",
        "`ddptui restore` brings back the runs that were deleted last",
    ]
    assert listed() == "no runs yet: start one with `ddptui run quickstart`\n"
    assert listed("--trash").startswith(f"{run.name}  deleted 20")
    assert ddptui("restore", "--runs", "runs").stderr == f"restored: {run.name}\n"
    assert (listed(), listed("--trash")) == (before, "the trash is empty\n")
    ddptui("delete", run.name, "--runs", "runs")
    assert ddptui("delete", "--empty-trash", "--runs", "runs").stderr == "deleted permanently: 1 run\n"
    assert_refused(ddptui("restore", run.name, "--runs", "runs"), f"no run '{run.name}' in the trash of ")


def test_nothing_is_deleted_if_one_name_is_wrong_or_a_console_holds_the_run(run: Run) -> None:
    assert_refused(ddptui("delete", run.name, "nothing", "--runs", "runs"), "no run 'nothing' in ")
    with run.held():
        assert_refused(ddptui("delete", run.name, "--runs", "runs"), "a console is running it: stop it there first")
    assert run.folder.is_dir()


def test_a_run_is_shown_again_in_every_format_also_from_its_journals_alone(run: Run) -> None:
    shown = {name: ddptui("show", "last", "--runs", "runs", "--format", name).stdout for name in table.FORMATS}
    assert json.loads(shown["json"]) == json.loads((run.folder / "results.json").read_bytes())
    assert [row["trial"] for row in csv.DictReader(io.StringIO(shown["csv"]))] == ["a", "a", "b"]
    assert shown["markdown"].startswith("## A or b?\n\nb took about 2.00 times as long as a; ")
    result = ddptui("show", "last", "--runs", "runs")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.startswith("A or b?\n\nb took about 2.00 times as long as a; ")
    assert "trial b failed: rank 1 was killed by SIGKILL\n  the log's end\n" in result.stdout
    assert ddptui("show", run.name, "--runs", "runs").stdout == result.stdout
    assert ddptui("show", str(run.folder)).stdout == result.stdout
    (run.folder / "results.json").unlink()
    assert ddptui("show", "last", "--runs", "runs").stdout == result.stdout


def test_a_run_that_is_not_there_or_spoilt_is_refused(tmp_path: Path, run: Run) -> None:
    assert_refused(ddptui("show", "nothing", "--runs", "runs"), f"no run 'nothing' in {tmp_path / 'runs'}")
    assert_refused(ddptui("show", "last", "--runs", "nowhere"), "no run 'last'")
    (run.folder / "preset.toml").write_text("titel = 1")
    assert_refused(ddptui("show", "last", "--runs", "runs"), "did you mean 'title'?")


@pytest.fixture
def two(tmp_path: Path) -> tuple[str, str]:
    """The names of two runs, of which the later one is three times as slow in `a`."""
    names = ("20260101-120000-made", "20260102-120000-made")
    for name, lengths in zip(names, ((100, 120), (300, 360)), strict=True):
        journals = [journal("a", number, step_ms=ms) for number, ms in enumerate(lengths, 1)]
        run = write_run(tmp_path / "runs", two_trials(), *journals, journal("b"), journal("b", 2))
        run.folder.rename(tmp_path / "runs" / name)
    return names


def test_two_runs_are_compared_in_one_table(two: tuple[str, str]) -> None:
    result = ddptui("compare", *two, "--runs", "runs")
    assert (result.exit_code, result.stderr) == (0, "")
    title, _, answer, *_ = result.stdout.splitlines()
    assert title == f"A: {two[0]}, B: {two[1]}"
    assert answer.startswith("B:a took 3.00 ± 0.60 times as long as A:a; 660 ms of the extra 660 ms")
    rows = re.findall(r"^([AB]:[ab])  ", result.stdout, re.MULTILINE)
    assert rows == ["A:a", "B:a", "A:b", "B:b"]
    for names in (("20260101", "last"), (f"runs/{two[0]}", f"runs/{two[1]}")):
        assert ddptui("compare", *names, "--runs", "runs").stdout == result.stdout
    assert "B:a took 0.33 ± 0.07 times as long as A:a" in ddptui("compare", *reversed(two), "--runs", "runs").stdout


def test_two_runs_are_compared_in_the_formats_of_any_run_and_trials_matched_by_hand(two: tuple[str, str]) -> None:
    shown = {name: ddptui("compare", *two, "--runs", "runs", "--format", name).stdout for name in inspect.FORMATS}
    second = json.loads(shown["json"])["trials"][1]
    assert (second["name"], second["summary"]["ratio"]["median"]) == ("B:a", pytest.approx(3))
    rows = [*csv.DictReader(io.StringIO(shown["csv"]))]
    assert [row["trial"] for row in rows] == ["A:a", "A:a", "B:a", "B:a", "A:b", "A:b", "B:b", "B:b"]
    assert "| trial | launch |" in shown["markdown"]
    assert "B:b, repeat 2" in shown["trace"]
    assert shown["html"].startswith("<!doctype html>")
    assert shown["svg"].lstrip().startswith("<")
    matched = ddptui("compare", *two, "--match", "a=b", "--match", "b=a", "--runs", "runs")
    assert (matched.exit_code, matched.stderr) == (0, "")
    assert "B:a took 33.00 ± 3.00 times as long as A:b" in matched.stdout
    assert_refused(ddptui("compare", *two, "--match", "a=x", "--runs", "runs"), "--match a=x: no trial 'x' in B")


def test_what_cannot_be_compared_is_refused(tmp_path: Path, two: tuple[str, str]) -> None:
    assert_refused(ddptui("compare", "last", two[1], "--runs", "runs"), f"A and B are the same run, {two[1]}: name two")
    assert_refused(ddptui("compare", "last", "nothing", "--runs", "runs"), "no run 'nothing' in ")
    preset = preset_of({"kind": "primitives", "defaults": {"primitives": "see"}, "trial": [{"name": "a"}]})
    timed = write_run(tmp_path / "runs", preset)
    assert_refused(ddptui("compare", two[0], timed.name, "--runs", "runs"), f"{timed.name} ran primitives, the other")


def test_a_pane_that_cannot_be_drawn_is_refused_in_one_line(two: tuple[str, str]) -> None:
    for typed, why in (
        (("--pane", "matrix"), "--pane chooses what a picture shows: add `--format svg`"),
        (("--format", "svg", "--trial", "a"), "--trial needs `--format svg --pane` with one of matrix, arrivals, time"),
        (("--format", "svg", "--pane", "curves", "--trial", "a"), "--trial needs"),
    ):
        assert_refused(ddptui("show", "no-such-run", *typed), why)
    show = ("show", two[0], "--runs", "runs", "--format", "svg", "--pane")
    assert ddptui(*show, "timeline", "--trial", "b").stdout.startswith("<svg ")
    assert_refused(ddptui(*show, "matrix", "--trial", "x"), f"{two[0]}: no trial 'x'; its trials: a, b")
    assert_refused(ddptui(*show, "matrix"), f"{two[0]}: no picture of matrix: no steps were recorded, ")


def test_the_settings_are_told_with_their_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("COLORFGBG", "TEXTUAL_THEME", "SSH_CONNECTION"):
        monkeypatch.delenv(variable, raising=False)
    file = tmp_path / "config" / "ddptui" / "config.toml"
    assert ddptui("config").stdout.splitlines() == [
        f"{file} (does not exist: create it to change a setting)",
        "",
        "theme    textual-dark  default",
        "refresh  4 per second  default",
        "columns  none          default",
        "lang     en            default",
        "keys     none          default",
    ]
    kept = 'theme = "nord"\nrefresh = 2.5\ncolumns = ["startup", "sync"]\n[keys]\nplay = ["a", "f6"]\n'
    write_settings(tmp_path, kept)
    monkeypatch.setenv("TEXTUAL_THEME", "dracula")
    assert ddptui("config").stdout.splitlines() == [
        str(file),
        "",
        "theme      dracula         environment: TEXTUAL_THEME",
        "refresh    2.5 per second  file",
        "columns    startup, sync   file",
        "lang       en              default",
        "keys.play  a, f6           file",
    ]


def test_columns_of_the_settings_come_after_those_of_the_preset(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_run(tmp_path / "runs", two_trials(), journal("a"), journal("b", step_ms=20))
    write_run(tmp_path / "others", two_trials(columns=["samples"]), journal("a"), journal("b", step_ms=20))

    def header(runs: str) -> str:
        return next(line for line in ddptui("show", "last", "--runs", runs).stdout.splitlines() if "train s" in line)

    monkeypatch.setenv("COLUMNS", "32")
    assert "start s" not in header("runs")
    write_settings(tmp_path, 'columns = ["startup"]')
    assert "start s" in header("runs")
    assert "start s" not in header("others")
    assert "samples/s" in header("others")


def test_titles_and_findings_are_in_the_language_of_the_settings(tmp_path: Path, in_chinese: None) -> None:
    preset = two_trials(
        zh={"title": "哪一个更快？", "about": "两个试验。"}, question=[{"text": "Which?", "zh": "哪个？"}]
    )
    run = write_run(tmp_path / "data" / "ddptui" / "runs", preset, journal("a"), journal("b", step_ms=20))
    in_english = ddptui("show", str(run.folder)).stdout
    assert "took about 2.00 times as long as a" in in_english
    assert "哪" not in in_english
    write_preset(tmp_path / "config" / "ddptui", 'lang = "zh"', "config.toml")
    text = ddptui("show", str(run.folder)).stdout
    assert text.startswith("哪一个更快？\n\nb 的用时约为 a 的 2.00 倍；")
    assert ddptui("show", str(run.folder), "--format", "markdown").stdout.startswith("## 哪一个更快？\n")
    assert '<html lang="zh">' in ddptui("show", str(run.folder), "--format", "html").stdout
    assert ddptui("presets", str(run.folder / "preset.toml")).stdout.startswith("哪一个更快？\n\n两个试验。\n")

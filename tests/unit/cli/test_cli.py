"""The command line: what it prints, and how it refuses. Nothing here starts a rank."""

import csv
import io
import json
import os
import pty
import re
import subprocess
import sys
from importlib.metadata import requires
from pathlib import Path
from typing import get_args

import pytest
from click.testing import CliRunner, Result

from ddptui import __version__
from ddptui.cli import NEEDED, inspect, machine, main, options
from ddptui.config.engine import EngineName
from ddptui.config.launch_modes import LAUNCH_MODES
from ddptui.config.preset import Preset
from ddptui.projection import Scaling
from ddptui.projection import report as projection_report
from ddptui.report import table
from ddptui.run.resume import Resumption
from ddptui.store.runs import Run
from ddptui.tui.screens import export
from tests.support.builders import failure, journal, preset_of, two_trials, write_preset, write_run

TINY = '[[trial]]\nname = "a"\n[[trial]]\nname = "b"\n'


@pytest.fixture(autouse=True)
def at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, signals_given_back: None) -> None:
    """Every file of this user's is below tmp_path."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("LINES", "40")
    for variable in ("DDPTUI_RUNS", "DDPTUI_DATA"):
        monkeypatch.delenv(variable, raising=False)


def ddptui(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments)


def assert_refused(result: Result, fragment: str) -> None:
    """Exit code 2, one line on stderr, nothing on stdout, and no traceback."""
    assert isinstance(result.exception, SystemExit), result.exception
    assert result.exit_code == 2
    assert result.stdout == ""
    [line] = result.stderr.splitlines()
    assert line.startswith("Error: ")
    assert fragment in line


@pytest.mark.parametrize("text", ["titel = 1", "\0"])
def test_a_bad_preset_is_refused_in_one_line(tmp_path: Path, text: str) -> None:
    path = write_preset(tmp_path, text)
    assert_refused(ddptui("--no-ui", "--preset", str(path)), f"{path}: ")
    assert_refused(ddptui("presets", str(path)), f"{path}: ")


@pytest.mark.parametrize(
    ("arguments", "fragment"),
    [
        ((), "name a preset: `ddptui run NAME`; `ddptui presets` lists them"),
        (("quickstart",), "no command 'quickstart'; to run this preset: `ddptui run quickstart`"),
        (("run",), "name a preset: `ddptui run NAME`; `ddptui presets` lists them"),
        (("run", "quickstart", "--runs", ""), "--runs is empty: give a folder"),
        (("run", "quickstart", "--set", "ranks=4"), "--set ranks: no such field; write world_size"),
        (("quickstrat",), "no command 'quickstrat'; did you mean 'quickstart'? `ddptui run NAME` runs a preset"),
        (("xyz",), "no command 'xyz'; `ddptui --help` lists the commands; `ddptui run NAME` runs a preset"),
        (("shw", "last"), "no command 'shw'; did you mean 'show'?"),
        (("presets", "--fields", "x"), "--fields lists the fields that all presets have: leave out x"),
        (("--preset", "quickstart", "--set", "amp=off"), "one of bf16, fp16; leave it out for none"),
        (("--preset", "quickstrat"), "no preset 'quickstrat'; did you mean 'quickstart'?"),
        (("--preset", "."), "no preset '.'"),
        (("--preset", "quickstart", "--set", "epochs"), "--set epochs: expected KEY=VALUE"),
        (("--preset", "quickstart", "--set", "epoch=1"), "--set epoch: unknown key; did you mean 'epochs'?"),
        (("--preset", "quickstart", "--set", "epochs=many"), 'epochs: expected an integer, got "many"'),
        (("--preset", "quickstart", "--set", "model=nett"), "no model 'nett'; did you mean 'net'?"),
        (("--preset", "quickstart", "--set", "dataset=mnist"), "dataset mnist is not in "),
        pytest.param(("--preset", "quickstart", "--set", "data_dir=\udcff"), "", id="a path that is no text"),
        pytest.param(("--preset", "quickstart", "--set", "seed=" + "1" * 5_000), "", id="a number without end"),
        pytest.param(("--preset", "quickstart", "--set", "shape=" + "[" * 5_000), "", id="nested without end"),
    ],
)
def test_bad_arguments_are_refused_in_one_line(arguments: tuple[str, ...], fragment: str) -> None:
    headless = () if arguments[:1] and not arguments[0].startswith("-") else ("--no-ui",)  # a command takes none
    assert_refused(ddptui(*arguments, *headless), fragment)


@pytest.mark.parametrize(
    ("arguments", "fragment"),
    [
        (("--preset", "quickstart", "--repeats", "0"), "'--repeats': expected a whole number from 1 to 1000, got 0"),
        (("--no-such-option",), "No such option"),
        (("show",), "Missing argument"),
        (("show", "last", "--format", "xml"), "--format"),
        (("verify",), "Missing argument"),
        (("compare", "last"), "Missing argument 'B'"),
    ],
)
def test_bad_usage_is_refused_with_a_hint(arguments: tuple[str, ...], fragment: str) -> None:
    result = ddptui(*arguments)
    assert isinstance(result.exception, SystemExit)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith("Usage: ")
    assert fragment in result.stderr.splitlines()[-1]


def on_a_terminal(*words: str, keys: bool = True, term: str = "xterm") -> subprocess.CompletedProcess[str]:
    """With a stdout that is one; and a stdin, if it has keys."""
    master, terminal = pty.openpty()
    try:
        return subprocess.run(
            [sys.executable, "-m", "ddptui", *words],
            env={**os.environ, "TERM": term},
            stdin=terminal if keys else subprocess.DEVNULL,
            stdout=terminal,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            timeout=60,
        )
    finally:
        os.close(terminal)
        os.close(master)


@pytest.mark.parametrize(
    ("words", "keys", "why"),
    [
        (("--preset", "quickstart"), False, "the console needs a terminal to read keys from"),
        (("--theme", "dracul"), True, "--theme dracul: not one of "),
        (("--repeats", "2"), True, "change a preset need one: `ddptui run NAME"),
        (("--refresh", "0"), True, "'--refresh'"),
        (("--set", "epochs=7", "presets"), True, "`ddptui presets --help` lists its options"),
        (("--runs", "runs", "runs"), True, "options come after the command"),
        (("run", "quickstart", "--theme", "dracul"), True, "--theme dracul: not one of "),
    ],
)
def test_the_console_does_not_open_for_bad_input(words: tuple[str, ...], keys: bool, why: str) -> None:
    done = on_a_terminal(*words, keys=keys)
    assert done.returncode == 2
    assert why in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("words", [(), ("run", "quickstart"), ("watch", "--", "touch", "started")])
@pytest.mark.parametrize(("keys", "term"), [(True, "dumb"), (True, "unknown"), (False, "xterm")])
def test_the_console_does_not_open_where_no_screen_can_be_shown(
    words: tuple[str, ...], keys: bool, term: str, tmp_path: Path
) -> None:
    done = on_a_terminal(*words, keys=keys, term=term)
    assert done.returncode == 2
    [line] = done.stderr.splitlines()
    assert line.startswith("Error: the console needs a terminal ")
    assert line.endswith("; without one, run headless with --no-ui")
    assert keys == (f"TERM={term} cannot" in line)
    assert not (tmp_path / "started").exists()


def test_into_a_pipe_no_console_opens_and_what_runs_headless_is_said() -> None:
    for typed in ((), ("--theme", "nord")):
        assert_refused(
            ddptui(*typed), "and stdout is not one; `ddptui run NAME --no-ui` runs a preset without the console"
        )


@pytest.mark.parametrize("words", [("run", "quickstart", "--no-ui"), ("watch", "--no-ui", "--", "touch", "started")])
def test_what_ddptui_lacks_is_said_before_anything_is_made(words: tuple[str, ...], tmp_path: Path) -> None:
    lacking = "import sys; sys.modules['msgspec'] = sys.modules['zmq'] = None; from ddptui.cli import start; start()"
    command = [sys.executable, "-c", lacking, *words]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    [line] = done.stderr.splitlines()
    assert (done.returncode, done.stdout) == (2, "")
    assert "lacks msgspec, pyzmq; install with `" in line
    assert [*tmp_path.iterdir()] == []


def test_all_that_ddptui_depends_on_is_looked_for() -> None:
    packages = {re.split(r"[<>=]", wanted)[0] for wanted in requires("ddptui") or [] if "extra ==" not in wanted}
    assert packages - {"torch", "torchvision", "click"} == {*NEEDED.values()}  # click prints the line


def test_the_presets_are_listed_the_lessons_first() -> None:
    result = ddptui("presets")
    assert (result.exit_code, result.stderr) == (0, "")
    groups = [line for line in result.stdout.splitlines() if line and not line.startswith(" ")]
    assert groups == ["Start here", "Lessons", "More"]
    assert result.stdout.splitlines()[1].startswith("  playground ")
    assert "  quickstart " in result.stdout
    assert "One process, or two that average their gradients?  (3 trials, 3 repeats)" in result.stdout


def test_a_preset_of_ones_own_is_listed_and_a_bad_one_says_why(tmp_path: Path) -> None:
    write_preset(tmp_path / "presets", 'title = "Mine?"\nrepeats = 2\n' + TINY, "mine.toml")
    write_preset(tmp_path / "presets", "titel = 1", "bad.toml")
    result = ddptui("presets")
    assert result.exit_code == 0
    assert "Mine?  (2 trials, 2 repeats)" in result.stdout
    assert "presets/bad.toml: titel: unknown key; did you mean 'title'?" in result.stdout


def test_one_preset_is_shown_with_its_commands_overrides_and_delays() -> None:
    result = ddptui("presets", "quickstart")
    assert (result.exit_code, result.stderr) == (0, "")
    lines = result.stdout.splitlines()
    assert lines[0] == "One process, or two that average their gradients?"
    trials = ("one-process  (baseline)", "all_reduce", "ddp")
    assert tuple(line for line in lines if line in trials) == trials
    [single] = [line for line in lines if "workers.single" in line]
    assert single == f"  {sys.executable} -m workers.single world_size=1 batch_size=128 epochs=10 lr=0.05"
    assert sum("workers.spawn" in line for line in lines) == 2
    assert lines[-1] == "3 trials, 3 repeats of each, in turn"
    result = ddptui("presets", "quickstart", "--set", "epochs=7")
    assert result.exit_code == 0
    assert result.stdout.count("epochs=7") == 3
    assert "; bottleneck aggregate 10 ms on 1; " in ddptui("presets", "bottleneck-where").stdout


def preset_given_to_run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> Preset:
    """The preset with which a run would begin."""
    given: list[Preset] = []

    def begin(preset: Preset, runs: Path, **_: object) -> int:
        given.append(preset)
        return 0

    monkeypatch.setattr("ddptui.run.headless.run", begin)
    result = ddptui("--no-ui", *arguments)
    assert result.exit_code == 0, result.output
    return given[0]


def write_settings(folder: Path, text: str) -> Path:
    """This user's settings."""
    file = folder / "config" / "ddptui" / "config.toml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file


EVERY_OPTION = {
    "--repeats": "2", "--wait-quiet": "3", "--set": "epochs=1", "--engine": "join", "--nodes": "2", "--json": None,
    "--runs": "elsewhere",
}  # fmt: skip


def test_run_takes_what_the_option_preset_takes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[tuple[Preset, Path, dict[str, object]]] = []

    def begin(preset: Preset, runs: Path, **how: object) -> int:
        begun.append((preset, runs, how))
        return 0

    monkeypatch.setattr("ddptui.run.headless.run", begin)
    words = [word for pair in EVERY_OPTION.items() for word in pair if word]
    write_settings(tmp_path, 'columns = ["startup"]')
    path = str(write_preset(tmp_path, "repeats = 3\n" + TINY))
    for typed in (("--preset", path, *words), ("run", path, *words), ("run", *words, path)):
        result = ddptui(*typed)
        assert result.exit_code == 0, result.output
    assert begun == [begun[0]] * 3
    preset, runs, how = begun[0]
    assert (preset.repeats, preset.trials[0].epochs, preset.engine.name, preset.engine.nodes) == (2, 1, "join", 2)
    assert (runs, how) == (tmp_path / "elsewhere", {"as_json": True, "usual": ("startup",), "quiet_within_s": 3.0})


def test_run_has_every_option_that_the_program_has_for_a_preset() -> None:
    own = {"--preset", "--resume", "--version"}
    options = {option for parameter in main.params for option in parameter.opts} - own
    assert options == {option for each in main.commands["run"].params for option in each.opts} - {"name"}
    assert {*EVERY_OPTION} < options


def with_data(folder: Path) -> Path:
    """A folder that looks as if it had MNIST."""
    raw = folder / "MNIST" / "raw"
    raw.mkdir(parents=True)
    for part in ("train", "t10k"):
        (raw / f"{part}-images-idx3-ubyte").touch()
        (raw / f"{part}-labels-idx1-ubyte").touch()
    return folder


@pytest.mark.parametrize(
    "arguments",
    [
        ("--repeats", "2", "--set", "epochs=1"),
        ("--set", "world_size=1", "--set", "dataset=mnist", "--set", "data_dir=data"),
    ],
    ids=["fields", "a field of the matrix, and data"],
)
def test_a_run_is_reopened_as_it_was_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    with_data(tmp_path / "data")
    text = 'title = "T"\nrepeats = 3\nbaseline = "world_size-2"\n[matrix]\nworld_size = [1, 2]\n'
    path = write_preset(tmp_path, text)
    preset = preset_given_to_run(monkeypatch, "--preset", str(path), *arguments)
    again = Run.create(tmp_path / "runs", preset, {}).preset()
    for part in ("trials", "repeats", "baseline", "references", "name", "title"):
        assert getattr(again, part) == getattr(preset, part)


def test_the_repeats_asked_for_are_those_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(write_preset(tmp_path, "repeats = 3\n" + TINY))
    assert preset_given_to_run(monkeypatch, "--preset", path).repeats == 3
    assert preset_given_to_run(monkeypatch, "--preset", path, "--repeats", "5").repeats == 5


def test_the_data_of_a_run_is_found_from_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(write_preset(tmp_path, '[[trial]]\ndataset = "mnist"'))
    data = with_data(tmp_path / "mnist")
    monkeypatch.setenv("DDPTUI_DATA", "mnist")
    assert preset_given_to_run(monkeypatch, "--preset", path).trials[0].data_dir == str(data)
    [trial] = preset_given_to_run(monkeypatch, "--preset", path, "--set", "data_dir=mnist/../mnist").trials
    assert trial.data_dir is not None
    assert Path(trial.data_dir).is_absolute()


def test_columns_are_explained_all_or_one() -> None:
    every = ddptui("columns")
    assert every.exit_code == 0
    assert "startup  (start s)" in every.stdout
    one = ddptui("columns", "startup")
    assert one.stdout.startswith("startup  (start s)\n    Seconds")
    assert one.stdout in every.stdout
    assert_refused(ddptui("columns", "startpu"), "no column 'startpu'; did you mean 'startup'?")


def test_without_runs_the_list_says_how_to_make_one(tmp_path: Path) -> None:
    result = ddptui("runs")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == "no runs yet: start one with `ddptui run quickstart`\n"


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


def test_a_run_is_resumed_by_the_name_of_its_preset(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    resumed: list[Path] = []

    def resume(begun: Resumption, **_: object) -> int:
        resumed.append(begun.run.folder)
        return 0

    monkeypatch.setattr("ddptui.run.headless.resume", resume)
    assert ddptui("--resume", "made", "--runs", "runs", "--no-ui").exit_code == 0
    assert resumed == [run.folder]


def test_a_deleted_run_is_brought_back_and_only_an_emptied_trash_is_gone(run: Run) -> None:
    def listed(*words: str) -> str:
        return ddptui("runs", "--runs", "runs", *words).stdout

    before = listed()
    assert ddptui("delete", "last", run.name, "--runs", "runs").stderr.splitlines() == [
        f"moved to the trash: {run.name}",
        "`ddptui restore` brings back the runs that were deleted last",
    ]
    assert listed().startswith("no runs yet")
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


def test_a_run_is_shown_again_also_from_its_journals_alone(run: Run) -> None:
    result = ddptui("show", "last", "--runs", "runs")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.startswith("A or b?\n\nb took about 2.00 times as long as a; ")
    assert "trial b failed: rank 1 was killed by SIGKILL\n  the log's end\n" in result.stdout
    assert ddptui("show", run.name, "--runs", "runs").stdout == result.stdout
    assert ddptui("show", str(run.folder)).stdout == result.stdout
    (run.folder / "results.json").unlink()
    assert ddptui("show", "last", "--runs", "runs").stdout == result.stdout


def test_a_run_is_shown_in_other_formats(run: Run) -> None:
    shown = {name: ddptui("show", "last", "--runs", "runs", "--format", name).stdout for name in table.FORMATS}
    assert json.loads(shown["json"]) == json.loads((run.folder / "results.json").read_bytes())
    assert [row["trial"] for row in csv.DictReader(io.StringIO(shown["csv"]))] == ["a", "a", "b"]
    assert shown["markdown"].startswith("## A or b?\n\nb took about 2.00 times as long as a; ")


def test_a_run_that_is_not_there_or_spoilt_is_refused(tmp_path: Path, run: Run) -> None:
    assert_refused(ddptui("show", "nothing", "--runs", "runs"), f"no run 'nothing' in {tmp_path / 'runs'}")
    assert_refused(ddptui("show", "last", "--runs", "nowhere"), "no run 'last'")
    (run.folder / "preset.toml").write_text("titel = 1")
    assert_refused(ddptui("show", "last", "--runs", "runs"), "did you mean 'title'?")


@pytest.mark.parametrize("spoilt", ["results.json", "environment.json"])
def test_a_run_that_is_spoilt_does_not_end_in_a_traceback(run: Run, spoilt: str) -> None:
    (run.folder / spoilt).write_text("{")
    for arguments in (("runs", "--runs", "runs"), ("show", "last", "--runs", "runs")):
        result = ddptui(*arguments)
        assert result.exception is None or isinstance(result.exception, SystemExit)


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


def test_two_runs_are_compared_in_the_formats_of_any_run(two: tuple[str, str]) -> None:
    shown = {name: ddptui("compare", *two, "--runs", "runs", "--format", name).stdout for name in inspect.FORMATS}
    second = json.loads(shown["json"])["trials"][1]
    assert (second["name"], second["summary"]["ratio"]["median"]) == ("B:a", pytest.approx(3))
    rows = [*csv.DictReader(io.StringIO(shown["csv"]))]
    assert [row["trial"] for row in rows] == ["A:a", "A:a", "B:a", "B:a", "A:b", "A:b", "B:b", "B:b"]
    assert "| trial | launch |" in shown["markdown"]
    assert "B:b, repeat 2" in shown["trace"]
    assert shown["html"].startswith("<!doctype html>")
    assert shown["svg"].lstrip().startswith("<")


def test_what_cannot_be_compared_is_refused(tmp_path: Path, two: tuple[str, str]) -> None:
    assert_refused(ddptui("compare", "last", two[1], "--runs", "runs"), f"A and B are the same run, {two[1]}: name two")
    assert_refused(ddptui("compare", "last", "nothing", "--runs", "runs"), "no run 'nothing' in ")
    preset = preset_of({"kind": "primitives", "defaults": {"primitives": "see"}, "trial": [{"name": "a"}]})
    timed = write_run(tmp_path / "runs", preset)
    assert_refused(ddptui("compare", two[0], timed.name, "--runs", "runs"), f"{timed.name} ran primitives, the other")


def test_trials_of_other_names_are_matched_by_hand(two: tuple[str, str]) -> None:
    matched = ddptui("compare", *two, "--match", "a=b", "--match", "b=a", "--runs", "runs")
    assert (matched.exit_code, matched.stderr) == (0, "")
    assert "B:a took 33.00 ± 3.00 times as long as A:b" in matched.stdout
    assert_refused(ddptui("compare", *two, "--match", "a=x", "--runs", "runs"), "--match a=x: no trial 'x' in B")


def test_a_pane_without_its_picture_is_refused_before_anything_is_read() -> None:
    for typed, why in (
        (("--pane", "matrix"), "--pane chooses what a picture shows: add `--format svg`"),
        (("--format", "svg", "--trial", "a"), "--trial needs `--format svg --pane` with one of matrix, arrivals, time"),
        (("--format", "svg", "--pane", "curves", "--trial", "a"), "--trial needs"),
    ):
        assert_refused(ddptui("show", "no-such-run", *typed), why)


def test_a_pane_that_has_nothing_to_draw_is_refused_in_one_line(two: tuple[str, str]) -> None:
    show = ("show", two[0], "--runs", "runs", "--format", "svg", "--pane")
    assert ddptui(*show, "timeline", "--trial", "b").stdout.startswith("<svg ")
    assert_refused(ddptui(*show, "matrix", "--trial", "x"), f"{two[0]}: no trial 'x'; its trials: a, b")
    assert_refused(ddptui(*show, "matrix"), f"{two[0]}: no picture of matrix: no steps were recorded, ")


def test_the_choices_which_the_command_line_spells_out_are_those_that_there_are() -> None:
    """It may not import them, since it must start fast."""
    assert get_args(EngineName) == options.ENGINES
    assert get_args(Scaling) == inspect.SCALINGS
    pictures = {"svg" if pane == "times" else f"{pane}.svg" for pane in inspect.PANES}
    assert {*inspect.FORMATS, *pictures} == {"table", *table.FORMATS, *export.FORMATS}
    assert set(inspect.PROJECTION_FORMATS) == {"table", "html", *projection_report.FORMATS}
    assert set(machine.SELFTEST_MODES) < set(LAUNCH_MODES)


def test_the_version_and_the_help_are_told() -> None:
    assert ddptui("--version").stdout == f"ddptui, version {__version__}\n"
    for arguments in (("--help",), ("-h",), ("show", "--help")):
        result = ddptui(*arguments)
        assert result.exit_code == 0
        assert result.stdout.startswith("Usage: ")


def test_the_help_has_thirty_lines_at_most_with_every_command_and_the_daily_ones_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = ddptui("--help").stdout.splitlines()
    assert len(lines) <= 30
    assert max(map(len, lines)) <= 80
    headings = [line.strip() for line in lines if line.endswith(":")]
    assert headings == ["Every day:", "The lab:", "Machines:", "Options:"]
    listed = [line for line in lines[: lines.index("Options:")] if line.startswith("    ")]
    commands = [name for line in listed for name in line[4:].split("  ")[0].split(", ")]
    assert commands[:7] == ["run", "watch", "attach", "show", "runs", "delete", "restore"]
    assert sorted(commands) == sorted(main.commands)
    assert all(line.endswith(".") and not line.endswith("...") for line in listed)


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
    write_settings(tmp_path, 'theme = "nord"\n[keys]\nplay = "a"\n')
    monkeypatch.setenv("TEXTUAL_THEME", "dracula")
    first, _, theme, *_, keys = ddptui("config").stdout.splitlines()
    assert (first, theme.split(maxsplit=2)) == (str(file), ["theme", "dracula", "environment: TEXTUAL_THEME"])
    assert keys.split() == ["keys.play", "a", "file"]


def test_the_columns_of_the_settings_are_kept_after_those_of_the_preset(
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

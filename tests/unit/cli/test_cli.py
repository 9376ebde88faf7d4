"""The command line: what it prints, and how it refuses. Nothing here starts a rank."""

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
from ddptui.cli import NEEDED, common, inspect, machine, main
from ddptui.config.catalog import LAUNCH_MODES
from ddptui.config.preset import EngineName, Preset
from ddptui.projection import Scaling
from ddptui.projection import report as projection_report
from ddptui.report import table
from ddptui.tui.screens import export
from tests.support.builders import write_preset

pytestmark = pytest.mark.usefixtures("at_home")
TINY = '[[trial]]\nname = "a"\n[[trial]]\nname = "b"\n'
JOIN, AT_A_FILE = ("--engine", "join"), ("--set", "init_method=file")


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


@pytest.mark.parametrize(
    ("arguments", "fragment"),
    [
        ((), "name a preset: `ddptui run NAME`; `ddptui presets` lists them"),
        (("quickstart",), "no command 'quickstart'; to run this preset: `ddptui run quickstart`"),
        (("run", "quickstart", "--runs", ""), "--runs is empty: give a folder"),
        (("run", "quickstart", "--set", "ranks=4"), "--set ranks: no such field; write world_size"),
        (("quickstrat",), "no command 'quickstrat'; did you mean 'quickstart'? `ddptui run NAME` runs a preset"),
        (("xyz",), "no command 'xyz'; `ddptui --help` lists the commands; `ddptui run NAME` runs a preset"),
        (("shw", "last"), "no command 'shw'; did you mean 'show'?"),
        (("presets", "--fields", "x"), "--fields lists the fields that all presets have: leave out x"),
        (("--preset", "quickstart", "--set", "amp=off"), "one of bf16, fp16; leave it out for none"),
        (("--preset", "."), "no preset '.'"),
        (("--preset", "quickstart", "--set", "epochs"), "--set epochs: expected KEY=VALUE"),
        (("--preset", "quickstart", "--set", "epoch=1"), "--set epoch: unknown key; did you mean 'epochs'?"),
        (("--preset", "quickstart", "--set", "epochs=many"), 'epochs: expected an integer, got "many"'),
        (("--preset", "quickstart", "--set", "model=nett"), "no model 'nett'; did you mean 'net'?"),
        (("--preset", "quickstart", "--set", "name=x"), "--set name: trials cannot share a name"),
        (("--preset", "quickstart", "--set", "length=1"), "--set length: no such field; write epochs or steps"),
        (("--preset", "quickstart", "--set", "repeats=1"), "is not a field of a trial; use --repeats N"),
        (("presets", "--nodes", "3"), "--engine and its options need the name of a preset"),
        (("presets", "quickstart", "--engine", "slurm", "--sbatch", "foo"), "option 'foo' is not an option of sbatch"),
        (("--preset", "quickstart", *JOIN, "--nodes", "0"), "expected an integer of 1 or more, got 0"),
        (("--preset", "quickstart", *JOIN, *AT_A_FILE), "trial all_reduce: init_method: 'file' needs a folder that"),
        (("--preset", "quickstart", *JOIN, *AT_A_FILE, "--shared", "nowhere"), "nowhere: no such folder here"),
        (("selftest", "--strategy", "all_reduc"), "--strategy all_reduc: not one of all_reduce, "),
        (("--resume", "last", "--nodes", "2"), "leave out --preset, and what changes it"),
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
        (("--preset", "quickstart", "--repeats", "0"), "'--repeats': 0 is not in the range 1<=x<=1000"),
        (("--no-such-option",), "No such option"),
        (("show",), "Missing argument"),
        (("show", "last", "--format", "xml"), "--format"),
        (("verify",), "Missing argument"),
        (("compare", "last"), "Missing argument 'B'"),
        (("selftest", "--launch", "single"), "--launch"),
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
    ],
)
def test_the_console_does_not_open_for_bad_input(words: tuple[str, ...], keys: bool, why: str) -> None:
    done = on_a_terminal(*words, keys=keys)
    assert done.returncode == 2
    assert why in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("words", [(), ("run", "quickstart"), ("watch", "--", "touch", "started")])
@pytest.mark.parametrize(("keys", "term"), [(True, "dumb"), (True, "unknown"), (False, "xterm")])
def test_without_a_screen_no_console_opens(words: tuple[str, ...], keys: bool, term: str, tmp_path: Path) -> None:
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


def test_the_presets_are_listed_with_ones_own_and_a_bad_one_says_why(tmp_path: Path) -> None:
    result = ddptui("presets")
    assert (result.exit_code, result.stderr) == (0, "")
    groups = [line for line in result.stdout.splitlines() if line and not line.startswith(" ")]
    assert groups == ["Start here", "Lessons", "More"]
    assert result.stdout.splitlines()[1].startswith("  playground ")
    assert "  quickstart " in result.stdout
    assert "One process, or two that average their gradients?  (3 trials, 3 repeats)" in result.stdout
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
    assert (runs, how) == (tmp_path / "elsewhere", {"as_json": True, "pinned": ("startup",), "quiet_within_s": 3.0})


def with_data(folder: Path) -> Path:
    """A folder that looks as if it had MNIST."""
    raw = folder / "MNIST" / "raw"
    raw.mkdir(parents=True)
    for part in ("train", "t10k"):
        (raw / f"{part}-images-idx3-ubyte").touch()
        (raw / f"{part}-labels-idx1-ubyte").touch()
    return folder


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


def test_what_the_command_line_spells_out_is_what_there_is() -> None:
    assert get_args(EngineName) == common.ENGINES
    assert get_args(Scaling) == inspect.SCALINGS
    pictures = {"svg" if pane == "times" else f"{pane}.svg" for pane in inspect.PANES}
    assert {*inspect.FORMATS, *pictures} == {"table", *table.FORMATS, *export.FORMATS}
    assert set(inspect.PROJECTION_FORMATS) == {"table", "html", *projection_report.FORMATS}
    assert set(machine.SELFTEST_MODES) < set(LAUNCH_MODES)
    packages = {re.split(r"[<>=]", wanted)[0] for wanted in requires("ddptui") or [] if "extra ==" not in wanted}
    assert packages - {"torch", "torchvision", "click"} == {*NEEDED.values()}  # click prints the line
    own = {"--preset", "--resume", "--version"}
    mine = {option for parameter in main.params for option in parameter.opts} - own
    assert mine == {option for each in main.commands["run"].params for option in each.opts} - {"name"}
    assert {*EVERY_OPTION} < mine


def test_the_version_and_the_help_are_told() -> None:
    assert ddptui("--version").stdout == f"ddptui, version {__version__}\n"
    for arguments in (("--help",), ("-h",), ("show", "--help")):
        result = ddptui(*arguments)
        assert result.exit_code == 0
        assert result.stdout.startswith("Usage: ")


def test_the_help_has_thirty_lines_with_every_command_the_daily_ones_first(monkeypatch: pytest.MonkeyPatch) -> None:
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

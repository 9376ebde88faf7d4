"""What a shell is offered for the word at the cursor: as click asks for it, and once in a real bash."""

import os
import pty
import select
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ddptui.cli.completion import SHELLS
from ddptui.config.trial import TRIAL_FIELDS
from tests.support.builders import journal, two_trials, write_run
from tests.unit.cli.test_bad_input import HANGS_S, environment

HEAVY = ("torch", "textual", "numpy", "zmq")


def asked(folder: Path, *words: str, shell: str = "bash", **variables: str) -> "subprocess.CompletedProcess[str]":
    """What the program prints for a shell. The last word is the one at the cursor."""
    typed = {
        "_DDPTUI_COMPLETE": f"{shell}_complete",
        "COMP_WORDS": "\n".join(["ddptui", *words]),
        "COMP_CWORD": words[-1] if shell == "fish" else str(len(words)),
    }
    command = [sys.executable, "-X", "importtime", "-m", "ddptui"] if variables.pop("times", "") else None
    return subprocess.run(
        command or [sys.executable, "-m", "ddptui"],
        cwd=folder,
        env=environment(folder, **(typed | variables)),
        capture_output=True,
        text=True,
        check=False,
        timeout=HANGS_S,
    )


def offered(folder: Path, *words: str, **variables: str) -> list[str]:
    """The words that bash is offered, without an error."""
    done = asked(folder, *words, **variables)
    assert (done.returncode, done.stderr) == (0, "")
    return [line.removeprefix("plain,") for line in done.stdout.splitlines() if line]


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two runs, a preset, and names that a shell would act on."""
    folder = tmp_path_factory.mktemp("here")
    for name in ("20260101-120000-who-waits", "20260102-120000-quickstart.2"):
        run = write_run(folder / "runs", two_trials(), journal("a"))
        run.folder.rename(folder / "runs" / name)
    for name in ("mine.toml", "mi$(reboot).toml", "mi ne.toml"):
        (folder / name).write_text('[[trial]]\nname = "a"\n')
    return folder


def test_commands_options_fields_and_their_values_are_completed(here: Path) -> None:
    assert {"run", "watch", "completion", "config"} <= {*offered(here, "")}
    assert offered(here, "sho") == ["show"]
    assert offered(here, "run", "quickstart", "--rep") == ["--repeats"]
    assert offered(here, "runs", "--j") == ["--json"]
    run = ("run", "quickstart", "--set")
    assert offered(here, *run, "wor") == ["world_size="]
    assert offered(here, *run, "") == [f"{name}=" for name in TRIAL_FIELDS if name != "name"]
    assert offered(here, *run, "launch=sp") == ["launch=spawn"]
    assert offered(here, *run, "compile=") == ["compile=true", "compile=false"]
    assert offered(here, *run, "epochs=") == []
    assert offered(here, *run, "zzz=") == []
    assert offered(here, "--set", "wor") == ["world_size="]
    words = ("run", "quickstart", "--set", "launch=sp")
    assert asked(here, *words, shell="zsh").stdout == "plain\nlaunch=spawn\n_\n"
    assert asked(here, *words, shell="fish").stdout == "plain,launch=spawn\n"


@pytest.mark.parametrize("words", [("--preset",), ("presets",), ("run", "--no-ui")])
def test_presets_are_completed_and_files_in_this_folder(here: Path, words: tuple[str, ...]) -> None:
    assert offered(here, *words, "quick") == ["quickstart"]
    assert offered(here, *words, "mi") == ["mistakes", "mine.toml"]
    assert {"quickstart", "who-waits"} <= {*offered(here, *words, "")}
    assert offered(here, *words, "./mi") == ["file,./mi"]


RUNS = ["last", "quickstart", "who-waits", "20260102-120000-quickstart.2", "20260101-120000-who-waits"]


@pytest.mark.parametrize(
    "words", [("report", "last"), ("--resume",), ("compare", "last"), ("verify",), ("project", "last", "--network")]
)
def test_runs_are_completed_newest_first_after_last_and_their_presets(here: Path, words: tuple[str, ...]) -> None:
    assert offered(here, *words, "") == RUNS
    assert offered(here, *words, "who") == ["who-waits"]
    assert offered(here, *words, "runs/") == ["dir,runs/"]


def test_runs_are_those_of_the_folder_that_is_named(here: Path, tmp_path: Path) -> None:
    elsewhere = {"DDPTUI_RUNS": str(tmp_path)}
    assert offered(here, "show", "", **elsewhere) == []
    assert offered(here, "show", "--runs", "runs", "", **elsewhere) == RUNS
    assert offered(here, "show", "--runs", "") == ["dir,"]


@pytest.mark.parametrize(
    ("words", "values"),
    [
        (("launch", "=", "sp"), ["spawn"]),
        (("launch", "="), ["single", "dp", "process", "launch", "spawn", "task", "command"]),
        (("launch", "=", "spawn", "--set", "amp", "="), ["bf16", "fp16"]),
        (("epochs", "=", "3", "--set", "wor"), ["world_size="]),
    ],
)
def test_bash_gets_what_follows_an_equals_sign(here: Path, words: tuple[str, ...], values: list[str]) -> None:
    assert offered(here, "run", "quickstart", "--set", *words) == values
    assert offered(here, "run", "quickstart", "--set", "=", *words) == values


@pytest.mark.parametrize(
    ("words", "values"),
    [
        (("run", "x", "--theme", "no"), ["nord"]),
        (("run", "x", "--engine", ""), ["local", "join", "slurm"]),
        (("compare", "a", "b", "--format", ""), ["table", "markdown", "csv", "steps", "json", "trace", "html", "svg"]),
        (("project", "last", "--strategy", "all_r"), ["all_reduce", "all_reduce_async"]),
        (("columns", "startu"), ["startup"]),
        (("completion", ""), [*SHELLS]),
        (("init", "tr"), ["file,tr"]),
    ],
)
def test_choices_are_completed(here: Path, words: tuple[str, ...], values: list[str]) -> None:
    assert offered(here, *words) == values


@pytest.mark.parametrize(
    ("words", "variables"),
    [
        (("show", ""), {"DDPTUI_RUNS": "/dev/null/x"}),
        (("run", "x", "--repeats", "many", "--set", "wor"), {}),
        (("show", ""), {"COMP_CWORD": "many"}),
        (("show", ""), {"_DDPTUI_COMPLETE": "nosuchshell_complete"}),
    ],
)
def test_nothing_is_printed_on_errors(here: Path, words: tuple[str, ...], variables: dict[str, str]) -> None:
    """The line that is being typed is on the screen."""
    done = asked(here, *words, **variables)
    assert done.stderr == ""
    assert "Error" not in done.stdout


@pytest.mark.parametrize("words", [("show", ""), ("run", "quickstart", "--set", "launch=")])
def test_it_imports_nothing_slow(here: Path, words: tuple[str, ...]) -> None:
    loaded = {line.rpartition("|")[2].strip() for line in asked(here, *words, times="yes").stderr.splitlines()}
    assert "ddptui.cli.completion" in loaded
    assert not {name for name in loaded if name.partition(".")[0] in HEAVY or name.startswith("ddptui.tui")}


@pytest.mark.parametrize("shell", SHELLS)
def test_the_script_for_a_shell_is_printed_and_is_one(here: Path, shell: str) -> None:
    command = [sys.executable, "-m", "ddptui", "completion", shell]
    script = subprocess.run(command, env=environment(here), capture_output=True, text=True, check=True, timeout=HANGS_S)
    assert script.stderr == ""
    assert f"_DDPTUI_COMPLETE={shell}_complete" in script.stdout
    if shell == "zsh":
        assert "compadd -U -S ''" in script.stdout  # no space after `world_size=`
    if shutil.which(shell):
        subprocess.run([shell, "-n"], input=script.stdout, text=True, check=True, timeout=HANGS_S)


@pytest.fixture
def bash(here: Path, tmp_path: Path) -> Iterator[int]:
    """The terminal of a bash that has read the script."""
    if shutil.which("bash") is None:
        pytest.skip("there is no bash here")
    program = tmp_path / "ddptui"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m ddptui "$@"\n')
    program.chmod(0o755)
    mine, its = pty.openpty()
    told = environment(here, PATH=f"{tmp_path}:{os.environ['PATH']}", PS1="ready: ", TERM="dumb")
    with subprocess.Popen(
        ["bash", "--norc", "--noprofile", "-i"],
        cwd=here,
        env=told,
        stdin=its,
        stdout=its,
        stderr=its,
        start_new_session=True,
    ) as process:
        os.close(its)
        os.write(mine, b'bind "set bell-style none"; eval "$(ddptui completion bash)"; echo script read\n')
        until(mine, "\nscript read")
        yield mine
        process.kill()
    os.close(mine)


def until(terminal: int, wanted: str) -> str:
    """All that a terminal shows until these words."""
    shown = ""
    while wanted not in shown:
        assert select.select([terminal], [], [], HANGS_S)[0], f"no {wanted!r} in {shown!r}"
        shown += os.read(terminal, 2**12).decode().replace("\r", "")
    return shown


@pytest.mark.parametrize(
    ("typed", "completed"),
    [
        ("ddptui run quickstart --set wor", "ddptui run quickstart --set world_size="),
        ("ddptui run quickstart --set launch=sp", "ddptui run quickstart --set launch=spawn "),
    ],
)
def test_a_real_bash_completes_the_line(bash: int, typed: str, completed: str) -> None:
    os.write(bash, f"{typed}\t|".encode())
    until(bash, f"{completed}|")

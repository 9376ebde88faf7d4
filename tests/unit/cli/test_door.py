"""What leaves the command line, on a pipe and on a terminal: lines of printable text in which nothing from outside
steers a terminal."""

import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

from ddptui.store.runs import Run
from ddptui.text.sanitize import CLEAR_LINE, ascii_json, at_the_door, brief, style
from tests.support.builders import failure, journal, two_trials, write_preset, write_run

EVIL = "\x1b]0;PWN\x07\x1b]52;c;UFdO\x07\x1b[31m\r\x1b[2K\x9b2J\u202e"
SPELLED = r"\x1b]0;PWN\x07\x1b]52;c;UFdO\x07\x1b[31m\r\x1b[2K\x9b2J\u202e"
OWN_STYLES = re.compile(r"\x1b\[\d+m")
PLACES = pytest.mark.parametrize("on_terminal", [False, True], ids=["pipe", "terminal"])


def printed(folder: Path, *words: str, on_terminal: bool = False, **variables: str) -> tuple[int, bytes]:
    """The exit code, and all that stdout and stderr receive."""
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "DDPTUI_RUNS": str(folder / "runs"),
        "COLUMNS": "100",
        "TERM": "xterm",
        **variables,
    }
    mine, its = pty.openpty() if on_terminal else os.pipe()
    command = [sys.executable, "-m", "ddptui", *words]
    with subprocess.Popen(
        command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=its, stderr=its
    ) as process:
        os.close(its)
        output = b"".join(iter(lambda: read(mine), b""))
    os.close(mine)
    return process.returncode, output


def read(stream: int) -> bytes:
    try:
        return os.read(stream, 2**16)
    except OSError:  # of a terminal, once the other end is closed
        return b""


@pytest.fixture
def strange(tmp_path: Path) -> Path:
    """A folder with presets and a run in whose texts and names are control sequences."""
    evil = json.dumps(EVIL)  # as TOML spells it, too
    reference = f'[[reference]]\ntrial = "a"\ntrain_time_s = 1\nsource = {evil}\n'
    fields = f"title = {evil}\ngroup = {evil}\nabout = {evil}\n"
    presets = tmp_path / "presets"
    write_preset(presets, f'{fields}[[trial]]\nname = "a"\n{reference}', "strange.toml")
    write_preset(presets, f"{evil} = 1\n", "unknown.toml")
    write_preset(presets, "[[trial]]\n", f"{EVIL}.toml")
    made = two_trials(title=EVIL, reference=[{"trial": "a", "train_time_s": 1, "source": EVIL}])
    run = write_run(tmp_path / "runs", made, journal("a"), journal("b"), failure("b", 2, EVIL))
    results = json.loads((run.folder / "results.json").read_text())
    (run.folder / "results.json").write_text(json.dumps(results | {"status": EVIL}))
    Run(run.folder.rename(run.folder.with_name(f"20260101-000000-{EVIL}")))
    return tmp_path


COMMANDS = {
    "preset": ("presets", "strange"),
    "unknown key": ("presets", "unknown"),
    "no such preset": ("presets", EVIL),
    "runs": ("runs",),
    "show": ("show", "last"),
    "show, Markdown": ("show", "last", "--format", "markdown"),
    "project": ("project", "last", "--trial", EVIL),
    "set a value": ("--preset", "strange", "--no-ui", "--set", f"lr={EVIL}"),
    "a script": ("init", f"{EVIL}.py"),
    "ticket": ("join", EVIL),
    "option": (f"--{EVIL}",),
    "run": ("run", f"no-{EVIL}", "--no-ui"),
    "runs as JSON": ("runs", "--json"),
}


@PLACES
@pytest.mark.parametrize("words", COMMANDS.values(), ids=COMMANDS.keys())
def test_what_would_steer_a_terminal_is_spelled_out(words: tuple[str, ...], strange: Path, on_terminal: bool) -> None:
    _, output = printed(strange, *words, on_terminal=on_terminal)
    text = output.decode()
    if on_terminal:
        text = OWN_STYLES.sub("", text).replace("\r\n", "\n")
    assert [char for char in text if not char.isprintable() and char != "\n"] == []
    assert "Traceback" not in text
    assert "PWN" in text
    if words[0] in ("runs", "presets", "show") and "--json" not in words:
        assert SPELLED in text
        assert f"\n{SPELLED[20:]}" not in text


@pytest.mark.parametrize("form", ["json", "trace"])
def test_json_stays_json(form: str, strange: Path) -> None:
    code, output = printed(strange, "show", "last", "--format", form)
    assert code == 0
    assert output.decode("ascii").replace("\n", "").isprintable()
    told = json.loads(output)
    assert form == "trace" or EVIL in told["trials"][1]["error"]


def test_own_sequences_reach_a_terminal_and_no_pipe_and_json_stays_the_same_json() -> None:
    text = f"{CLEAR_LINE}{style(31)}red{style(0)}\x1b[31m\n"
    assert at_the_door(text, is_terminal=True) == "\r\x1b[2K\x1b[31mred\x1b[0m\\x1b[31m\n"
    assert at_the_door(text, is_terminal=False) == "red\\x1b[31m\n"
    text = json.dumps({"µ\U0001f600": "\x7f\x9b\u202e"}, ensure_ascii=False)
    assert json.loads(ascii_json(text)) == json.loads(text)
    assert ascii_json(text).isascii()


def test_a_table_on_a_terminal_is_in_color(strange: Path) -> None:
    assert b"\x1b[1mtrial" in printed(strange, "show", "last", on_terminal=True)[1]
    assert b"\x1b" not in printed(strange, "show", "last", on_terminal=True, NO_COLOR="1")[1]


ENCODINGS = {
    "Latin-1": {"PYTHONIOENCODING": "latin-1"},
    "ASCII": {"PYTHONIOENCODING": "ascii"},
    "POSIX": {"LC_ALL": "POSIX", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"},
}


@pytest.mark.parametrize("variables", ENCODINGS.values(), ids=ENCODINGS.keys())
@pytest.mark.parametrize("words", [("--help",), ("presets", "accents"), ("show", "last")])
def test_what_no_encoding_shows_is_replaced(words: tuple[str, ...], variables: dict[str, str], tmp_path: Path) -> None:
    write_preset(tmp_path / "presets", 'title = "wén → 漢"\n[[trial]]\n', "accents.toml")
    write_run(tmp_path / "runs", two_trials(title="wén → 漢"), journal("a"), journal("b"))
    code, output = printed(tmp_path, *words, **variables)
    assert code == 0, output
    encoding = "latin-1" if "latin-1" in variables.values() else "ascii"
    assert output.decode(encoding).replace("\n", "").isprintable()
    if words[-1] in ("accents", "last"):
        assert "wén ? ?".encode(encoding, "replace") in output


@pytest.mark.parametrize("variables", ENCODINGS.values(), ids=ENCODINGS.keys())
def test_an_error_is_replaced_alike(variables: dict[str, str], tmp_path: Path) -> None:
    code, output = printed(tmp_path, "presets", "漢", **variables)
    assert code == 2
    assert re.match(rb"Error: no preset '(\?|(\\udc[0-9a-f]{2}){3})'; `ddptui presets` lists them\n$", output)


LONG = "x" * 500_000
OF_WORDS = "x " * 200_000
LONG_NAMES = {
    "a key": f"{LONG} = 1",
    "a key of words": f'"{OF_WORDS}" = 1',
    "a trial": f'[[trial]]\nname = "{LONG}"',
    "a baseline": f'baseline = "{LONG}"\n[[trial]]',
    "characters to spell out": '"' + "\\u202e" * 100_000 + '" = 1',
}


@pytest.mark.parametrize("text", LONG_NAMES.values(), ids=LONG_NAMES.keys())
def test_what_an_error_quotes_is_cut(text: str, tmp_path: Path) -> None:
    write_preset(tmp_path / "presets", text, "long.toml")
    for words in (("presets", "long"), ("presets",)):
        _, output = printed(tmp_path, *words)
        [line] = [line for line in output.decode().splitlines() if "presets/long.toml: " in line]
        assert len(line) < 2_200
        assert "…" in line


@pytest.mark.parametrize("words", [("--" + LONG[:99_999],), (LONG[:99_999],), ("show", LONG[:99_999])])
def test_what_a_refusal_quotes_is_cut(words: tuple[str, ...], tmp_path: Path) -> None:
    code, output = printed(tmp_path, *words)
    assert code == 2
    assert max(map(len, output.decode().splitlines())) < 1_000


@pytest.mark.parametrize("words", [("completion",), ("manifest", "x")])
def test_the_choices_that_click_lists_are_indented(words: tuple[str, ...], tmp_path: Path) -> None:
    code, output = printed(tmp_path, *words)
    assert code == 2
    assert "Choose from:\n    " in output.decode()
    assert r"\t" not in output.decode()


def test_a_message_keeps_its_remedy() -> None:
    assert brief(f"a.toml: {LONG}: unknown key; did you mean 'title'?") == (
        f"a.toml: {'x' * 200}…: unknown key; did you mean 'title'?"
    )
    assert brief(f"no run '{OF_WORDS}'; `ddptui runs` lists them").endswith("…'; `ddptui runs` lists them")

"""Commands of README and docs print what is shown; those that start ranks run in tests/quiet/test_runs_shown.py."""

import re
from pathlib import Path

import pytest

from ddptui.cli import main
from docs.outputs import is_disturbed, renewed
from tests.support.masks import difference
from tests.support.shown import PAGES, REPO, Printed, Shown, lacking, run, shown_on
from tests.support.synopsis import named_in, unknown, unnamed

HERE = [each for page in PAGES for each in shown_on(page) if each.place == "here"]
QUICK = {each.command: each for each in HERE if each.is_quick}


@pytest.mark.parametrize("shown", QUICK.values(), ids=QUICK.keys())
def test_a_quick_command_prints_what_is_shown(shown: Shown, tmp_path: Path) -> None:
    if why := lacking(shown):
        pytest.skip(why)
    printed = run(shown.command, tmp_path)
    differs = difference(shown.output, printed.beside(shown.output))
    assert not differs, "\n".join([differs, *printed.stderr])


TABLE = ["trial  train s  ratio  average", "───────────────", "ring   1.70 ±0.04  1.07  right", ""]
AGREE = {
    "figures": (["it took 1.7 s (95%: 1.6 to 1.8 s)"], ["it took 34 ms (95%: 20 to 55.5 ms)"]),
    "spaces and rules": (["a  b", "ranks-2, gloo", "───"], ["a b", "ranks-2, gloo", "────────"]),
    "an ellipsis": (["a", "…", "c"], ["a", "b", "b", "c"]),
    "an ellipsis for nothing": (["a", "…"], ["a"]),
    "two ellipses": (["…", "b", "…"], ["a", "b", "c"]),
    "moods": (["a", "caution, a: noisy", "b"], ["a", "b", "±: the largest deviation of any repeat from the median"]),
    "verdicts": (
        ["ring: Mostly the network: ranks stood idle 51% of the time for transfers, 6% for a late rank"],
        ["ring: Nothing to worry about: 2% of the time in communication"],
    ),
    "fewer columns": (TABLE, ["trial  train s  average", "────", "ring   1.70 ⚠  right", ""]),
    "a rough ratio": (TABLE, [line.replace("1.70 ±0.04  1.07", "1.70 ±0.20 ⚠  0.87…1.31 ⚠") for line in TABLE]),
    "what a machine has": (["✓ slurm  22.05"], ["! slurm  none", "               → ask for it"]),
    "what was found": (["T", "", "b was slower.", "", *TABLE], ["T", "", "Cannot tell:", "two repeats.", "", *TABLE]),
    "what follows what the lab put in": (
        ["a: We injected 1.2 s on rank 1, in data; ddptui measured 1.2 s (95%: 1.1 to 1.3 s). Rank 1 caused 9% of it"],
        ["a: We injected 1 s on rank 1, in data; ddptui measured 1 s (95%: 1 to 2 s). Mostly waiting: ranks stood"],
    ),
    "the lightest shade": (["rank 0    0.01  █ 1.23"], ["rank 0  ░ 0.01  █ 1.23"]),
    "time left": (["[1/9] ring  120 steps  about 0:09 left"], ["[1/9] ring  119 steps"]),
}
DIFFER = {
    "a word": (["it took 1.7 s"], ["it lasted 1.7 s"]),
    "a line less": (["a", "b"], ["a"]),
    "a line more": (["a"], ["a", "b"]),
    "nothing": ([], ["a"]),
    "the first line, before an ellipsis": (["a", "…"], ["b", "a"]),
    "the last line, after an ellipsis": (["…", "a"], ["a", "b"]),
    "the order around an ellipsis": (["…", "b", "…", "a", "…"], ["a", "b"]),
    "one line for two": (["a", "…", "a"], ["a"]),
    "a darker shade": (["rank 0    0.01  █ 1.23"], ["rank 0  ▓ 0.91  █ 1.23"]),
    "a cell": (TABLE, [line.replace("right", "half of it") for line in TABLE]),
    "no answer": (["T", "", "b was slower.", "", *TABLE], ["T", "", *TABLE]),
    "a row": (TABLE, [line for line in TABLE if "ring" not in line]),
    "another table": (TABLE, ["size  min  median  p99", "────", "1 KB  1 ms  2 ms  3 ms", ""]),
    "a check that is gone": (["✓ slurm  22.05", "✓ spawn  ok"], ["✓ spawn  ok"]),
}


@pytest.mark.parametrize(("shown", "printed"), AGREE.values(), ids=AGREE.keys())
def test_what_differs_by_figures_and_moods_agrees(shown: list[str], printed: list[str]) -> None:
    assert difference(tuple(shown), printed) == ""


@pytest.mark.parametrize(("shown", "printed"), DIFFER.values(), ids=DIFFER.keys())
def test_what_differs_otherwise_is_found(shown: list[str], printed: list[str]) -> None:
    assert difference(shown, printed) != ""


def test_a_page_shows_stdout_or_all_that_a_terminal_does() -> None:
    printed = Printed(["a table"], ["[1/9] ring", "[2/9] ring"])
    assert printed.beside(["a table"]) == ["a table"]
    assert printed.beside([]) == ["a table"]
    assert printed.beside(["[7/9] ring", "…"]) == ["[1/9] ring", "[2/9] ring", "a table"]


SEVERAL = ["title", "", "a  1 s", "b  2 s", "", "caution, a: noisy", "end"]


@pytest.mark.parametrize(
    ("shown", "renewed_as"),
    [
        ([], SEVERAL),
        (["gone"], SEVERAL),
        (["title", "…"], ["title", "…"]),
        (["title", "", "a  7 s", "…", "end"], ["title", "", "a  1 s", "…", "end"]),
        (["…", "", "a  7 s", "b  7 s", "", "…"], ["…", "", "a  1 s", "b  2 s", "", "…"]),
        (["…", "b  7 s", "was between", "", "end"], ["…", "b  2 s", "", "caution, a: noisy", "end"]),
        (["…", "", "…", "end"], ["…", "", "…", "end"]),
        (["gone", "…"], None),
        (["…", "b  7 s", "gone"], None),
    ],
)
def test_an_output_is_renewed(shown: list[str], renewed_as: list[str] | None) -> None:
    assert renewed(shown, SEVERAL) == renewed_as


def test_rows_of_a_table_are_the_same_whatever_its_columns() -> None:
    table = ["trial  train s  ratio  average", "ring   1.70  1.07  right", "flat   1.20  1.00  right", "end"]
    shown = ["trial  train s  loss  ratio  average", "ring  1.30  0.7  1.00  right", "…"]
    assert renewed(shown, table) == [*table[:2], "…"]


def test_an_output_of_a_busy_machine_is_not_for_readers() -> None:
    assert is_disturbed(Printed(["ring   1.70 ⚠  ⚠"], []))
    assert not is_disturbed(Printed(["ring   1.70 ±0.10  1.07"], ["this machine is busy"]))


def test_commands_are_read_from_a_page() -> None:
    page = "# A\n\n```console\n$ ddptui runs\nnone\n\n$ ddptui place\n```\n\n```console\nhost-1 $ ddptui join T\n```\n"
    assert shown_on("a.md", page) == [
        Shown("a.md", 4, "", "ddptui runs", ("none",)),
        Shown("a.md", 7, "", "ddptui place", ()),
        Shown("a.md", 11, "host-1", "ddptui join T", ()),
    ]
    with pytest.raises(AssertionError, match="a console block begins with a command"):
        shown_on("a.md", "```console\nddptui runs\n```\n")


def test_a_command_stands_where_it_is_run() -> None:
    """A fenced block of another language would be neither run nor held against the program's options."""
    hidden = re.compile(r"^```(?!console)\w*\n[^`]*^(\$ )?ddptui ", re.MULTILINE)
    assert [page for page in PAGES if hidden.search((REPO / page).read_text(encoding="utf-8"))] == []
    assert hidden.search("```sh\nddptui runs\n```\n")
    assert {"ddptui presets", "ddptui run quickstart --no-ui"} <= {each.command for each in HERE}


@pytest.mark.parametrize("page", [*PAGES, "CONTRIBUTING.md"])
def test_the_commands_and_options_that_a_page_names_exist(page: str) -> None:
    assert unknown(named_in((REPO / page).read_text(encoding="utf-8")), main) == []


def test_a_page_names_every_command() -> None:
    assert unnamed(named_in((REPO / "docs/commands.md").read_text(encoding="utf-8")), main.commands) == []


@pytest.mark.parametrize("page", [*PAGES, "CONTRIBUTING.md", "Makefile"])
def test_a_preset_is_run_by_the_command_run(page: str) -> None:
    assert not re.search(r"ddptui --preset\b", (REPO / page).read_text(encoding="utf-8"))


SYNOPSIS = """
    ddptui --preset NAME --no-ui   headless; --json: results.json
        --repeats N   launches
    ddptui runs [--trash]          earlier runs

In a sentence, `ddptui doctor` and `ddptui --preset NAME --sbatch=--exclusive`.
"""


@pytest.mark.parametrize(
    ("right", "wrong", "problem"),
    [
        ("--json", "--jason", "line 2: no --jason: ddptui --preset NAME --no-ui"),
        ("--repeats", "--repeat", "line 3: no --repeat: ddptui --preset NAME --no-ui"),
        ("[--trash]", "[--bin]", "line 4: no --bin: ddptui runs [--bin]"),
        ("ddptui runs", "ddptui ruins", "line 4: no command ruins: ddptui ruins [--trash]"),
        ("ddptui doctor", "ddptui nurse", "line 6: no command nurse: ddptui nurse"),
        ("--sbatch", "--batch", "line 6: no --batch: ddptui --preset NAME --batch=--exclusive"),
    ],
)
def test_a_name_that_the_program_lacks_is_found(right: str, wrong: str, problem: str) -> None:
    assert unknown(named_in(SYNOPSIS), main) == []
    assert problem in unknown(named_in(SYNOPSIS.replace(right, wrong)), main)


def test_a_command_that_no_line_names_is_found() -> None:
    commands = {name: main.commands[name] for name in ("runs", "doctor", "verify")}
    assert unnamed(named_in(SYNOPSIS), commands) == ["verify"]


def test_the_makefile_has_the_targets_that_pages_name() -> None:
    makefile = (REPO / "Makefile").read_text(encoding="utf-8")
    text = "\n".join((REPO / page).read_text(encoding="utf-8") for page in [*PAGES, "CONTRIBUTING.md"])
    named = set(re.findall(r"(?:`| {4})make ([a-z-]+)", text))
    assert {"demo", "test", "bench"} <= named
    assert named <= set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))

"""Commands of README and docs print what is shown, and pages hang together; runs are shown in tests/quiet."""

import re
from pathlib import Path

import pytest

from ddptui.cli import main
from tests.support.masks import difference
from tests.support.pages import problems, wide_lines
from tests.support.shown import COLUMNS, PAGES, REPO, Shown, lacking, run, shown_on
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


def test_a_command_stands_where_it_is_run() -> None:
    """A fenced block of another language would be neither run nor held against the program's options."""
    hidden = re.compile(r"^```(?!console)\w*\n[^`]*^(\$ )?ddptui ", re.MULTILINE)
    assert [page for page in PAGES if hidden.search((REPO / page).read_text(encoding="utf-8"))] == []
    assert {"ddptui presets", "ddptui run quickstart --no-ui"} <= {each.command for each in HERE}


@pytest.mark.parametrize("page", [*PAGES, "CONTRIBUTING.md"])
def test_the_commands_and_options_that_a_page_names_exist(page: str) -> None:
    assert unknown(named_in((REPO / page).read_text(encoding="utf-8")), main) == []


def test_a_page_names_every_command() -> None:
    assert unnamed(named_in((REPO / "docs/commands.md").read_text(encoding="utf-8")), main.commands) == []


@pytest.mark.parametrize("page", [*PAGES, "CONTRIBUTING.md", "Makefile"])
def test_a_preset_is_run_by_the_command_run(page: str) -> None:
    assert not re.search(r"ddptui --preset\b", (REPO / page).read_text(encoding="utf-8"))


def test_the_makefile_has_the_targets_that_pages_name() -> None:
    makefile = (REPO / "Makefile").read_text(encoding="utf-8")
    text = "\n".join((REPO / page).read_text(encoding="utf-8") for page in [*PAGES, "CONTRIBUTING.md"])
    named = set(re.findall(r"(?:`| {4})make ([a-z-]+)", text))
    assert {"demo", "test", "bench"} <= named
    assert named <= set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))


MOST_LINES = 150  # of the README: what one reads first


@pytest.mark.parametrize("page", [*PAGES, "CONTRIBUTING.md", "CHANGELOG.md"])
def test_what_a_page_links_to_and_names_is_there(page: str) -> None:
    assert problems(REPO, page) == []


def test_the_readme_is_short_and_leads_to_every_page() -> None:
    readme = (REPO / "README.md").read_text(encoding="utf-8")
    assert len(readme.splitlines()) <= MOST_LINES
    assert wide_lines(readme) == []
    assert [page for page in PAGES if page != "README.md" and f"({page})" not in readme] == []


def test_tables_are_no_wider_than_the_terminal_that_the_pages_show() -> None:
    output = [(page, line) for page in PAGES for shown in shown_on(page) for line in shown.output]
    rules = [(page, len(line)) for page, line in output if {*line} == {"─"}]
    assert rules
    assert [(page, width) for page, width in rules if width > int(COLUMNS)] == []

"""README and docs hang together: links lead somewhere, files are there, the README is short and leads to every page."""

from pathlib import Path

import pytest

from tests.support.pages import anchors, problems, wide_lines
from tests.support.shown import COLUMNS, PAGES, REPO, shown_on

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


RIGHT = "# A page\n\n[itself](#a-page), [that](docs/b.md#part-two-now), `docs/b.md`, `docs/NAME.md`\n"


@pytest.mark.parametrize(
    ("right", "wrong", "problem"),
    [
        ("(docs/b.md#", "(docs/c.md#", "no docs/c.md"),
        ("`docs/b.md`", "`docs/c.md`", "no docs/c.md"),
        ("part-two-now", "part-three", "no #part-three in docs/b.md"),
        ("#a-page", "#a-book", "no #a-book in a.md"),
    ],
)
def test_what_is_not_there_is_found(right: str, wrong: str, problem: str, tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "b.md").write_text("## Part two, now\n", encoding="utf-8")
    (tmp_path / "a.md").write_text(RIGHT, encoding="utf-8")
    assert problems(tmp_path, "a.md") == []
    (tmp_path / "a.md").write_text(RIGHT.replace(right, wrong), encoding="utf-8")
    assert problems(tmp_path, "a.md") == [problem]


def test_a_wide_line_is_found() -> None:
    wide = "a word " * 18
    assert wide_lines(f"# A\n\n| {wide} |\n\n{wide}\n\n```\n{wide}\n```\n") == [5]


def test_a_heading_in_a_block_is_no_anchor() -> None:
    assert anchors("# A `b`: c\n\n```sh\n# no heading\n```\n") == {"a-b-c"}

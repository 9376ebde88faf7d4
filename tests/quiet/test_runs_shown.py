"""Runs that README and docs show print what is shown. They are alone, since beside others ranks wait for cores."""

import pytest

from tests.support.masks import difference
from tests.support.shown import PAGES, Reader, Shown, lacking, shown_on

RUNS = {
    page: commands
    for page in PAGES
    if (commands := [each for each in shown_on(page) if each.place == "here" and not each.is_quick])
}


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Reader:
    return Reader(tmp_path_factory.mktemp("pages"))


@pytest.mark.rare
@pytest.mark.parametrize("page", RUNS)
def test_the_runs_of_a_page_print_what_is_shown(page: str, reader: Reader) -> None:
    missing: dict[Shown, str] = {each: why for each in RUNS[page] if (why := lacking(each))}
    printed = reader.read(page, [each for each in RUNS[page] if each not in missing])
    found = {
        f"{page}:{shown.line}: {shown.command}": "\n".join([differs, "", "stderr:", *output.stderr])
        for shown, output in printed
        if (differs := difference(shown.output, output.beside(shown.output)))
    }
    assert not found, "\n\n".join(f"{where}\n{differs}" for where, differs in found.items())
    if missing:
        pytest.skip("; ".join(missing.values()))

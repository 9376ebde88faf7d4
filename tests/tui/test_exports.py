"""A run written to a file."""

from pathlib import Path

import pytest

from ddptui.analysis.results import Results
from ddptui.config.preset import Preset
from ddptui.page import formats
from ddptui.page.formats import picture
from ddptui.page.pages import page
from ddptui.report import table
from ddptui.store.overview import results_of
from ddptui.store.runs import Run
from ddptui.tui.screens import export as exports
from tests.support.builders import journal, two_trials, write_run
from tests.support.measured_cells import of_primitives, result


@pytest.fixture
def what(tmp_path: Path) -> tuple[Run, Preset, Results]:
    run = write_run(tmp_path / "runs", two_trials(), journal("a"), journal("b"))
    preset = run.preset()
    return run, preset, results_of(run, preset)


def write(what: tuple[Run, Preset, Results], form: str, path: Path, *, replace: bool = False) -> None:
    exports.write(lambda: formats.pieces(*what, form, "b"), path, replace=replace)


def test_each_format_is_written_as_the_command_line_has_it(what: tuple[Run, Preset, Results], tmp_path: Path) -> None:
    reports = {form: table.FORMATS[form](what[2], what[1]) for form in ("markdown", "csv", "json")}
    pictures = {"html": page(*what), "svg": picture(*what), "timeline.svg": picture(*what, "timeline", "b")}
    for form, text in {**reports, **pictures}.items():
        write(what, form, tmp_path / form)
        assert (tmp_path / form).read_text(encoding="utf-8") == text
    assert len({exports.suffix(form) for form in exports.FORMATS}) == len(exports.FORMATS)


def test_what_cannot_be_made_leaves_no_file(tmp_path: Path) -> None:
    results, preset = of_primitives({"a": [result()]})
    run = Run(tmp_path)
    with pytest.raises(ValueError, match="a run of primitives has one of its times, if"):
        write((run, preset, results), "svg", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_file_is_replaced_only_if_that_is_wanted(what: tuple[Run, Preset, Results], tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.write_text("precious")
    with pytest.raises(FileExistsError) as refusal:
        write(what, "csv", path)
    assert path.read_text() == "precious"
    assert exports.why(refusal.value) == f"{path}: File exists"
    write(what, "csv", path, replace=True)
    assert path.read_text().startswith("trial,")


def test_a_path_that_cannot_be_is_told_in_one_line(what: tuple[Run, Preset, Results], tmp_path: Path) -> None:
    for path in (tmp_path / "no" / "folder.md", tmp_path / ("x" * 300), tmp_path / "nul\0"):
        with pytest.raises((OSError, ValueError)) as refusal:
            write(what, "markdown", path)
        assert "\n" not in exports.why(refusal.value)
        assert exports.why(refusal.value)

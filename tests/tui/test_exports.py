"""A run written to a file."""

import json
from pathlib import Path

import pytest

from ddptui.analysis.results import Results
from ddptui.config.preset import Preset
from ddptui.page import formats
from ddptui.page.pages import page
from ddptui.page.picture import picture
from ddptui.report import table
from ddptui.store.outcomes import results_of
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


@pytest.mark.parametrize("form", ["markdown", "csv", "json"])
def test_the_formats_of_the_report_are_written_as_they_are(
    what: tuple[Run, Preset, Results], tmp_path: Path, form: str
) -> None:
    path = tmp_path / "out"
    write(what, form, path)
    assert path.read_text(encoding="utf-8") == table.FORMATS[form](what[2], what[1])


def test_a_trace_has_the_steps_of_all_repeats(what: tuple[Run, Preset, Results], tmp_path: Path) -> None:
    write(what, "trace", tmp_path / "out")
    events = json.loads((tmp_path / "out").read_text(encoding="utf-8"))["traceEvents"]
    assert {event["args"]["name"] for event in events if event["name"] == "process_name"} == {
        "a, repeat 1",
        "b, repeat 1",
    }


def test_a_page_and_pictures_are_written_as_the_command_line_has_them(
    what: tuple[Run, Preset, Results], tmp_path: Path
) -> None:
    wanted = {"html": page(*what), "svg": picture(*what), "timeline.svg": picture(*what, "timeline", "b")}
    for form, text in wanted.items():
        write(what, form, tmp_path / form)
        assert (tmp_path / form).read_text(encoding="ascii") == text


def test_what_cannot_be_made_leaves_no_file(tmp_path: Path) -> None:
    results, preset = of_primitives({"a": [result()]})
    run = Run(tmp_path)
    with pytest.raises(ValueError, match="a run of primitives has one of its times, if"):
        write((run, preset, results), "svg", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_file_that_is_there_is_replaced_only_if_that_is_wanted(
    what: tuple[Run, Preset, Results], tmp_path: Path
) -> None:
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


def test_each_format_has_a_suffix_of_its_own() -> None:
    assert len({exports.suffix(form) for form in exports.FORMATS}) == len(exports.FORMATS)

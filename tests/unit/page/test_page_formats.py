"""Pages and pictures as the command line prints them: whole, small, and without anything from outside."""

import base64
import hashlib
import re
from pathlib import Path
from xml.etree import ElementTree

import msgspec
import pytest

from ddptui.analysis.results import Results
from ddptui.config.preset import Preset
from ddptui.page.formats import MOST_TRIALS, PictureError, picture
from ddptui.page.pages import page as page_of
from ddptui.report.run_diff import NO_DIFFERENCE
from ddptui.run.compare import compare_on_disk
from ddptui.store.overview import results_of
from ddptui.store.runs import Run
from tests.support.builders import failure, journal, preset_of, results_for, two_trials, write_run
from tests.support.gpu_figures import on_gpus
from tests.support.launches import launch_of
from tests.support.measured_cells import SIZES, cells, of_primitives, result, view
from tests.tui.recordings import RECORDED
from tests.unit.page.pages import Found, Told, a_run, late_steps


@pytest.fixture(scope="module")
def page() -> str:
    run = Run(RECORDED)
    preset = run.preset()
    return page_of(run, preset, results_of(run, preset))


def test_a_page_has_all_its_sections_with_names_and_allows_its_own_style_and_script_alone(page: str) -> None:
    headings = re.findall(r"<h2[^>]*>(.*?)</h2>", page)
    assert [heading.split()[0] for heading in headings] == [
        "The", "Where", "Who", "Loss", "In", "Preset", "Commands", "Environment", "How"
    ]  # fmt: skip
    found = Found(page)
    assert found.elements.count(("h1",)) == 1
    assert page.count("<table") == page.count("<caption>")
    labels = [element for element in found.elements if element[0] == "svg" and "role" in element]
    assert labels
    assert all("aria-label" in element for element in labels)
    names = [value for name, value in found.attributes if name == "id"]
    assert len(set(names)) == len(names)
    [policy] = re.findall(r'Content-Security-Policy" content="(.*?)"', page)
    assert policy.startswith("default-src 'none'; ")
    for tag in ("style", "script"):
        [inside] = re.findall(rf"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
        assert base64.b64encode(hashlib.sha256(inside.encode()).digest()).decode() in policy
    assert not re.findall(r"""(?:src|href)=["'](?!#)|url\((?!#)|@import|//[a-z]""", page)


def test_columns_that_the_preset_names_stand_beside_the_trial() -> None:
    run, preset, results = a_run(columns=["loss", "step"])
    headers = re.findall(r"<button type=\"button\">(.*?)</button>", page_of(run, preset, results))
    assert headers[:4] == ["trial", "loss", "step ms", "train s"]


def test_a_page_opens_with_the_trial_of_the_answer_and_prints_it_beside_the_baseline() -> None:
    preset = preset_of({"title": "Which?", "repeats": 1, "trial": [{"name": name} for name in "abc"]})
    told = [journal("a"), failure("b"), journal("c", step_ms=300)]
    page = page_of(Told([]), preset, results_for(preset, *told))
    assert re.findall(r"<option value=\"\d\" selected>(.*?)<", page) == ["c"]
    assert re.findall(r"data-prints>\n<h3>(\w+)", page) == ["a", "c"]


def test_all_of_the_environment_and_each_command_are_shown(page: str) -> None:
    run = Run(RECORDED)
    text = Found(page).text
    results = results_of(run, run.preset())
    names = [key.removesuffix("_bytes") for key in results.environment if key not in ("packages", "load_before")]
    names += ["load average before the run", f"{results.environment['load_before']:.2f}"]
    names += results.environment["packages"]
    assert [name for name in names if name not in text] == []
    assert "memory_bytes" not in text
    assert "ddptui presets NAME_OR_FILE prints the commands" in text
    assert all(" ".join(trial.command[1:4]) in text for trial in results.trials)
    run, preset, results = a_run()
    environment = {"gpu_links": ["NVLink between all 8"], "gpu_power_limit_w": [700.0, None]}
    told = Found(page_of(run, preset, msgspec.structs.replace(results, environment=environment))).text
    assert "gpu power limit.1" in told
    assert "700 W" in told
    assert "NVLink between all 8" in told


def test_what_stands_between_backticks_is_code_and_nothing_else_is_markup() -> None:
    preset = two_trials(repeats=1)
    results = results_for(preset, journal("a"), failure("b", error="rank 0 died: `<b>` <i>"))
    whole = page_of(Told(journal("a")), preset, results)
    assert "trial b failed: rank 0 died: <code>&lt;b&gt;</code> &lt;i&gt;" in whole
    assert "raise <code>epochs</code> or <code>steps</code>" in whole


def test_a_run_of_many_ranks_has_a_page_of_bounded_size() -> None:
    preset = preset_of({"title": "Many?", "repeats": 1, "trial": [{"name": "a", "world_size": 64}]})
    told = launch_of(late_steps(64, 8))
    page = page_of(Told(told), preset, results_for(preset, told))
    assert len(page) < 300_000
    assert page.count("<article") == 1


def test_primitives_have_a_page_with_tables_and_a_chart_and_a_picture_of_it() -> None:
    measured = cells("all_reduce", lambda bytes: 100 + bytes / 1000)
    results, preset = of_primitives({"a": [result(measured, views=[view()])]})
    found = Found(page_of(Told([]), preset, results))
    assert ("figure", "class") in found.elements
    assert "dist.reduce(tensor, dst=0)" in found.text
    assert "On 2 ranks a call takes " in found.text
    marks = [element for element in found.elements if element[0] == "circle"]
    assert len(marks) == len(SIZES)
    results, preset = of_primitives({"a": [result(cells("all_reduce", lambda bytes: 100 + bytes / 1000))]})
    assert "<circle" in picture(Told([]), preset, results)
    shown, preset = of_primitives({"a": [result(views=[view()])]})
    with pytest.raises(PictureError, match="--format html has all of it"):
        picture(Told([]), preset, shown)


@pytest.fixture
def two(tmp_path: Path) -> tuple[Run, Preset, Results]:
    """Two runs as one; the second one is slower."""
    runs = []
    for name, ms in (("first", 100), ("second", 300)):
        run = write_run(tmp_path, two_trials(repeats=1), journal("a", step_ms=ms), journal("b"))
        runs.append(Run(run.folder.rename(tmp_path / name)))
    return compare_on_disk(*runs)


def test_two_runs_have_a_page_with_the_machines_of_both_and_a_picture(two: tuple[Run, Preset, Results]) -> None:
    run, preset, results = two
    page = page_of(*two)
    text = Found(page).text
    for said in ("A: first, B: second", "The difference to run A", "What differs between the runs", NO_DIFFERENCE):
        assert said in text
    assert "The whole preset, as TOML" not in text
    assert re.findall(r"<option[^>]*>(.*?)</option>", page) == ["A:a", "B:a", "A:b", "B:b"]
    machines = {"A": {"memory_bytes": 2**31}, "B": {"cores": 4}}
    text = Found(page_of(run, preset, msgspec.structs.replace(results, environment=machines))).text
    assert "A: memory" in text
    assert "B: cores" in text
    texts = [element.text or "" for element in ElementTree.fromstring(picture(*two)).iter()]
    assert {"A: first, B: second", "A:a, baseline", "B:a"} <= set(texts)
    assert [text for text in texts if text.endswith(" s  × 3.00")]


def test_a_picture_stands_alone_with_a_bounded_number_of_trials() -> None:
    run, preset, results = a_run()
    drawn = picture(run, preset, results)
    root = ElementTree.fromstring(drawn)
    assert root.get("width") == "900"
    assert not re.findall(r"<script|href|url\(|var\(|@import", drawn)
    assert drawn.count("http") == 1  # the namespace
    texts = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert {"A or b?", "a, baseline", "b"} <= set(texts)
    assert [text for text in texts if str(text).endswith(" s  × 1.00")]
    preset = preset_of({"title": "Many?", "repeats": 1, "trial": [{"name": f"t{n}"} for n in range(MOST_TRIALS + 9)]})
    drawn = picture(Told([]), preset, results_for(preset, journal("t0")))
    assert f">t{MOST_TRIALS - 1}<" in drawn
    assert f">t{MOST_TRIALS}<" not in drawn
    assert ">9 more trials are not shown" in drawn


OF_GPUS = {"gpu mem.", "reserved", "TFLOP/s", "MFU %", "J/step"}  # in the table of trials and in that of ranks


def test_what_gpus_did_is_in_the_tables_and_the_notes_of_a_page(page: str) -> None:
    run = Run(RECORDED)
    preset = run.preset()
    on_them = page_of(run, preset, on_gpus(results_of(run, preset)))
    headers = {re.sub(r"<.*?>", "", header).strip() for header in re.findall(r"<th.*?>(.*?)</th>", on_them, re.DOTALL)}
    assert headers >= {*OF_GPUS, "MHz"}
    assert "NCCL 2.28.9 (ProcessGroupNCCL)" in on_them
    assert "heat or the power limit held back a GPU" in on_them
    assert not [word for word in (*OF_GPUS, "held back a GPU", "ProcessGroupNCCL") if word in page]

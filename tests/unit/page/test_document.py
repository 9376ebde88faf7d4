"""Several recorded runs as one document to hand in, as the command line prints it."""

import re
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from ddptui.cli import main
from ddptui.store.runs import Run
from tests.recorded.net import RUNS
from tests.unit.page.pages import Found
from tests.unit.page.test_page_of_strangers import EVIL

QUESTIONS = """
[[question]]
text = "Why is it slower?"
columns = ["transfer"]
trials = ["all_reduce"]

[[question]]
text = "What next?"
"""
MINE = 'def average(tensors):\n\t"""```"""\n'


def hand_in(lesson: Run, *arguments: str) -> Result:
    """The document of runs beside this one."""
    return CliRunner().invoke(main, ["report", *arguments, "--runs", str(lesson.folder.parent)])


def answer(run: Run, *answers: str) -> None:
    run.write_answers(run.preset(), answers)


def write_code(run: Run, text: str) -> None:
    (run.folder / "code").mkdir()
    (run.folder / "code" / "mine.py").write_text(text)


@pytest.fixture
def lesson(tmp_path: Path) -> Run:
    """A recorded run whose preset asks two questions, beside three others."""
    for name in ("quickstart", "who-waits", "watched", "primitives-measure"):
        shutil.copytree(RUNS / name, tmp_path / name)
    with (tmp_path / "quickstart" / "preset.toml").open("a") as preset:
        preset.write(QUESTIONS)
    return Run(tmp_path / "quickstart")


def test_a_document_of_every_kind_of_run_is_one_page_with_narrow_tables(lesson: Run) -> None:
    runs = ("quickstart", "who-waits", "watched", "primitives-measure")
    printed = hand_in(lesson, *runs, "--author", "Ada", "--title", "1")
    page, found = printed.stdout, Found(printed.stdout)
    assert printed.exit_code == 0
    assert "<h1>1</h1>" in page
    assert "Ada · 4 runs" in found.text
    ids, links = ([value for name, value in found.attributes if name == kind] for kind in ("id", "href"))
    assert len(set(ids)) == len(ids)
    assert {"#run-1", "#run-4", "#environment"} <= {*links} <= {f"#{name}" for name in ids}
    heads = re.findall(r"<thead>(.*?)</thead>", page, re.DOTALL)
    assert len(heads) > 20
    assert max(head.count("<th ") for head in heads) == 5
    assert "Who waits for whom in" in page
    assert page.count("<figure") > 10


def test_columns_of_the_preset_come_first_and_a_run_named_twice_has_one_chapter(lesson: Run) -> None:
    printed = hand_in(lesson, "quickstart", "--format", "markdown").stdout
    assert "| trial | loss | train s | ratio | wait ms |" in printed
    printed = hand_in(lesson, "quickstart", str(lesson.folder), "quick", "--format", "markdown").stdout
    assert re.findall("^## (.)", printed, re.MULTILINE) == ["1", "E"]


def test_questions_have_their_cells_and_answers_and_stderr_counts_those_without(lesson: Run) -> None:
    answer(lesson, "two cores\n\na < b", "")
    printed = hand_in(lesson, "last", "quickstart", "--format", "markdown")
    assert "### Questions\n\n#### 2.1. Why is it slower?\n\n| trial | transfer ms |" in printed.stdout
    assert "\n\n> two cores\n>\n> a < b\n\n#### 2.2. What next?\n\n> Not answered yet.\n" in printed.stdout
    assert (printed.stderr, printed.exit_code) == ("not answered: 1 of 2 questions\n", 0)
    page = hand_in(lesson, "quickstart").stdout
    assert "<blockquote>two cores\n\na &lt; b</blockquote>" in page
    assert "<blockquote>Not answered yet.</blockquote>" in page
    answer(lesson, "two cores", "sleep")
    assert hand_in(lesson, "quickstart").stderr == ""


def test_runs_of_one_preset_say_once_what_it_is_about_and_ask_what_one_of_them_answers(lesson: Run) -> None:
    again = Run(Path(shutil.copytree(lesson.folder, lesson.folder.parent / "again")))
    answer(lesson, "two cores", "")
    printed = hand_in(lesson, lesson.name, again.name, "--format", "markdown")
    assert [printed.stdout.count(text) for text in ("Why is it slower?", "two cores")] == [1, 1]
    assert printed.stdout.count(lesson.preset().about.strip().splitlines()[0]) == 1
    assert printed.stderr == "not answered: 1 of 2 questions\n"
    page = hand_in(lesson, lesson.name, again.name).stdout
    first = page[page.index("<nav") : page.index("</nav>")]
    assert first.count('<span class="soft">') == 2  # what each of them found


def test_the_environment_stands_once_and_says_which_runs_differ(lesson: Run) -> None:
    shared = hand_in(lesson, "quickstart", "who-waits", "--format", "markdown").stdout
    assert shared.count("| torch |") == 1
    assert "| torch | 2.14.1 | all |" in shared
    file = lesson.folder / "environment.json"
    file.write_text(file.read_text().replace('"torch": "2.14.1"', '"torch": "2.4.0"'))
    differs = hand_in(lesson, "quickstart", "who-waits", "watched", "--format", "markdown").stdout
    assert "| torch | 2.4.0 | 1 |\n| torch | 2.14.1 | 2 and 3 |\n" in differs


def test_code_stands_once_in_each_version(lesson: Run) -> None:
    write_code(lesson, MINE)
    write_code(Run(lesson.folder.parent / "who-waits"), MINE)
    write_code(Run(lesson.folder.parent / "watched"), "average = None\n")
    printed = hand_in(lesson, "quickstart", "who-waits", "watched", "--format", "markdown").stdout
    [_, code] = printed.split("## Own code\n")
    assert re.findall("### (.*)", code) == ["mine.py (runs 1 and 2)", "mine.py (run 3)"]
    assert '````python\ndef average(tensors):\n    """```"""\n````\n' in code
    assert hand_in(lesson, "quickstart").stdout.count("def average") == 1


def test_a_run_that_is_not_there_or_damaged_is_named_in_one_line(lesson: Run) -> None:
    for names, said in ((["nope"], "no run 'nope'"), (["quickstart", "who-waits"], "who-waits/preset.toml")):
        (lesson.folder.parent / "who-waits" / "preset.toml").write_text("[")
        printed = hand_in(lesson, *names)
        assert (printed.exit_code, printed.stdout, printed.stderr.count("\n")) == (2, "", 1)
        assert said in printed.stderr


def test_an_answer_and_code_bring_no_element(lesson: Run) -> None:
    evil = EVIL[0]
    answer(lesson, "plain", "plain")
    write_code(lesson, "plain")
    plain = Found(hand_in(lesson, "quickstart", "--author", "plain", "--title", "plain").stdout)
    answer(lesson, evil, evil)
    (lesson.folder / "code" / "mine.py").write_text(evil)
    found = Found(hand_in(lesson, "quickstart", "--author", evil, "--title", evil).stdout)
    assert found.elements == plain.elements
    assert found.text.count(evil[:20]) >= 3

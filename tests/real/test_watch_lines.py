"""From the late rank to its line of code: what watched trainings that are late at one known line are told.

The trainings are scripts that know nothing of ddptui (tests/support/trainings/lines). In them, `# slow: KIND` marks the
lines in which the late rank spends the time, and `# calls: KIND` the line that calls them.
"""

import ast
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.support.runner import run_json, write_preset
from tests.support.watching import TORCHRUN, TRAININGS, only_trial, watched

RARE = pytest.mark.rare
PROGRAMS = TRAININGS / "lines"
OFTEN = ("collate",)

LATE = {  # the rank and the phase
    **dict.fromkeys(("dataset", "holds-lock", "collate", "collate-busy"), (1, "data")),
    **dict.fromkeys(("comprehension", "library", "tokenizer", "workers-busy", "workers-sleep"), (1, "data")),
    **dict.fromkeys(("hook", "deep", "flat"), (1, "forward")),
    **dict.fromkeys(("function", "backward-hook"), (1, "backward")),
    **dict.fromkeys(("optimizer",), (1, "optimizer")),
    **dict.fromkeys(("item", "collect", "clip"), (1, "between steps")),
}
RARELY = ("checkpoint", "validate")  # rank 0, between steps
COLLECTED = ("collect", "automatic")
CALLED = ("collate", "comprehension", "deep", "hook", "clip", "item", "optimizer")
OF_WORKERS = ("workers-busy", "workers-sleep")
STEPS = 200
MOST = 0.6  # of what the rank is late by

PLACE = re.compile(r"(?:(?P<function>[^,]+), )?(?:[\w/]+/)?(?P<file>\w+\.py):(?P<first>\d+)(?: to (?P<last>\d+))?")


def marked(mark: str, kind: str) -> tuple[str, list[int]]:
    """Returns the file with the mark, and the numbers of the lines that have it."""
    found = {}
    for path in sorted(PROGRAMS.glob("*.py")):
        for number, line in enumerate(path.read_text().splitlines(), 1):
            kinds = re.search(rf"# {mark}: ([\w, -]+)", line)
            if kinds and kind in kinds[1].strip().split(", "):
                found.setdefault(path.name, []).append(number)
    [(file, lines)] = found.items()
    return file, lines


def function_at(file: str, line: int) -> str | None:
    """Returns the name of the innermost function that contains a line, without its class."""
    tree = ast.parse((PROGRAMS / file).read_text())
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    around = [node for node in functions if node.lineno <= line <= (node.end_lineno or 0)]
    return max(around, key=lambda node: node.lineno).name if around else None


def is_at(place: str, kind: str, mark: str = "slow") -> bool:
    """Whether a place is that of the marked lines. A sample may be of the line beside the one that ran."""
    file, lines = marked(mark, kind)
    named = PLACE.fullmatch(place)
    assert named, place
    first, last = int(named["first"]), int(named["last"] or named["first"])
    function = function_at(file, lines[0])
    names = {"garbage collection"} if mark == "slow" and kind in COLLECTED else {function}
    return (
        named["file"] == file
        and (named["function"] and named["function"].rpartition(".")[2]) in names
        and any(first <= line <= last for line in lines)
        and min(lines) - 1 <= first
        and last <= max(lines) + 1
    )


def watch(runs: Path, kind: str, steps: int = STEPS) -> tuple[dict[str, Any], str]:
    """Watches the training of a kind. Returns its trial, and what the report says, in one line."""
    program = ["flat.py"] if kind == "flat" else ["late.py", kind]
    command = [*TORCHRUN, str(PROGRAMS / program[0]), *program[1:], str(steps)]
    done = watched(runs, "--", *command, OMP_NUM_THREADS="1")
    assert done.returncode == 0, done.stderr
    return only_trial(runs), " ".join(done.stderr.split())


def only_of(findings: Sequence[dict[str, Any]], *kinds: str) -> dict[str, Any]:
    [finding] = [finding for finding in findings if finding["kind"] in kinds]
    return finding


def adds_up(finding: dict[str, Any]) -> bool:
    numbers, lines = finding["numbers"], finding["lines"]
    explained_ms = sum(line["ms"] for line in lines)
    most_costly_first = sorted(lines, key=lambda line: -line["ms"])
    assert lines == most_costly_first
    assert all(line["ms"] > 0 for line in lines)
    return bool(explained_ms + numbers["unexplained_ms"] == pytest.approx(numbers["late_ms"], rel=0.01))


def explained(finding: dict[str, Any]) -> float:
    """The part of what the rank is late by, in the phase in which it is, that lines explain. Beside other programs, a
    rank is late in other phases, too: of 29 ms a step, 7 were seen where 20 were put in."""
    numbers = finding["numbers"]
    in_phase = numbers.get(f"in_{finding['phase']}_share", 1.0)
    assert in_phase >= MOST, numbers
    return float(sum(line["ms"] for line in finding["lines"]) / (numbers["late_ms"] * in_phase))


def kinds(names: Sequence[str]) -> list[Any]:
    return [pytest.param(name, marks=() if name in OFTEN else RARE) for name in names]


@pytest.mark.parametrize("kind", kinds([*LATE]))
def test_a_late_rank_is_followed_to_its_line_and_the_line_that_calls_it(tmp_path: Path, kind: str) -> None:
    trial, told = watch(tmp_path, kind, STEPS // 2 if kind in OFTEN else STEPS)
    found = only_of(trial["findings"], "late_rank")
    assert (found["rank"], found["phase"]) == LATE[kind]
    first = found["lines"][0]
    assert is_at(first["place"], kind), found["lines"]
    assert found["place"] in first["place"]
    assert adds_up(found), found
    assert explained(found) >= 0.9
    at_marked_lines_ms = sum(line["ms"] for line in found["lines"] if is_beside(line["place"], kind))
    # Of a line that keeps Python's lock for less than 5 ms, some samples are taken where it is given up next.
    assert at_marked_lines_ms >= MOST * found["numbers"]["late_ms"], found["lines"]
    assert first["place"] in told
    assert ("loader workers" in told) == (kind in OF_WORKERS)
    if kind in CALLED:  # the caller in the user's own code
        assert is_at(first["by"], kind, "calls"), first


def is_beside(place: str, kind: str) -> bool:
    """Whether a place is that of the marked lines, be it for a garbage collection or not."""
    return is_at(place, kind) or (kind in COLLECTED and is_at(f"garbage collection, {place.rpartition(', ')[2]}", kind))


@RARE
def test_collections_that_python_starts_itself_are_named(tmp_path: Path) -> None:
    """They come in some steps only, so that the rank may be late now and then."""
    trial, _ = watch(tmp_path, "automatic")
    [found, *_] = [found for found in trial["findings"] if found.get("lines") and found.get("rank") == 1]
    assert is_at(found["lines"][0]["place"], "automatic"), found


@RARE
def test_two_slow_lines_are_named_the_more_costly_one_first(tmp_path: Path) -> None:
    trial, _ = watch(tmp_path, "two")
    found = only_of(trial["findings"], "late_rank")
    large, small = found["lines"][:2]
    assert (found["rank"], found["phase"]) == (1, "data")
    assert is_at(large["place"], "two-large")
    assert is_at(small["place"], "two-small")
    assert 1.3 < large["ms"] / small["ms"] < 5  # 15 and 7 ms; lines beside each other may share their times
    assert adds_up(found), found
    assert explained(found) >= 0.9


@RARE
@pytest.mark.parametrize("kind", RARELY)
def test_a_rare_pause_is_followed_to_its_line(tmp_path: Path, kind: str) -> None:
    trial, told = watch(tmp_path, kind)
    [found] = [finding for finding in trial["findings"] if finding["kind"] in ("rare_waits", "bursts")]
    assert (found["rank"], found["phase"]) == (0, "between steps")
    assert found["steps"] == [50, 100, 150]
    file, lines = marked("slow", kind)
    assert found["place"] in [f"{file}:{line}" for line in lines] or is_at(found["lines"][0]["place"], kind)
    assert found["lines"][0]["place"] in told


@RARE
@pytest.mark.parametrize("kind", ["none", "both"])
def test_no_line_is_accused_where_no_rank_is_late(tmp_path: Path, kind: str) -> None:
    trial, _ = watch(tmp_path, kind)
    [repeat] = trial["repeats"]
    assert not [found for found in (*trial["findings"], *repeat["findings"]) if found.get("lines") and "rank" in found]


PRESET = """
[defaults]
launch = "spawn"
world_size = 2
model = "mlp"
width = 128
dataset = "digits"
batch_size = 64
steps = 60
threads = 1
[[defaults.bottleneck]]
at = "data"
ranks = [1]
sleep_ms = 20
[[trial]]
name = "one"
strategy = "all_reduce"
"""


def test_the_lab_names_the_line_of_the_delay_that_it_has_put_in(tmp_path: Path) -> None:
    results, code = run_json(tmp_path / "runs", write_preset(tmp_path, PRESET))
    assert code == 0
    [injected] = [found for found in results["trials"][0]["findings"] if found["kind"] == "injected"]
    train = (TRAININGS.parents[2] / "workers" / "train.py").read_text().splitlines()
    line = 1 + next(at for at, text in enumerate(train) if 'delays.at("data")' in text)
    assert injected["lines"][0]["place"] == f"train, workers/train.py:{line}"
    assert injected["lines"][0]["ms"] > 15

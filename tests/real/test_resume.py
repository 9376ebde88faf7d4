"""A console is killed in the midst of a run; `--resume` launches what is missing, and leaves the rest as it is."""

import json
import random
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from ddptui.store.runs import Run
from tests.support.runner import ENOUGH_S, QUICK, ddptui, environment, family, start, survivors, write_preset
from tests.support.running import Running
from tests.support.waiting import until
from tests.support.watched import Watched, watched

TRIALS = ("a", "b")
PRESET = f'repeats = 2\n[defaults]\nlaunch = "single"\n{QUICK}[[trial]]\nname = "a"\n[[trial]]\nname = "b"\nseed = 1\n'
LAUNCHES = [(name, repeat) for repeat in (1, 2) for name in TRIALS]
ENDS_WITHIN_S = 60


def only_run(runs: Path) -> Path:
    [run] = runs.iterdir()
    return run


def journal(run: Path, name: str, repeat: int) -> Path:
    return run / f"trial-{name}" / f"repeat-{repeat}" / "messages.jsonl"


def is_finished(path: Path) -> bool:
    return path.is_file() and b'"type":"Ended"' in path.read_bytes().rstrip(b"\n").rpartition(b"\n")[2]


def await_launch(console: "subprocess.Popen[str]", runs: Path, name: str, repeat: int) -> None:
    """Until this launch has been begun."""
    until(lambda: list(runs.glob(f"*/trial-{name}/repeat-{repeat}/messages.jsonl")) or console.poll() is not None)
    assert console.poll() is None


def kill(console: "subprocess.Popen[str]") -> None:
    left = family(console.pid)
    console.kill()
    console.communicate()
    assert not survivors(left, 5)


def results_of(runs: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((only_run(runs) / "results.json").read_text())
    return found


@pytest.mark.rare
@pytest.mark.parametrize("seed", [1])  # `make soak` does it fifty times
def test_killed_at_any_moment_and_resumed_the_table_is_complete(tmp_path: Path, seed: int) -> None:
    runs, preset = tmp_path / "runs", write_preset(tmp_path, PRESET)
    console = start(runs, "--preset", str(preset), "--json")
    await_launch(console, runs, *random.Random(seed).choice(LAUNCHES))
    time.sleep(random.Random(seed).uniform(0, 5))  # at any moment of it
    kill(console)
    run = only_run(runs)
    there = {path: path.read_bytes() for path in run.glob("*/*/messages.jsonl") if is_finished(path)}

    done = ddptui(runs, "--resume", run.name, "--json")
    assert done.returncode == 0, done.stderr
    results = json.loads(done.stdout)
    assert results["status"] == "ok"
    assert [(trial["name"], len(trial["repeats"])) for trial in results["trials"]] == [("a", 2), ("b", 2)]
    assert results == results_of(runs)
    for path, before in there.items():
        assert path.read_bytes() == before
    assert all(is_finished(journal(run, *launch)) for launch in LAUNCHES)


@pytest.fixture(scope="module")
def interrupted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of runs of a console that was interrupted in its second launch, after a trial that fails."""
    folder = tmp_path_factory.mktemp("interrupted")
    failing = '[[trial]]\nname = "bad"\nfault = [{kind = "exit", rank = 0, step = 3}]\n'
    text = PRESET.replace('[[trial]]\nname = "b"', f'{failing}[[trial]]\nname = "b"')
    console = start(folder / "runs", "--preset", str(write_preset(folder, text)), "--json")
    await_launch(console, folder / "runs", "b", 1)
    console.send_signal(signal.SIGINT)
    _, errors = console.communicate(timeout=ENDS_WITHIN_S)
    assert console.returncode == 130
    assert f"`ddptui --resume {only_run(folder / 'runs').name}` launches what is missing" in errors
    return folder / "runs"


def test_what_has_failed_is_left_and_what_was_interrupted_is_put_aside(interrupted: Path) -> None:
    run = only_run(interrupted)
    cut_short = journal(run, "b", 1).read_bytes()
    console = start(interrupted, "--resume", "last", "--json")
    await_launch(console, interrupted, "a", 2)

    console.send_signal(signal.SIGSTOP)  # else it might end before the other one looks
    other = ddptui(interrupted, "--resume", "last", "--no-ui")
    console.send_signal(signal.SIGCONT)
    assert other.returncode == 2
    assert "another console is running this run" in other.stderr

    output, errors = console.communicate(timeout=ENOUGH_S)
    assert console.returncode == 1  # one trial has failed
    assert "2 of 5 launches finished" in errors
    assert "not launched again, because they failed: bad" in errors
    trials = {trial["name"]: (trial["status"], len(trial["repeats"])) for trial in json.loads(output)["trials"]}
    assert trials == {"a": ("ok", 2), "bad": ("failed", 0), "b": ("ok", 2)}
    assert (run / "trial-b" / "repeat-1.interrupted-1" / "messages.jsonl").read_bytes() == cut_short
    environment = json.loads((run / "environment.json").read_text())
    assert [each["changed"] for each in environment["resumed"]] == [{}]
    assert environment["watched"] == "headless"

    again = ddptui(interrupted, "--resume", "last", "--json")
    assert json.loads(again.stdout)["trials"] == json.loads(output)["trials"]
    assert "5 of 5 launches finished" in again.stderr
    assert "[" not in again.stderr  # nothing was launched


@pytest.mark.rare
@pytest.mark.parametrize("is_late", [False, True], ids=["all at once", "beside a console's screen"])
def test_of_consoles_that_resume_a_run_at_once_one_goes_on(tmp_path: Path, is_late: bool) -> None:
    runs, preset = tmp_path / "runs", write_preset(tmp_path, PRESET)
    console = start(runs, "--preset", str(preset), "--json")
    await_launch(console, runs, "b", 1)
    kill(console)
    run = only_run(runs)
    good = journal(run, "a", 1).read_bytes()

    words = ("--resume", run.name)
    with watched(words, tmp_path, environment(runs), on_a_terminal=True) as screen:
        if is_late:
            assert screen.until(rb"\x1b\[\?1049h")
        headless = [start(runs, *words, "--json") for _ in range(2)]
        await_finished(run, screen)
        screen.press(b"q")
        over = screen.over()
    ended = [(each.communicate(timeout=ENDS_WITHIN_S), each.returncode) for each in headless]
    said = [over.out if over.code == 2 else "", *(errors for (_, errors), code in ended if code == 2)]
    assert sorted([over.code, *(code for _, code in ended)]) == [0, 2, 2], (over, ended)
    assert len([text for text in said if "another console is running this run" in text]) == 2, said

    assert journal(run, "a", 1).read_bytes() == good
    assert sorted(path.name for path in run.glob("trial-*/repeat-*")) == [
        "repeat-1", "repeat-1", "repeat-1.interrupted-1", "repeat-2", "repeat-2",
    ]  # fmt: skip
    launched = [journal(run, *launch).read_bytes().count(b'"type":"Launched"') for launch in LAUNCHES]
    assert launched == [1, 1, 1, 1]
    assert len(json.loads((run / "environment.json").read_text())["resumed"]) == 1
    assert [len(trial["repeats"]) for trial in results_of(runs)["trials"]] == [2, 2]


def await_finished(run: Path, screen: Watched) -> None:
    """Read what a console paints, until all launches are finished, and no console holds the run."""
    deadline = time.monotonic() + ENOUGH_S
    while not all(is_finished(journal(run, *launch)) for launch in LAUNCHES) or Run(run).is_held():
        assert time.monotonic() < deadline
        if b"Start anyway" in screen.painted[screen._pressed_at :]:  # the console asks, since this machine is busy
            screen.press(b"s")
        if not screen._read_some():  # it has ended
            time.sleep(0.1)


def test_the_journal_is_never_more_than_a_second_behind(tmp_path: Path) -> None:
    """The messages of ranks that are stopped, too: nothing else comes after them."""
    console = Running(tmp_path, "warm-single")
    moment_ns = time.monotonic_ns()
    time.sleep(1.5)  # a second, and the time of a frame and of a look
    assert max(message.get("end_ns", 0) for message in console.journal("long")) >= moment_ns
    kill(console.process)
    assert not psutil.pid_exists(console.process.pid)

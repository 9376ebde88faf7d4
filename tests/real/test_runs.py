"""What a run as a whole keeps to: bottlenecks that fire, failures that stay with their trial, consoles side by side."""

import json
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.support.runner import ENOUGH_S, QUICK, start

WELL = f"""
title = "T"
[defaults]
{QUICK}
[[trial]]
name = "a"
launch = "single"
[[trial]]
name = "every-call"
strategy = "reduce_broadcast"
[[trial.bottleneck]]
at = "aggregate"
per = "call"
ranks = [1]
sleep_ms = 2
[[trial]]
name = "in-ddp"
strategy = "ddp"
[[trial.bottleneck]]
at = "aggregate"
ranks = [0, 1]
sleep_ms = 2
[[trial.bottleneck]]
at = "start"
ranks = [0]
sleep_ms = 3
"""
BADLY = f"""
title = "T"
repeats = 2
[defaults]
launch = "single"
[[trial]]
name = "broken"
dataset = "mnist"
{QUICK}
[[trial]]
name = "short"
model = "mlp"
batch_size = 1437
epochs = 2
[[trial]]
name = "whole"
{QUICK}
"""


class Ran(NamedTuple):
    """A console's exit code, all that it printed, and the results that it kept."""

    code: int
    out: str
    errors: str
    results: dict[str, Any]

    def trial(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = next(trial for trial in self.results["trials"] if trial["name"] == name)
        return found


@pytest.fixture(scope="module")
def consoles(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Ran]:
    """Two, side by side, that keep their runs in one folder: in one all goes well, in the other one badly."""
    folder = tmp_path_factory.mktemp("runs")
    raw = folder / "data" / "MNIST" / "raw"
    raw.mkdir(parents=True)
    for part in ("train", "t10k"):
        for what in ("images-idx3", "labels-idx1"):
            (raw / f"{part}-{what}-ubyte").write_bytes(b"not what it says")
    started = {name: begin(folder, name, text) for name, text in (("well", WELL), ("badly", BADLY))}
    printed = {name: console.communicate(timeout=ENOUGH_S) for name, console in started.items()}
    codes = {name: console.returncode for name, console in started.items()}
    return {name: Ran(codes[name], out, errors, kept_in(errors)) for name, (out, errors) in printed.items()}


def begin(folder: Path, name: str, text: str) -> "subprocess.Popen[str]":
    (folder / name).mkdir()
    preset = folder / name / "same.toml"  # the runs would have the same name, too
    preset.write_text(text)
    return start(folder / "runs", "--preset", str(preset), "--no-ui", "--set", f"data_dir={folder / 'data'}")


def kept_in(errors: str) -> dict[str, Any]:
    """The results of the run whose folder the console names."""
    [line] = [line for line in errors.splitlines() if line.startswith("kept in ")]
    results: dict[str, Any] = json.loads((Path(line.removeprefix("kept in ")) / "results.json").read_text())
    return results


def test_each_rank_tells_how_often_its_delay_fired_and_how_long_it_slept(consoles: dict[str, Ran]) -> None:
    ran = consoles["well"]
    every_call, in_ddp = (ran.trial(name)["repeats"][0]["ranks"] for name in ("every-call", "in-ddp"))
    calls = 6 * 4 * 2  # measured steps, parameters, collectives a parameter
    assert [rank["bottleneck_fired"] for rank in every_call] == [0, calls]
    assert every_call[1]["bottleneck_s"] >= calls * 0.002
    assert [rank["bottleneck_fired"] for rank in in_ddp] == [6 + 1, 6]
    assert "48×" in ran.out


def test_a_rank_that_fails_is_named_with_its_log_and_the_next_trial_goes_on(consoles: dict[str, Ran]) -> None:
    ran = consoles["badly"]
    broken, whole = ran.trial("broken"), ran.trial("whole")
    assert ran.code == 1
    assert ran.results["status"] == "failed"
    assert (broken["status"], whole["status"]) == ("failed", "ok")
    headline, *log = broken["error"].splitlines()
    assert headline.startswith("rank 0 ")
    assert any("Error" in line for line in log)
    assert len(whole["repeats"]) == 2
    assert broken["repeats"] == []


def test_a_trial_of_warm_up_steps_alone_fails_at_once_and_is_not_repeated(consoles: dict[str, Ran]) -> None:
    ran = consoles["badly"]
    assert "[2/4] short  repeat 1 of 2  failed: all of its 2 steps are warm-up steps" in ran.errors
    assert "short  repeat 2" not in ran.errors
    assert "short failed: all of its 2 steps are warm-up steps" in ran.out


def test_two_consoles_at_once_do_not_meet(consoles: dict[str, Ran]) -> None:
    assert [ran.code for ran in consoles.values()] == [0, 1]
    assert len({ran.results["run"] for ran in consoles.values()}) == 2
    assert consoles["well"].results["status"] == "ok"


def test_progress_is_a_line_a_launch_on_stderr_and_stdout_holds_the_table_alone(consoles: dict[str, Ran]) -> None:
    ran = consoles["well"]
    title, answer, table, *_ = ran.out.split("\n\n")
    assert title == "T"
    assert answer.startswith(("every-call was ", "every-call took ", "Cannot tell "))  # if other tests keep it busy
    assert table.startswith("trial ")
    assert all(len(line) <= 80 for line in table.splitlines())  # the notes below, of a busy machine say, are sentences
    assert "\x1b" not in ran.out + ran.errors
    lines = ran.errors.splitlines()
    assert lines[0] == "T: 3 trials, 1 repeat"
    assert lines[1] == "[1/3] a  one process, no group"
    assert lines[2].startswith("[1/3] a  8 steps  last loss ")
    assert [line[:5] for line in lines[3:7]] == ["[2/3]", "[2/3]", "[3/3]", "[3/3]"]
    assert lines[7].startswith("kept in ")

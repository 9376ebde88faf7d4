"""What a run as a whole keeps to: bottlenecks that fire, failures that stay with their trial, consoles side by side."""

import json
from pathlib import Path

from tests.support.runner import ENOUGH_S, QUICK, ddptui, results_of, run_json, start, write_preset

BOTTLENECKS = f"""
[defaults]
{QUICK}
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

BROKEN = f"""
repeats = 2
[defaults]
{QUICK}
launch = "single"
[[trial]]
name = "broken"
dataset = "mnist"
[[trial]]
name = "whole"
"""


def test_each_rank_tells_how_often_its_delay_fired_and_how_long_it_slept(tmp_path: Path) -> None:
    results = results_of(tmp_path / "runs", write_preset(tmp_path, BOTTLENECKS))
    every_call, in_ddp = (trial["repeats"][0]["ranks"] for trial in results["trials"])
    calls = 6 * 4 * 2  # measured steps, parameters, collectives a parameter
    assert [rank["bottleneck_fired"] for rank in every_call] == [0, calls]
    assert every_call[1]["bottleneck_s"] >= calls * 0.002
    assert [rank["bottleneck_fired"] for rank in in_ddp] == [6 + 1, 6]
    assert "48×" in ddptui(tmp_path / "runs", "show", "last").stdout


def test_a_rank_that_fails_is_named_with_its_log_and_the_next_trial_goes_on(tmp_path: Path) -> None:
    raw = tmp_path / "data" / "MNIST" / "raw"
    raw.mkdir(parents=True)
    for part in ("train", "t10k"):
        for what in ("images-idx3", "labels-idx1"):
            (raw / f"{part}-{what}-ubyte").write_bytes(b"not what it says")
    preset = write_preset(tmp_path, BROKEN)
    results, code = run_json(tmp_path / "runs", preset, "--set", f"data_dir={tmp_path / 'data'}")
    broken, whole = results["trials"]
    assert code == 1
    assert results["status"] == "failed"
    assert (broken["status"], whole["status"]) == ("failed", "ok")
    headline, *log = broken["error"].splitlines()
    assert headline.startswith("rank 0 ")
    assert any("Error" in line for line in log)
    assert len(whole["repeats"]) == 2
    assert broken["repeats"] == []


ALL_WARM_UP = """
repeats = 2
[[trial]]
name = "short"
launch = "single"
model = "mlp"
batch_size = 1437
epochs = 2
"""


def test_a_trial_of_warm_up_steps_alone_fails_at_once_and_is_not_repeated(tmp_path: Path) -> None:
    done = ddptui(tmp_path / "runs", "--preset", str(write_preset(tmp_path, ALL_WARM_UP)), "--no-ui")
    assert done.returncode == 1
    assert "[1/1] short  repeat 1 of 2  failed: all of its 2 steps are warm-up steps" in done.stderr
    assert "repeat 2" not in done.stderr
    assert "short failed: all of its 2 steps are warm-up steps" in done.stdout


def test_two_consoles_at_once_do_not_meet(tmp_path: Path) -> None:
    preset = write_preset(tmp_path, f"[[trial]]\nname = 'a'\n{QUICK}")
    consoles = [start(tmp_path / "runs", "--preset", str(preset), "--json") for _ in range(2)]
    outputs = [console.communicate(timeout=ENOUGH_S) for console in consoles]
    assert [console.returncode for console in consoles] == [0, 0], outputs
    assert len({json.loads(output)["run"] for output, _ in outputs}) == 2


def test_progress_is_a_line_a_launch_on_stderr_and_stdout_holds_the_table_alone(tmp_path: Path) -> None:
    preset = write_preset(tmp_path, f"title = 'T'\n[[trial]]\nname = 'a'\nlaunch = 'single'\n{QUICK}")
    done = ddptui(tmp_path / "runs", "--preset", str(preset), "--no-ui")
    assert done.returncode == 0
    title, table, *_ = done.stdout.split("\n\n")
    assert title == "T"
    assert table.startswith("trial ")
    assert all(len(line) <= 80 for line in table.splitlines())  # the notes below, of a busy machine say, are sentences
    assert "\x1b" not in done.stdout + done.stderr
    lines = done.stderr.splitlines()
    assert lines[0] == "T: 1 trial, 1 repeat"
    assert lines[1] == "[1/1] a  one process, no group"
    assert lines[2].startswith("[1/1] a  8 steps  loss ")
    assert lines[3].startswith("kept in ")

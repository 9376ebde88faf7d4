"""`ddptui watch` over a training on GPUs, which are simulated: figures are the GPU's, and nothing of it is spoiled."""

from pathlib import Path

import pytest

from tests.support.watching import TORCHRUN, journal, only_trial, script, watched

STEPS, CAPTURED = 60, 3  # what is captured is not done: it is no step
LATE_MS = 60.0  # a busy machine makes its host late by some ms


@pytest.mark.parametrize(("rank", "phase"), [(1, "forward"), pytest.param(0, "backward", marks=pytest.mark.rare)])
def test_the_late_gpu_is_named_though_its_host_goes_on_and_captured_graphs_are_unharmed(
    tmp_path: Path, rank: int, phase: str
) -> None:
    done = watched(tmp_path, "--", *TORCHRUN, *script("on_a_gpu", str(rank), phase, str(LATE_MS), str(CAPTURED)))
    assert done.returncode == 0, done.stderr
    assert "GPUs in each trial" not in done.stderr  # a simulated driver knows none of their figures
    assert done.stdout.count("captures that were spoiled: []") == 2
    assert done.stdout.count("calls from a fork: [], events given back: 0") == 2
    trial = only_trial(tmp_path)
    [repeat] = trial["repeats"]
    assert {each["device"] for each in repeat["ranks"]} == {"cuda:0"}
    culprit = trial["summary"]["culprit"]
    assert (culprit["rank"], culprit["phase"]) == (rank, phase)
    late_s = LATE_MS / 1000 * repeat["steps"]
    assert 0.85 * late_s < culprit["excess_s"]["estimate"] < 1.5 * late_s  # a GPU waits for its host, too
    assert repeat["ranks"][rank]["work_s"][phase] > late_s
    assert repeat["ranks"][1 - rank]["wait_s"] > 0.8 * late_s
    for each in range(2):
        steps = [line for line in journal(tmp_path) if line["type"] == "Step" and line["rank"] == each]
        half = STEPS // 2
        # of the first step after a capture, the begin is not known
        assert [step["step"] for step in steps] == [*range(half), *range(half + CAPTURED + 1, STEPS + CAPTURED)]
        assert [len(step["collectives"]) for step in steps] == [2] * (STEPS - 1)

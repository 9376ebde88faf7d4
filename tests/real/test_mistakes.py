"""The presets of mistakes, run for real: each turns its own light red, for the right reason, and no other."""

from pathlib import Path
from typing import Any

import pytest

from ddptui.engines.local.warm import WarmParent
from tests.support.here import run_here
from tests.support.runner import ddptui

REPO = Path(__file__).parents[2]
SHORT = {"epochs": 2, "width": 16}


def run_preset(warm: WarmParent, folder: Path, name: str) -> dict[str, dict[str, Any]]:
    """The first repeat of every trial of a shipped preset."""
    results = run_here(warm, folder, REPO / "presets" / f"{name}.toml", **SHORT)
    assert results["status"] == "ok"
    return {trial["name"]: trial["repeats"][0] for trial in results["trials"]}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="module")
def mistakes(warm: WarmParent, runs: Path) -> dict[str, dict[str, Any]]:
    return run_preset(warm, runs, "mistakes")


@pytest.fixture(scope="module")
def batchnorm(warm: WarmParent, runs: Path) -> dict[str, dict[str, Any]]:
    return run_preset(warm, runs, "batchnorm")


HALF = "gradients are 0.5 times the mean: the sum was divided once too often"


@pytest.mark.parametrize(
    ("trial", "parameters", "order", "why"),  # why: the mean is wrong
    [
        ("right", True, True, None),
        ("ddp", True, True, None),
        ("average-again", True, True, None),
        ("group-of-one", False, True, "each rank kept its own gradients, times 0.5: nothing was averaged"),
        ("tutorial", True, True, HALF),
        ("divide-twice", True, True, HALF),
        ("no-division", True, True, "gradients are 2 times the mean: they are the sum, the division is missing"),
        ("no-broadcast", False, True, None),
        ("no-set-epoch", True, False, None),
    ],
)
def test_a_mistake_turns_its_own_light_red_which_says_why(
    mistakes: dict[str, dict[str, Any]], trial: str, parameters: bool, order: bool, why: str | None
) -> None:
    repeat = mistakes[trial]
    assert repeat["in_sync"]["parameters"] is parameters
    assert repeat["averaging"]["right"] is (why is None)
    assert repeat["averaging"]["why"] == why
    assert repeat["reshuffled"] is order


def test_averaging_again_is_right_and_takes_time(mistakes: dict[str, dict[str, Any]]) -> None:
    assert mistakes["average-again"]["loss"] == mistakes["ddp"]["loss"]
    assert mistakes["average-again"]["phases_ms"]["aggregate"] > 2 * mistakes["ddp"]["phases_ms"]["aggregate"]


def test_only_buffers_of_batchnorm_differ(batchnorm: dict[str, dict[str, Any]]) -> None:
    for trial in ("ddp", "all_reduce"):
        in_sync = batchnorm[trial]["in_sync"]
        assert (in_sync["parameters"], in_sync["buffers"]) == (True, False)
        assert all("running" in name for name in in_sync["differing"])
        assert batchnorm[trial]["averaging"]["right"] is True
    assert batchnorm["no-batchnorm"]["in_sync"]["buffers"] is True


@pytest.mark.usefixtures("batchnorm")
def test_verify_compares_the_checkpoints_of_a_run(runs: Path) -> None:
    done = ddptui(runs, "verify", "last")
    assert done.returncode == 1, done.stderr
    by_ddp, by_hand, without = done.stdout.split("model-rank-1.pth against model-rank-0.pth")[1:]
    for shown in (by_ddp, by_hand):
        assert "parameters: all 10 equal" in shown
        assert "buffers: 4 of 6 differ" in shown
        assert "2.running_mean: 16 of 16 elements, at most " in shown
    assert "parameters: all 6 equal" in without
    assert "buffers: none" in without


@pytest.mark.usefixtures("mistakes")
def test_verify_compares_the_hashes_of_a_run_that_saved_nothing(runs: Path) -> None:
    [name] = [path.name for path in runs.iterdir() if path.name.endswith("mistakes")]
    done = ddptui(runs, "verify", name)
    assert done.returncode == 1, done.stderr
    assert "no-broadcast, repeat 1, 2 ranks\nparameters: 6 of 6 differ\n  1.weight\n" in done.stdout
    assert "tutorial, repeat 1, 2 ranks\nparameters: all 6 equal\nbuffers: none\n" in done.stdout

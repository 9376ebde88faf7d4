"""What cannot run is refused in one line, with what to do about it, before a process is started."""

from pathlib import Path
from typing import Any, NamedTuple

import pytest
from click.testing import CliRunner

from ddptui.cli import main
from ddptui.engines.gpu_checks import ABOUT_GPUS, needs
from ddptui.host.folders import lab_root
from ddptui.host.gpus import surely_none
from ddptui.store.presets import load
from tests.support.runner import ddptui, run_json, write_preset

pytestmark = pytest.mark.usefixtures("signals_given_back")


def refusal(tmp_path: Path, *words: str) -> str:
    """The one line that a refused run says. Nothing is started: it is said in this process."""
    done = CliRunner().invoke(main, words, env={"DDPTUI_RUNS": str(tmp_path / "runs")})
    assert (done.exit_code, type(done.exception)) == (2, SystemExit), done.output
    assert done.stdout == ""
    assert not (tmp_path / "runs").exists()
    [line] = done.stderr.splitlines()
    return line


def test_missing_data_says_both_ways_to_get_it(tmp_path: Path) -> None:
    line = refusal(tmp_path, "--preset", "quickstart", "--no-ui", "--set", "dataset=mnist", "--set",
                   f"data_dir={tmp_path}")  # fmt: skip
    assert f"dataset mnist is not in {tmp_path}" in line
    assert "--set download=true" in line
    assert "copy the files there" in line


def test_a_bad_preset_names_file_key_and_nearest_spelling(tmp_path: Path) -> None:
    preset = write_preset(tmp_path, '[[trial]]\nlaunch = "spwan"\n')
    line = refusal(tmp_path, "--preset", str(preset), "--no-ui")
    assert f"{preset}: trial[0].launch" in line
    assert "did you mean 'spawn'?" in line


def test_presets_shows_the_exact_commands_and_starts_nothing(tmp_path: Path) -> None:
    done = ddptui(tmp_path / "runs", "presets", "launch-modes")
    assert done.returncode == 0
    assert "-m torch.distributed.launch --standalone --nproc_per_node=2 -m workers.launch" in done.stdout
    assert "-m workers.spawn strategy=ddp" in done.stdout
    assert "threads, CPU stand-in" in done.stdout
    assert not (tmp_path / "runs").exists()


@pytest.mark.skipif(not surely_none(), reason="this machine has a GPU, where these run")
@pytest.mark.parametrize("preset", sorted(path.stem for path in (lab_root() / "presets").glob("*.toml")))
def test_a_preset_for_gpus_says_so_and_is_not_sent_to_the_cpu(tmp_path: Path, preset: str) -> None:
    if load(preset).group != ABOUT_GPUS:
        assert not any(map(needs, load(preset).trials))
        return
    line = refusal(tmp_path, "--preset", preset, "--no-ui")
    assert "but this machine has none: run it on a machine that has one (a container sees them after `docker" in line
    assert "--set" not in line


# What a preset names, and what it only says

MINE = """
import os
from torch import nn
def net(num_classes: int) -> nn.Module:
    open(os.environ["MARK"], "a").write(f"{num_classes}\\n")
    return nn.Sequential(nn.Flatten(), nn.Linear(64, num_classes))
"""
PRESET = """
title = "{code}"
about = "{code}"
group = "{code}"
[defaults]
steps = 8
warmup_steps = 2
threads = 1
[[trial]]
name = "mine"
model = "mine:net"
[[trial]]
name = "no-model"
launch = "single"
model = "os:system"
[[trial]]
name = "only-said"
launch = "single"
model = "mlp"
data_dir = "{code}"
"""


class Own(NamedTuple):
    """A run in which the user's own code was named, and code that is none of the lab's business stood in every text."""

    folder: Path
    code: str
    trials: dict[str, dict[str, Any]]


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Own:
    folder = tmp_path_factory.mktemp("own")
    (folder / "mine.py").write_text(MINE)
    touched = folder / "touched"
    code = f"$(touch {touched}) `touch {touched}`; __import__('os').system('touch {touched}')"
    variables = {"PYTHONPATH": str(folder), "MARK": str(folder / "mark")}
    results, status = run_json(folder / "runs", write_preset(folder, PRESET.format(code=code)), **variables)
    assert status == 1
    return Own(folder, code, {trial["name"]: trial for trial in results["trials"]})


def test_a_model_of_ones_own_is_trained_by_every_rank(own: Own) -> None:
    assert (own.folder / "mark").read_text() == "10\n10\n"  # once a rank, and never in the console
    assert own.trials["mine"]["repeats"][0]["in_sync"]["parameters"]


def test_named_code_that_makes_no_model_fails_in_the_rank_with_one_line(own: Own) -> None:
    assert own.trials["no-model"]["status"] == "failed"
    line = own.trials["no-model"]["error"].splitlines()[0]
    assert "TypeError: model 'os:system': system(num_classes=10): " in line


def test_whatever_else_a_preset_says_is_only_data(own: Own) -> None:
    assert own.trials["only-said"]["status"] == "ok"
    assert own.code in " ".join(own.trials["only-said"]["command"])
    assert not (own.folder / "touched").exists()

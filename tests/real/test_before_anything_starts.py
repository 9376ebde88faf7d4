"""What cannot run is refused in one line, with what to do about it, before a process is started."""

import re
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from click.testing import CliRunner

from ddptui.cli import main
from ddptui.config.values import parse_assignment
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


@pytest.mark.parametrize("dataset", ["mnist", "cifar10"])
def test_missing_data_says_both_ways_to_get_it(tmp_path: Path, dataset: str) -> None:
    line = refusal(tmp_path, "--preset", "quickstart", "--no-ui", "--set", f"dataset={dataset}", "--set",
                   f"data_dir={tmp_path}")  # fmt: skip
    assert f"dataset {dataset} is not in {tmp_path}" in line
    assert "--set download=true" in line
    assert "copy the files there" in line


def test_an_unknown_model_names_its_neighbour(tmp_path: Path) -> None:
    line = refusal(tmp_path, "--preset", "quickstart", "--no-ui", "--set", "model=resnet81")
    assert "no model 'resnet81'; did you mean 'resnet18'?" in line


def test_a_bad_preset_names_file_key_and_nearest_spelling(tmp_path: Path) -> None:
    preset = write_preset(tmp_path, '[[trial]]\nlaunch = "spwan"\n')
    line = refusal(tmp_path, "--preset", str(preset), "--no-ui")
    assert f"{preset}: trial[0].launch" in line
    assert "did you mean 'spawn'?" in line


def test_runs_that_cannot_be_kept_are_not_begun(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = ddptui(tmp_path / "file", "--preset", "quickstart", "--no-ui")
    assert done.returncode == 2
    assert "cannot save runs here" in done.stderr
    assert "--runs" in done.stderr


def test_presets_shows_the_exact_commands_and_starts_nothing(tmp_path: Path) -> None:
    done = ddptui(tmp_path / "runs", "presets", "launch-modes")
    assert done.returncode == 0
    assert "-m torch.distributed.launch --standalone --nproc_per_node=2 -m workers.launch" in done.stdout
    assert "-m workers.spawn strategy=ddp" in done.stdout
    assert "threads, CPU stand-in" in done.stdout
    assert not (tmp_path / "runs").exists()


without_gpus = pytest.mark.skipif(not surely_none(), reason="this machine has a GPU, where these run")


@without_gpus
def test_synchronised_batchnorm_wants_a_gpu(tmp_path: Path) -> None:
    line = refusal(tmp_path, "--preset", "batchnorm", "--no-ui", "--set", "sync_batchnorm=true")
    assert "SyncBatchNorm runs on GPUs only, but this machine has none" in line
    assert "or `--set sync_batchnorm=false`" in line


@without_gpus
@pytest.mark.parametrize("preset", sorted(path.stem for path in (lab_root() / "presets").glob("*.toml")))
def test_a_preset_for_gpus_says_so_and_is_not_sent_to_the_cpu(tmp_path: Path, preset: str) -> None:
    if load(preset).group != ABOUT_GPUS:
        assert not any(map(needs, load(preset).trials))
        return
    line = refusal(tmp_path, "--preset", preset, "--no-ui")
    assert "but this machine has none: run it on a machine that has one (a container sees them after `docker" in line
    assert "--set" not in line


@without_gpus
@pytest.mark.parametrize("preset", ["quickstart", "ddp-by-hand"])
def test_what_is_said_to_do_without_a_gpu_does(tmp_path: Path, preset: str) -> None:
    """Whatever it says to lay over the preset makes it one that could start here."""
    line = refusal(tmp_path, "--preset", preset, "--no-ui", "--set", "device=cuda", "--set", "pin_memory=true")
    overrides = dict(parse_assignment(assignment) for assignment in re.findall(r"--set (\S+=[\w.]+)", line))
    assert overrides
    assert not any(map(needs, load(preset, overrides).trials))


@without_gpus
def test_a_hidden_gpu_and_none_are_told_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    line = refusal(tmp_path, "--preset", "quickstart", "--no-ui", "--set", "device=cuda")
    assert "this machine has none (besides, CUDA_VISIBLE_DEVICES is '', which hides every GPU)" in line


@pytest.mark.parametrize(
    ("assignment", "why"),
    [
        ("average=parameters", "strategy = 'bucketed' averages gradients during backward"),
        ("strategy=ddp_pwoersgd", "did you mean 'ddp_powersgd'?"),
        ("mistake=divide_twice", "'divide_twice' needs strategy = 'all_reduce'"),
        ("every=0", "expected an integer of 1 or more"),
        ("backend=mpi", "mpi needs ranks that mpirun starts: run `mpirun"),
    ],
)
def test_what_means_nothing_together_is_refused_with_the_reason(tmp_path: Path, assignment: str, why: str) -> None:
    assert why in refusal(tmp_path, "--preset", "ddp-by-hand", "--no-ui", "--set", assignment)


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

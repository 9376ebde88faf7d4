"""Frameworks and scripts of others under `ddptui watch --no-ui`: their steps are counted, and who is late is named.

The frameworks come from the environment in the folder DDPTUI_FRAMEWORKS, or from one that is made here.
pytorch/examples is the checkout in the folder DDPTUI_EXAMPLES, or its few files are fetched.
"""

import os
import subprocess
import sys
import urllib.request
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.support.runner import ENOUGH_S
from tests.support.watching import journal, only_trial, script, watched

pytestmark = pytest.mark.rare

PACKAGES = ("lightning", "accelerate", "transformers", "hydra-core", "boto3")  # the last two are minGPT's
WITHOUT_GPU = Path(__file__).parents[1] / "support" / "without_gpu"
SITE_PACKAGES = Path(torch.__file__).parents[1]
EXAMPLES = "https://raw.githubusercontent.com/pytorch/examples/main/"
TUTORIAL, MINGPT = "distributed/ddp-tutorial-series/", "distributed/minGPT-ddp/mingpt/"
FILES = (
    *(TUTORIAL + name for name in ("multigpu_torchrun.py", "datautils.py")),
    *(MINGPT + name for name in ("main.py", "trainer.py", "model.py", "char_dataset.py", "gpt2_train_cfg.yaml")),
    MINGPT + "data/input.txt",
)
FETCH_WITHIN_S = 60
LATE_MS, BATCHES, WARM_UP = 20, 64, 3  # of each rank, in 2 epochs


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the programs of an environment with the frameworks, which takes torch from the running one."""
    if named := os.environ.get("DDPTUI_FRAMEWORKS"):
        return Path(named) / "bin"
    folder = tmp_path_factory.mktemp("frameworks")
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    [site_packages] = folder.glob("lib/python*/site-packages")
    (site_packages / "others.pth").write_text(str(SITE_PACKAGES))
    # torch is there: it is named so that it is not replaced
    install = [folder / "bin" / "pip", "install", "--quiet", f"torch=={version('torch')}", *PACKAGES]
    done = subprocess.run(install, capture_output=True, text=True, timeout=ENOUGH_S)
    if done.returncode != 0:
        pytest.skip(f"{', '.join(PACKAGES)} cannot be installed: {done.stderr.strip().splitlines()[-1]}")
    return folder / "bin"


@pytest.fixture(scope="session")
def examples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with pytorch/examples, as they are."""
    if named := os.environ.get("DDPTUI_EXAMPLES"):
        return Path(named)
    folder = tmp_path_factory.mktemp("examples")
    for file in FILES:
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        try:
            with urllib.request.urlopen(EXAMPLES + file, timeout=FETCH_WITHIN_S) as answer:
                (folder / file).write_bytes(answer.read())
        except OSError as error:
            pytest.skip(f"no pytorch/examples: {EXAMPLES}{file}: {error}; a checkout may be named by DDPTUI_EXAMPLES")
    return folder


def torchrun(programs: Path) -> list[str]:
    return [str(programs / "python"), "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2"]


def starts_itself(programs: Path) -> list[str]:
    return [str(programs / "python")]


def accelerate(programs: Path) -> list[str]:
    # --multi_gpu has it start ranks: the script says that they have none
    options = ["--multi_gpu", "--num_processes=2", "--num_machines=1", "--mixed_precision=no", "--dynamo_backend=no"]
    return [str(programs / "accelerate"), "launch", *options]


def only_repeat(runs: Path) -> dict[str, Any]:
    """Return the only repeat of the only run. Its loss is known, and each phase was seen."""
    [repeat] = only_trial(runs)["repeats"]
    assert (len(repeat["ranks"]), repeat["mismatches"]) == (2, [])
    assert None not in repeat["loss"].values()
    assert all(repeat["phases_ms"][phase] > 0 for phase in ("data", "forward", "backward", "optimizer"))
    return dict(repeat)


# How each is launched, and how many batches make a step.
TRAININGS = {
    "lightning_fit": (starts_itself, 1),
    "accelerated": (accelerate, 2),
    "hf_trainer": (torchrun, 1),
    "fsdp2": (torchrun, 1),
    "compiled": (torchrun, 2),
}


@pytest.mark.parametrize(
    ("training", "where"),
    [
        *((training, "forward") for training in TRAININGS),
        *(("lightning_fit", "data"), ("accelerated", "backward"), ("compiled", "backward")),
    ],
)
def test_the_late_rank_and_its_phase_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, programs: Path, training: str, where: str
) -> None:
    monkeypatch.chdir(tmp_path)  # some leave files where they are started
    launch, accumulates = TRAININGS[training]
    command = [*launch(programs), *script(training, where, str(LATE_MS))]
    done = watched(tmp_path / "runs", "--", *command)
    assert done.returncode == 0, done.stderr
    repeat = only_repeat(tmp_path / "runs")
    assert repeat["steps"] == BATCHES // accumulates - WARM_UP
    assert {line["epoch"] for line in journal(tmp_path / "runs") if line["type"] == "Step"} == {0, 1}
    culprit = repeat["culprit"]
    assert (culprit["rank"], culprit["phase"]) == (1, where)
    late_s = (BATCHES - WARM_UP * accumulates) * LATE_MS / 1000
    assert culprit["excess_s"]["estimate"] == pytest.approx(late_s, rel=0.3)  # the machine is busy


TINY = [
    *("data_config.truncate=0.002", "data_config.block_size=16"),
    *("gpt_config.n_layer=1", "gpt_config.n_head=2", "gpt_config.n_embd=32"),
    *("trainer_config.max_epochs=2", "trainer_config.batch_size=16", "trainer_config.data_loader_workers=0"),
]


# multigpu_torchrun: 3 epochs of 2048 samples, batches of 32. minGPT: 2 epochs of 63 batches, and two evaluations.
@pytest.mark.parametrize(
    ("file", "words", "where", "number"),
    [(f"{TUTORIAL}multigpu_torchrun.py", ["3", "1"], "data", 96), (f"{MINGPT}main.py", TINY, "backward", 126)],
)
def test_scripts_of_others_as_they_are(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    programs: Path,
    examples: Path,
    file: str,
    words: list[str],
    where: str,
    number: int,
) -> None:
    monkeypatch.chdir(tmp_path)
    if file.startswith(MINGPT):
        needs = subprocess.run([programs / "python", "-c", "import boto3, hydra"], capture_output=True, text=True)
        if needs.returncode != 0:
            pytest.skip(f"minGPT: {needs.stderr.splitlines()[-1]}")
        words = [*words, f"data_config.path={examples / MINGPT}/data/input.txt"]
    delay = f'bottleneck=[{{at = "{where}", ranks = [1], sleep_ms = {LATE_MS}}}]'
    environment = f'env=["PYTHONPATH={WITHOUT_GPU}"]'
    command = [*torchrun(programs), str(examples / file), *words]
    done = watched(tmp_path / "runs", "--set", delay, "--set", environment, "--", *command)
    assert done.returncode == 0, done.stderr
    repeat = only_repeat(tmp_path / "runs")
    assert repeat["steps"] == number - WARM_UP
    assert (repeat["culprit"]["rank"], repeat["culprit"]["phase"]) == (1, where)

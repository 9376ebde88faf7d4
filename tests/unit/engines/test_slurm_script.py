"""The script of a job: what it asks of Slurm, and what each of its tasks starts. Pure, but for bash's own opinion."""

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from ddptui.config.engine import EngineOptions
from ddptui.config.trial import Trial
from ddptui.config.values import make_trial
from ddptui.engines.slurm.keeper import SlurmError
from ddptui.engines.slurm.script import engine_options, example, render, sbatch_options

FOLDER = Path("/runs/one")


def trial(**fields: Any) -> Trial:
    return make_trial({"name": "a", "launch": "spawn", "world_size": 4, "strategy": "all_reduce", "steps": 8} | fields)


def data_parallel(**fields: Any) -> Trial:
    return make_trial({"name": "a", "launch": "dp"} | fields)


def engine(**fields: Any) -> EngineOptions:
    return EngineOptions(name="slurm", **{"nodes": 2, **fields})


def options(*trials: Trial, folder: Path = FOLDER, **fields: Any) -> list[str]:
    return sbatch_options(trials, engine(**fields), folder, "ddptui-one-1a2b")


def test_a_node_is_a_task() -> None:
    assert options(trial()) == [
        "--cpus-per-task=2",
        "--job-name=ddptui-one-1a2b",
        "--nodes=2",
        "--ntasks=2",
        "--ntasks-per-node=1",
        f"--chdir={FOLDER}",
        f"--output={FOLDER}/job.log",
        "--open-mode=append",
        "--no-requeue",
    ]


def test_the_largest_trial_says_the_nodes() -> None:
    assert "--nodes=2" in options(trial(world_size=2), data_parallel(world_size=3), nodes=8)
    assert "--nodes=3" in options(trial(world_size=2), trial(world_size=3), nodes=8)
    assert "--nodes=1" in options(data_parallel(world_size=3), nodes=8)


@pytest.mark.parametrize(
    ("trials", "cores"),
    [
        ([trial(world_size=3)], 2),  # of uneven nodes the larger
        ([trial(threads=3)], 6),
        ([trial(), data_parallel(world_size=5)], 5),
    ],
)
def test_a_node_has_cores_for_the_trial_that_needs_most(trials: list[Trial], cores: int) -> None:
    assert f"--cpus-per-task={cores}" in options(*trials)


def test_what_the_engine_says_and_what_was_typed_is_asked_for() -> None:
    typed = ("--exclusive", "--mem 4G", "-c4")
    asked = options(trial(), partition="gpu", account="lab", gres="gpu:2", time="10:00", options=typed)
    assert asked[1:9] == ["--partition=gpu", "--account=lab", "--gres=gpu:2", "--time=10:00",
                          "--exclusive", "--mem", "4G", "-c4"]  # fmt: skip


def test_a_task_joins_with_the_ticket_of_its_job(tmp_path: Path) -> None:
    """The script as it is, with an srun that starts one task, and a task that says how it was called."""
    folder = tmp_path / "a b#%j'\"é"
    folder.mkdir()
    for name, does in {
        "srun": 'while [ "$1" != python ]; do shift; done; exec "$@"',
        "python": 'printf "%s\n" "$@"',
    }.items():
        (tmp_path / name).write_text(f"#!/bin/bash\n{does}\n")
        (tmp_path / name).chmod(0o755)
    asked = options(trial(), folder=folder)
    assert f"--output={tmp_path}/a b#%%j'\"é/job.log" in asked
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", "SLURM_CPUS_PER_TASK": "2"}
    bash = shutil.which("bash")
    assert bash
    done = subprocess.run([bash, "-u"], env=environment, text=True, check=True, capture_output=True,
                          input=render(asked, folder / "ticket-1", "python"))  # fmt: skip
    assert done.stdout.splitlines() == ["-P", "-m", "ddptui", "join", "--as", "slurm", str(folder / "ticket-1")]


@pytest.mark.parametrize("name", ["two\nlines", "bell\a", "back\\slash"])
def test_a_folder_that_cannot_be_spelled_is_refused(name: str) -> None:
    with pytest.raises(SlurmError, match="name another one with --runs"):
        options(trial(), folder=Path("/runs") / name)


@pytest.mark.parametrize(
    ("option", "why"),
    [
        ("exclusive", "is not an option of sbatch"),
        ("--", "is not an option of sbatch"),
        ("--comment='x", "a quote is not closed"),
        ("--array=0-9", "ddptui sets --array itself"),
        ("-N 4", "ddptui sets --nodes itself"),
        ("-n4", "ddptui sets --ntasks itself"),
        ("--output x", "ddptui sets --output itself"),
        ("--exclusive --nodes=4", "ddptui sets --nodes itself"),
        ("--exclusive -- x", "is not an option of sbatch"),
    ],
)
def test_options_that_the_lab_has_to_give_itself_are_refused(option: str, why: str) -> None:
    with pytest.raises(SlurmError, match=why):
        engine_options(engine(options=(option,)))


def test_options_that_anybody_may_give_are_taken() -> None:
    fine = ("--exclusive", "-c4", "--constraint=a|b", "--comment='two words'", "-x n1", "-pN", "-Hpa --mem 4G -t 5")
    engine_options(engine(options=(*fine, "--nodelist=n1", "--ntasks-per-core=1", "--wait-all-nodes=1")))


def test_an_example_says_where_things_go() -> None:
    assert "#SBATCH --chdir=/RUNS/RUN\n" in example([trial()], engine())
    assert "python -P -m ddptui join --as slurm /RUNS/RUN/ticket-TOKEN\n" in example([trial()], engine())

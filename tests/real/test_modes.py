"""Every launch mode, for real: each starts, trains, reports, and they all learn the same."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch

from ddptui.analysis.results import Results
from tests.support.runner import QUICK, ddptui, results_of, write_preset

SINGLE = f"""
title = "Every way to start ranks"
baseline = "single"
[defaults]
strategy = "all_reduce"
start = "cold"
dtype = "float64"
save = true
momentum = 0.9
batch_size = 50
{QUICK}
[[trial]]
name = "single"
launch = "single"
"""
FORK = 'start_method = "fork"'
MORE = {"dp": "", "process": FORK, "spawn": FORK, "launch": ""}
PRESET = SINGLE + "".join(f'[[trial]]\nname = "{mode}"\nlaunch = "{mode}"\n{more}\n' for mode, more in MORE.items())
WARM = ("single", "dp", "process", "spawn", "launch")
PRESET += "".join(f'[[trial]]\nname = "warm-{mode}"\nlaunch = "{mode}"\nstart = "warm"\n' for mode in WARM)
MULTIPROCESS = ("process", "spawn", "launch")
OTHERS = {"process": "forkserver", "spawn": "spawn"}  # each rank imports torch anew
# What a platform says of its own ranks must not reach a console's.
OF_A_PLATFORM = {
    "PET_NNODES": "3", "PET_NODE_RANK": "2", "PET_NPROC_PER_NODE": "8", "PET_MAX_RESTARTS": "5", "PET_NO_PYTHON": "1",
    "PET_MASTER_ADDR": "198.51.100.1", "PET_MASTER_PORT": "1", "MASTER_ADDR": "198.51.100.1", "MASTER_PORT": "1",
    "RANK": "5", "WORLD_SIZE": "9", "LOCAL_RANK": "5", "GROUP_RANK": "2", "NNODES": "3", "PYTHON_EXEC": "/bin/false",
    "TORCHELASTIC_USE_AGENT_STORE": "True", "TORCHELASTIC_RUN_ID": "job", "TORCH_ELASTIC_SHUTDOWN_TIMEOUT": "x",
}  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("modes")


@pytest.fixture(scope="module")
def results(folder: Path) -> dict[str, Any]:
    (folder / "tmp").mkdir()
    return results_of(folder / "runs", write_preset(folder, PRESET), TMPDIR=str(folder / "tmp"), **OF_A_PLATFORM)


def checkpoint(folder: Path, results: dict[str, Any], trial: str, rank: int) -> dict[str, torch.Tensor]:
    path = folder / "runs" / results["run"] / f"trial-{trial}" / "repeat-1" / f"model-rank-{rank}.pth"
    state: dict[str, torch.Tensor] = torch.load(path, weights_only=True)
    return state


def test_every_mode_ends_well_with_all_its_ranks_and_leaves_no_temporary_file(
    folder: Path, results: dict[str, Any]
) -> None:
    assert [trial["status"] for trial in results["trials"]] == ["ok"] * 10
    assert [len(trial["repeats"][0]["ranks"]) for trial in results["trials"]] == [1, *[2] * 4, 1, *[2] * 4]
    assert list((folder / "tmp").iterdir()) == []


def test_results_follow_the_schema(results: dict[str, Any]) -> None:
    assert results["schema"] == 1
    decoded = msgspec.convert(results, Results, str_keys=True)  # as JSON has them
    assert json.loads(msgspec.json.encode(decoded)) == results


@pytest.mark.parametrize(("trial", "ranks"), [("dp", 1), *((trial, 2) for trial in MULTIPROCESS)])
def test_two_ranks_learn_what_one_learns(folder: Path, results: dict[str, Any], trial: str, ranks: int) -> None:
    assert_learned_as_one(folder, results, trial, ranks)


@pytest.mark.rare
def test_with_other_start_methods_they_do_too(tmp_path: Path) -> None:
    (tmp_path / "tmp").mkdir()
    preset = SINGLE + "".join(
        f'[[trial]]\nname = "{mode}"\nlaunch = "{mode}"\nstart_method = "{method}"\n' for mode, method in OTHERS.items()
    )
    results = results_of(tmp_path / "runs", write_preset(tmp_path, preset), TMPDIR=str(tmp_path / "tmp"))
    for trial in results["trials"][1:]:
        assert_learned_as_one(tmp_path, results, trial["name"])
        assert trial["repeats"][0]["in_sync"]["parameters"]
        assert trial["repeats"][0]["steps"] == 6
    assert list((tmp_path / "tmp").iterdir()) == []


def assert_learned_as_one(folder: Path, results: dict[str, Any], trial: str, ranks: int = 2) -> None:
    """ranks: those that save what they have learned; the stand-in for DataParallel is one process."""
    alone = checkpoint(folder, results, "single", 0)
    for rank in range(ranks):
        state = checkpoint(folder, results, trial, rank)
        assert state.keys() == alone.keys()
        for name, tensor in state.items():
            assert torch.allclose(tensor, alone[name], rtol=0, atol=1e-12), (trial, rank, name)


@pytest.mark.parametrize("mode", WARM)
def test_forked_ranks_learn_the_same_to_the_bit(folder: Path, results: dict[str, Any], mode: str) -> None:
    for rank in range(1 if mode in ("single", "dp") else 2):
        forked, fresh = (checkpoint(folder, results, trial, rank) for trial in (f"warm-{mode}", mode))
        assert forked.keys() == fresh.keys()
        assert all(torch.equal(forked[name], fresh[name]) for name in fresh)
    [warm], [cold] = (
        [repeat for trial in results["trials"] if trial["name"] == name for repeat in trial["repeats"]]
        for name in (f"warm-{mode}", mode)
    )
    assert (warm["start"], cold["start"]) == ("warm", "cold")
    assert warm["loss"] == cold["loss"]


def test_a_replica_reports_its_part_of_the_batch(results: dict[str, Any]) -> None:
    replicas = results["trials"][1]["repeats"][0]["ranks"]
    assert [replica["sub_batch"] for replica in replicas] == [25, 25]


def test_ranks_of_a_group_end_in_sync_and_one_copy_has_nothing_to_compare(results: dict[str, Any]) -> None:
    in_sync = {trial["name"]: trial["repeats"][0]["in_sync"]["parameters"] for trial in results["trials"]}
    assert {name: in_sync[name] for name in ("single", "dp", "warm-single", "warm-dp")} == dict.fromkeys(
        ("single", "dp", "warm-single", "warm-dp")
    )
    assert all(in_sync[name] for name in (*MULTIPROCESS, "warm-process", "warm-spawn", "warm-launch"))


def test_figures_are_whole(results: dict[str, Any]) -> None:
    for trial in results["trials"]:
        repeat = trial["repeats"][0]
        assert repeat["steps"] == 6
        assert repeat["train_time_s"] > 0
        assert repeat["start"] == "warm" or repeat["train_time_s"] < repeat["startup_s"]
        assert repeat["samples_per_s"] == pytest.approx(6 * 50 / repeat["train_time_s"])
        assert 0 <= repeat["accuracy"] <= 1


def test_a_steps_phases_are_all_of_it(folder: Path, results: dict[str, Any]) -> None:
    for journal in (folder / "runs" / results["run"]).glob("*/repeat-1/messages.jsonl"):
        messages = map(json.loads, journal.read_text(encoding="utf-8").splitlines())
        steps = [message for message in messages if message["type"] == "Step"]
        assert steps
        assert [sum(step["phases_ns"]) for step in steps] == [step["end_ns"] - step["begin_ns"] for step in steps]


def test_show_gives_the_same_results_again_from_the_journals(folder: Path, results: dict[str, Any]) -> None:
    shown = ddptui(folder / "runs", "show", "last", "--format", "json")
    assert msgspec.json.decode(shown.stdout) == results


def test_the_command_that_was_kept_can_be_typed_again(folder: Path, results: dict[str, Any]) -> None:
    kept = (folder / "runs" / results["run"] / "trial-spawn" / "repeat-1" / "command.txt").read_text()
    assert " -m workers.spawn " in kept
    assert kept.startswith("PYTHONPATH=")


def test_checkpoints_of_two_ranks_verify_as_equal(folder: Path, results: dict[str, Any], tmp_path: Path) -> None:
    repeat = folder / "runs" / results["run"] / "trial-spawn" / "repeat-1"
    same = ddptui(tmp_path, "verify", *(str(repeat / f"model-rank-{rank}.pth") for rank in range(2)))
    assert same.returncode == 0, same.stdout

"""Faults that were put in by rank and step, in real launches: who is named, at which collective, with which words."""

import json
import re
from pathlib import Path
from typing import Any, get_args

import pytest
import torch

from ddptui.config.trial import FaultKind
from ddptui.engines.local.warm import WarmParent
from tests.support.here import run_here
from tests.support.runner import QUICK, write_preset

STALL_S = 4
STEP = 3
LATER = {"stop-dp": 3000}  # steps: one that is stopped at once may not have said Hello yet

OUT_OF_STEP = "was killed by SIGABRT: the ranks are out of step: gloo received "

# What is launched; and how the first line of the error begins, and goes on.
FAULTS: dict[str, tuple[str, str, int, str]] = {
    "stop": (
        'strategy = "all_reduce"\nworld_size = 3', "stop", 1,
        f"rank 1 has not arrived at all_reduce 0 of step {STEP}: it is stopped, as by SIGSTOP; "
        f"ranks 0 and 2 wait there; no progress for {STALL_S} s",
    ),
    "hang-ddp": (
        'launch = "launch"\nstrategy = "ddp"', "hang", 0,
        f"rank 0 has not arrived at all_reduce 0 of step {STEP}: it is in step {STEP}, in backward; "
        f"rank 1 waits there; no progress for {STALL_S} s",
    ),
    "skip": (
        'strategy = "flat"\nworld_size = 3', "skip", 2,
        f"rank 2 has been out of step with the others since step {STEP}: there, rank 2 called 0 collectives, "
        "the others 1; now ",
    ),
    "stop-dp": (
        'launch = "dp"\nsteps = 4000', "stop", 0, "ranks 0 and 1 are stopped, as by SIGSTOP; no progress for "
    ),
    "mismatch": ('launch = "launch"\nstrategy = "all_reduce"', "mismatch", 1, f"rank 1 {OUT_OF_STEP}"),
    "exit": ('launch = "launch"\nstrategy = "ddp"', "exit", 1, "rank 1 ended with exit code 7"),
    "raise": (
        'launch = "process"\nstrategy = "ring"', "raise", 1,
        "rank 1 failed: RuntimeError: injected by the trial's `fault`",
    ),
    "uneven-ddp": (
        'launch = "process"\nstrategy = "ddp"\nworld_size = 3', "uneven_inputs", 1,
        f"rank 1 has not arrived at all_reduce 0 of step {STEP + 1}: it has left its training loop after {STEP} steps; "
        f"ranks 0 and 2 wait there; no progress for {STALL_S} s",
    ),
    "uneven-all-gather": (
        'strategy = "all_gather"\nworld_size = 3', "uneven_inputs", 0,
        f"rank 0 has left its training loop, and rank 1 has not: it {OUT_OF_STEP}",
    ),
    "early-stop": (
        'launch = "launch"\nstrategy = "flat"\nworld_size = 3', "early_stop", 2,
        f"ranks are in different collectives: rank 2 is in barrier 0 of step {STEP}, in data; ranks 0 and 1 are in "
        f"all_reduce 0 of step {STEP}, past their backward; no progress for {STALL_S} s",
    ),
    "lone-gather": (
        'strategy = "gather_scatter"', "lone_collective", 1,
        f"ranks are in different collectives: rank 1 is in reduce 0 of step {STEP}, in backward; rank 0 is in "
        f"gather 0 of step {STEP}, past its backward; no progress for {STALL_S} s",
    ),
    "other-shape": ('launch = "process"', "other_shape", 1, f"rank 1 {OUT_OF_STEP}"),
    "kill-single": ('launch = "single"', "kill", 0, "rank 0 was killed by SIGKILL"),
}  # fmt: skip
RECORDS = pytest.mark.skipif(
    not hasattr(torch._C._distributed_c10d, "_dump_fr_trace_json"), reason="this torch records nothing of gloo"
)
STILL = ("stop", "hang-ddp", "skip", "stop-dp", "uneven-ddp", "early-stop", "lone-gather")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("faults")


@pytest.fixture(scope="module")
def trials(warm: WarmParent, folder: Path) -> dict[str, dict[str, Any]]:
    """All of them, one after another; and one at the end in which nothing goes wrong."""
    text = f"[defaults]\nstall_s = {STALL_S}\n{QUICK}"
    for name, (fields, kind, rank, _) in FAULTS.items():
        step = LATER.get(name, STEP)
        fault = f'{{kind = "{kind}", rank = {rank}, step = {step}}}'
        text += f'[[trial]]\nname = "{name}"\nfault = [{fault}]\n{fields}\n'
    text += '[[trial]]\nname = "sound"\nlaunch = "single"\n'
    results = run_here(warm, folder / "runs", write_preset(folder, text))
    assert results["status"] == "failed"
    return {trial["name"]: trial for trial in results["trials"]}


@pytest.mark.parametrize("name", FAULTS)
def test_who_it_was_and_how_is_said_first(trials: dict[str, dict[str, Any]], name: str) -> None:
    _, kind, rank, said = FAULTS[name]
    assert trials[name]["status"] == "failed"
    headline, *rest = trials[name]["error"].splitlines()
    assert headline.startswith(said)
    if name in STILL:
        assert rest[0].endswith(f"--set stall_s={3 * STALL_S}")  # what to do if it had only been slow
    if name != "stop-dp":  # one process with two ranks
        assert trials[name]["failure"].get("rank") == rank
    if said.endswith(" s"):
        assert headline == said
    log = [line for line in rest if line.startswith("fault, step")]
    if name in ("mismatch", "exit", "kill-single", "stop", "other-shape"):  # others say more after it
        assert log == [f"fault, step {STEP}: {kind}"]


@RECORDS
@pytest.mark.parametrize(
    ("name", "left"),
    [("stop", "ranks 0 and 2"), ("hang-ddp", "ranks 0 and 1"), ("skip", "ranks 0–2"), ("kill-single", None)],
)
def test_each_rank_that_lived_when_it_was_stopped_has_left_its_last_collectives(
    trials: dict[str, dict[str, Any]], folder: Path, name: str, left: str | None
) -> None:
    lines = trials[name]["error"].splitlines()
    records = records_of(folder, name)
    assert not list(folder.glob("runs/*/*/*/*.part"))
    if left is None:
        assert not records
        assert not any("record" in line for line in lines)
        return
    where = f"trial-{name}/repeat-1/*.flight.json in the run's folder"
    assert lines[2] == f"the last collectives of {left}, by torch's flight recorder: {where}"
    assert len(records) == (2 if " and " in left else 3)
    assert all(record["entries"][-1]["profiling_name"].startswith("gloo:") for record in records)


def records_of(folder: Path, name: str) -> list[dict[str, Any]]:
    """What torch's flight recorder has left of a trial, by rank."""
    paths = sorted(folder.glob(f"runs/*/trial-{name}/repeat-1/rank-*.flight.json"))
    return [json.loads(path.read_bytes()) for path in paths]


@RECORDS
@pytest.mark.usefixtures("trials")
def test_these_show_which_rank_is_behind_and_the_barrier_of_the_rank_that_stopped_early(folder: Path) -> None:
    called = [int(each["pg_status"]["0"]["last_enqueued_collective"]) for each in records_of(folder, "hang-ddp")]
    assert called[0] < called[1]
    last = [each["entries"][-1]["profiling_name"] for each in records_of(folder, "early-stop")]
    assert last == ["gloo:all_reduce", "gloo:all_reduce", "gloo:barrier"]


def test_the_log_of_a_rank_that_hangs_shows_where(trials: dict[str, dict[str, Any]]) -> None:
    assert "waiter.acquire()" in trials["hang-ddp"]["error"]
    assert "the end of rank-0.log:" in trials["hang-ddp"]["error"].splitlines()


@pytest.mark.parametrize("name", ["mismatch", "other-shape", "uneven-all-gather"])
def test_native_code_that_gives_up_is_quoted(trials: dict[str, dict[str, Any]], name: str) -> None:
    assert re.search(r"size|length", trials[name]["error"])
    assert "gloo" in trials[name]["error"]


def test_one_bad_trial_does_not_spoil_the_others(trials: dict[str, dict[str, Any]]) -> None:
    assert trials["sound"]["status"] == "ok"


@pytest.mark.rare
def test_the_preset_names_the_rank_of_every_fault(warm: WarmParent, tmp_path: Path) -> None:
    results = run_here(warm, tmp_path / "runs", Path("faults"), steps=44, stall_s=STALL_S)
    every = {trial["config"]["fault"][0]["kind"] for trial in results["trials"][1:]}
    assert every == {*get_args(FaultKind)} - {"abort"}  # which looks like kill
    assert results["findings"] == [{"kind": "faults_named", "rank": 1, "numbers": {"found": 12.0, "faults": 12.0}}]

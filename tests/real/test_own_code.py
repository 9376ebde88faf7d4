"""The user's own strategies, right and wrong ones, graded on real ranks; and their own models, data and delays."""

from typing import Any

import pytest

from ddptui.analysis.correctness import problems
from ddptui.engines.local.warm import WarmParent
from ddptui.findings.words import in_sentences
from ddptui.store.overview import results_of
from ddptui.store.runs import Run, all_runs
from tests.support.here import run_here

MINE = """
import torch
import torch.distributed as dist
from torch import nn

def right(tensors):
    for tensor in tensors:
        dist.all_reduce(tensor)
        tensor /= dist.get_world_size()

class Flat:
    def average(self, tensors):
        flat = torch.cat([tensor.flatten() for tensor in tensors])
        dist.all_reduce(flat)
        parts = (flat / dist.get_world_size()).split([tensor.numel() for tensor in tensors])
        for tensor, part in zip(tensors, parts):
            tensor.copy_(part.view_as(tensor))

def no_division(tensors):
    for tensor in tensors:
        dist.all_reduce(tensor)

def left_out(tensors):
    right(tensors[:-1])

def by_share(tensors):
    for tensor in tensors:
        tensor *= (22, 21, 21)[dist.get_rank()] / 64
        dist.all_reduce(tensor)

def other_order(tensors):
    right(tensors[::-1] if dist.get_rank() == 1 else tensors)

def one_less(tensors):
    right(tensors[:-1] if dist.get_rank() == 1 else tensors)

def never_comes(tensors):
    while dist.get_rank() == 1:
        pass
    right(tensors)

def some_stay_away(tensors):
    if dist.get_rank() != 0:
        right(tensors)

def own_order(tensors):
    for tensor in tensors:
        parts = [torch.empty_like(tensor) for _ in range(dist.get_world_size())]
        dist.all_gather(parts, tensor)
        mine = dist.get_rank()
        tensor.copy_(sum(parts[mine:] + parts[:mine]) / len(parts))

def two(tensors, ranks):
    right(tensors)

class NoTrial:
    def __init__(self):
        pass
    def average(self, tensors):
        right(tensors)

class NoModel:
    def prepare(self, model):
        pass
    def average(self, tensors):
        right(tensors)

def too_far(tensors):
    tensors[99].zero_()

class Empty:
    pass

def linear(num_classes):
    return nn.Sequential(nn.Flatten(), nn.Linear(12, num_classes))

def load():
    torch.manual_seed(0)
    inputs, labels = torch.randn(60, 3, 4), torch.arange(60) % 5
    return (inputs[:50], labels[:50]), (inputs[50:], labels[50:])

def late(site, rank, step):
    return 20 if site == "backward" and step % 2 else None
"""
TRIALS = {
    **dict.fromkeys(("right", "Flat", "no_division", "left_out", "by_share"), ""),
    **dict.fromkeys(("other_order", "one_less", "own_order", "some_stay_away"), ""),
    **dict.fromkeys(("too_far", "Empty", "two", "NoTrial", "NoModel"), "world_size = 1"),
    "right_again": 'strategy = "mine.py:right"',
    "first_window": 'strategy = "mine.py:some_stay_away"\nevery = 2',
    "never_comes": "stall_s = 4",
    "own_data": 'strategy = "all_reduce"\nmodel = "mine.py:linear"\ndataset = "mine.py:load"\nbatch_size = 12',
    "own_delay": 'strategy = "all_reduce"\nbottleneck = [{ at = "mine.py:late", ranks = [1] }]',
}


@pytest.fixture(scope="module")
def run(warm: WarmParent, tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("own")
    (folder / "mine.py").write_text(MINE)
    trials = [
        f'[[trial]]\nname = "{name}"\n{fields}\n' + f'strategy = "mine.py:{name}"\n' * ("strategy" not in fields)
        for name, fields in TRIALS.items()
    ]
    preset = folder / "own.toml"
    preset.write_text("[defaults]\nworld_size = 3\nsteps = 12\nthreads = 1\nhash_every = 4\n" + "".join(trials))
    run_here(warm, folder / "runs", preset)
    return all_runs(folder / "runs")[0]


@pytest.fixture(scope="module")
def trials(run: Run) -> dict[str, Any]:
    return {trial.name: trial for trial in results_of(run, run.preset()).trials}


@pytest.mark.parametrize("name", ["right", "Flat", "own_data", "own_delay"])
def test_what_is_right_passes_every_check(trials: dict[str, Any], name: str) -> None:
    [repeat] = trials[name].repeats
    assert repeat.in_sync.parameters is True
    assert repeat.averaging.right is True


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("no_division", "gradients are 3 times the mean: they are the sum, the division is missing, or not in place"),
        ("left_out", "1 of 8 tensors is not the mean: fc2.bias, which each rank kept as its own; the others are right"),
        (
            "by_share",
            "gradients are a weighted sum over the ranks (rank 0 × 0.3438, rank 1 × 0.3281 and rank 2 × 0.3281), but "
            "each rank must count × 0.3333: divide by the number of ranks, as the loss already allows for uneven "
            "batches",
        ),
    ],
)
def test_a_wrong_average_is_named_for_what_it_is(trials: dict[str, Any], name: str, why: str) -> None:
    assert trials[name].repeats[0].averaging.why == why


def test_ranks_that_keep_a_tensor_of_their_own_are_out_of_sync(trials: dict[str, Any]) -> None:
    assert trials["left_out"].repeats[0].in_sync.differing == ["fc2.bias"]


def test_ranks_that_add_in_different_orders_are_told_so(run: Run, trials: dict[str, Any]) -> None:
    [repeat] = trials["own_order"].repeats
    assert repeat.averaging.right is True
    trial = next(trial for trial in run.preset().trials if trial.name == "own_order")
    assert "each average is right but for rounding" in next(problems(trial, repeat))


def line(text: str) -> int:
    return MINE.splitlines().index(f"    {text}") + 1


@pytest.mark.parametrize(
    ("name", "rank", "why"),
    [
        (
            "other_order",
            1,
            "rank 1 failed in all_reduce, mine.py:8: CallsDiffer: as collective 1 of the first step, "
            "rank 1 calls all_reduce (40 bytes), and rank 0 all_reduce (1,000 bytes) at mine.py:8; all "
            "ranks must call the same collectives in the same order",
        ),
        ("one_less", 1, "as collective 8 of the first step, rank 1 calls none, and rank 0 all_reduce (40 bytes)"),
        ("some_stay_away", 0, "as collective 1 of the first step, rank 0 calls none, and rank 1 all_reduce (1,000 b"),
        ("first_window", 0, "as collective 1 of the first 2 steps, rank 0 calls none, and rank 1 all_reduce (1,000 b"),
        ("two", None, "'mine.py:two': it is called as two(tensors): missing a required argument: 'ranks'"),
        ("NoTrial", None, "'mine.py:NoTrial': it is called as NoTrial(trial): too many positional arguments"),
        ("NoModel", None, "'mine.py:NoModel': prepare(model) must return the model, but returned NoneType"),
        (
            "too_far",
            None,
            f"failed in too_far, mine.py:{line('tensors[99].zero_()')}: IndexError: list index out of range",
        ),
        ("never_comes", 1, "rank 1 has not arrived at all_reduce 0 of step 0: it is in never_comes, mine.py:"),
        (
            "never_comes",
            1,
            f"mine.py:{line('while dist.get_rank() == 1:')}, in step 0; ranks 0 and 2 wait there, mine.py:8",
        ),
        ("Empty", None, "strategy 'mine.py:Empty': the class has no method average(self, tensors)"),
    ],
)
def test_what_fails_or_hangs_is_said_with_its_line(
    trials: dict[str, Any], name: str, rank: int | None, why: str
) -> None:
    failure = trials[name].failure
    assert why in failure.summary
    assert rank in (None, failure.rank)


def test_a_delay_of_ones_own_is_measured_where_it_happened(trials: dict[str, Any]) -> None:
    [repeat] = trials["own_delay"].repeats
    assert [rank.bottleneck_fired for rank in repeat.ranks] == [0, 5, 0]  # the odd ones of steps 3 to 11
    assert [(delay.rank, delay.at) for delay in repeat.injected] == [(1, "backward")]


def test_the_answer_grades_each_strategy(run: Run) -> None:
    said = " ".join(in_sentences(results_of(run, run.preset()).findings))
    assert said.count("mine.py:right is right: all ranks end with the same bits") == 1  # of two trials with one code
    assert "mine.py:no_division is wrong: gradients are 3 times the mean" in said
    assert "mine.py:other_order is wrong: rank 1 failed in all_reduce, mine.py:8" in said
    assert "to average 85.3 KB over 3 ranks, each must send at least 114 KB" in said


def test_the_run_keeps_the_code_as_it_was(run: Run) -> None:
    (run.folder.parents[1] / "mine.py").write_text("changed since")
    assert run.code() == {"mine.py": MINE}
    assert run.note_resumption(run.environment()) == {"mine.py": "(edited)"}
    assert run.environment()["resumed"][0]["changed"] == {"mine.py": "(edited)"}
    assert run.code() == {"mine.py": MINE, "mine-resumed-1.py": "changed since"}

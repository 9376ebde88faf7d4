"""The checks of a watched training: each mistake turns its light red, and nothing that is right turns one red.

The trainings are scripts that know nothing of ddptui (tests/support/trainings/checks).
"""

import sys
from pathlib import Path

import pytest
from msgspec import convert

from ddptui.analysis.finding import OF_CHECKS, Finding
from ddptui.findings.words import short
from tests.support.watching import TRAININGS, only_trial, torchrun, watched

RARE = pytest.mark.rare
PROGRAMS = TRAININGS / "checks"
OFTEN = ("no-division",)  # test_watch.py: where nothing is wrong, none is red

WRONG = {  # the lights that a mistake turns red, and what is said
    "group-of-one": (("in sync", "average"), "The 2 ranks do not average gradients: none of 77 steps called"),
    "tutorial": (("average",), "Gradients are 0.5 times their mean over the ranks: the sum is divided twice"),
    "divide-twice": (("average",), "Gradients are 0.5 times their mean over the ranks: the sum is divided twice"),
    "no-division": (("average",), "Gradients are 2 times their mean over the ranks: they are the sum, not divided"),
    "no-broadcast": (("in sync",), "The ranks began with different parameters"),
    "no-set-epoch": (("order",), "Samples come in the same order in every epoch: set_epoch is not called"),
    "some-tensors": (("in sync", "average"), "Some gradients are not averaged: 2.weight, 2.bias"),
    "same-samples": (("samples",), "Ranks 0 and 1 train on the same batches"),
    "learning-rate": (("settings", "in sync"), "Settings differ between ranks: learning rate 0.05 on rank 0, 0.1 on"),
    "eval-mode": (("settings",), "Settings differ between ranks: modules in training mode 5 of 5 on rank 0, 0 of 5 on"),
    "nan": (("loss",), "The loss became NaN or infinite on rank 1 first, in step 40; on the others from step 41 on"),
    "never-finite": (("loss",), "The loss was NaN or infinite in every step, from the first one on"),
    "no-sync-inverted": (
        ("in sync", "average", "accumulation"),
        "The last 3 of 4 backward passes of each step are not averaged (`no_sync`); the ranks' parameters differ",
    ),
    "bypass": (("in sync", "average"), "none of 77 steps called a collective or the DDP's forward. Each rank trains"),
    "unwrapped": (("in sync", "average"), "none of 77 steps called a collective that could average them"),
    "no-group": (("in sync", "average", "samples"), "no process has joined a process group"),
    "own-parameters-late": (("in sync",), "although their gradients are averaged: 0.weight"),
}
DOUBTFUL = {  # what is said in amber
    "same-seed-random-input": ("samples", "Ranks 0 and 1 train on the same batches"),
    "no-sync-needed": (
        "accumulation",
        "Gradients are averaged in each of 4 micro-batches: `no_sync` would save 3 of 4",
    ),
    "buffers": ("buffers", ""),
}
OF_LAB = ("right", "ddp", "average-again", "evaluates")  # of mistakes.py
RIGHT = (
    *("fsdp2", "fsdp1", "zero", "averaged-parameters", "local-sgd"),
    *("pipeline-alike", "tensor", "hooks", "weight-scaled", "gan"),
    *("lora", "tied", "lbfgs", "unused", "powersgd", "accumulate"),
    *("clip", "scaler", "schedule", "skip-nan", "join", "early", "synthetic", "sequential"),
    *("subset", "iterable", "augmented"),
)
OF_FOUR = ("hierarchical", "hsdp")
APART = ("fsdp2", "fsdp1", "hsdp", "local-sgd", "pipeline-alike", "tensor")  # whose ranks are meant to differ


def rare_but_often(names: "list[str] | tuple[str, ...]") -> list[object]:
    return [pytest.param(name, marks=() if name in OFTEN else RARE) for name in names]


def lights_of(runs: Path, program: str, name: str, ranks: int = 2) -> tuple[dict[str, str], list[str]]:
    """The state of each light, and what the findings say."""
    command = [*torchrun(sys.executable, ranks), str(PROGRAMS / f"{program}.py"), name]
    done = watched(runs, "--", *command, OMP_NUM_THREADS="1")
    assert done.returncode == 0, done.stderr
    trial = only_trial(runs)
    [repeat] = trial["repeats"]
    found = [convert(finding, Finding) for finding in trial["findings"]]
    told = " ".join(done.stderr.split())
    assert all(short(each) in told for each in found if each.kind in OF_CHECKS and each.severity == "critical")
    return {light["name"]: light["state"] for light in repeat["checks"]}, [short(each) for each in found]


@pytest.mark.parametrize("name", rare_but_often([*WRONG]))
def test_a_mistake_turns_its_light_red_and_no_other(tmp_path: Path, name: str) -> None:
    lights, found = lights_of(tmp_path, "mistakes", name)
    red, says = WRONG[name]
    assert {light for light, state in lights.items() if state == "wrong"} == {*red}
    assert any(says in each for each in found), found


@pytest.mark.parametrize("name", rare_but_often([*DOUBTFUL]))
def test_what_may_be_meant_is_amber(tmp_path: Path, name: str) -> None:
    lights, found = lights_of(tmp_path, "mistakes", name)
    light, says = DOUBTFUL[name]
    assert (lights[light], "wrong" in lights.values()) == ("doubtful", False)
    assert any(says in each for each in found)


@pytest.mark.parametrize("name", rare_but_often((*OF_LAB, *RIGHT, *OF_FOUR)))
def test_no_light_is_red_where_nothing_is_wrong(tmp_path: Path, name: str) -> None:
    program = "mistakes" if name in OF_LAB else "right"
    lights, _ = lights_of(tmp_path, program, name, ranks=4 if name in OF_FOUR else 2)
    assert "wrong" not in lights.values(), lights
    assert lights["in sync"] == ("does not apply" if name in APART else "right")

"""A command as a preset of one trial: what it is called, and what is asked of it."""

import pytest

from ddptui.config.command_presets import name_of, preset_of
from ddptui.config.parser import parse
from ddptui.config.trial import TrialError


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("torchrun --nproc_per_node=2 train.py --epochs 3", "train"),
        ("python -m my.module --lr 1", "my.module"),
        ("python -m torch.distributed.run ./deep/_main.py", "main"),
        ("accelerate launch", "accelerate"),
        ("/usr/bin/env", "env"),
        ("../…", "command"),
        ("a" * 100, "a" * 64),
    ],
)
def test_a_run_is_called_like_its_script(command: str, name: str) -> None:
    assert name_of(tuple(command.split())) == name


def test_a_command_is_a_preset_of_one_trial() -> None:
    preset = preset_of(("torchrun", "train.py", "a b"), name=None, skip=5, steps=20, overrides={})
    [trial] = preset.trials
    assert (preset.kind, preset.name, preset.title) == ("command", "train", "torchrun train.py 'a b'")
    assert (trial.command, trial.warmup_steps, trial.steps) == (("torchrun", "train.py", "a b"), 5, 25)
    assert (trial.ranks, trial.strategy, trial.stall_s) == (0, None, 20)
    assert preset_of(("train.py",), name=None, skip=3, steps=None, stall_s=2, overrides={}).base.stall_s == 2


def test_a_matrix_over_variables_names_its_trials_by_them() -> None:
    table = {"kind": "command", "defaults": {"command": ["a"]}, "matrix": {"env": [["B=1"], ["B=2", "C=3"]]}}
    assert [trial.name for trial in parse("p", table, {}).trials] == ["B-1", "B-2+C-3"]


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({}, "command: names no program"),
        ({"command": [""]}, "command: names no program"),
        ({"command": ["a\0"]}, "command: contains a NUL"),
        ({"command": ["a"], "env": ["B"]}, "env: expected NAME=VALUE, got 'B'"),
        ({"command": ["a"], "env": ["=B"]}, "env: expected NAME=VALUE, got '=B'"),
        ({"command": ["a"], "strategy": "ddp"}, "strategy: has no effect with a command"),
        ({"command": ["a"], "launch": "spawn"}, "command: has no effect with ddptui's own ranks"),
    ],
)
def test_what_a_command_cannot_be_is_said(fields: dict[str, object], why: str) -> None:
    with pytest.raises(TrialError, match=why):
        parse("p", {"kind": "command", "trial": [fields]}, {})

"""Presets of commands: what `ddptui init` writes, and a watched command as a preset of one trial."""

import re
import shlex
import tomllib

import pytest

from ddptui.config.command_presets import Launchers, UserCommand, file_name, launched, name_of, preset_of, preset_text
from ddptui.config.parser import parse
from ddptui.config.preset import Preset
from ddptui.config.trial import TrialError

GROUP = "import torch.distributed as dist\n"
TORCHRUN = "torchrun --standalone --nproc_per_node=2 train.py --epochs 3"
PYTHON = "python train.py --epochs 3"


def launch(text: str, gpus: int | None = 0) -> UserCommand:
    return launched("train.py", ("--epochs", "3"), text, Launchers(("torchrun",), "python", gpus))


def read(text: str) -> Preset:
    return parse("train", tomllib.loads(text), {})


@pytest.mark.parametrize(
    ("text", "command", "why"),
    [
        (GROUP, TORCHRUN, "2 ranks on the CPU: there is no GPU here."),
        ("from accelerate import Accelerator", TORCHRUN, "2 ranks on the CPU: there is no GPU here."),
        ("import torch", TORCHRUN, f'one process, use: command = ["{PYTHON.replace(" ", chr(34) + ", " + chr(34))}"]'),
        (GROUP + "mp.spawn(train, nprocs=2)", PYTHON, '"--nproc_per_node=2", "train.py", "--epochs", "3"]'),
        ("processes = [multiprocessing.Process (target=train)]", PYTHON, "If it does not, use:"),
        ("    from pytorch_lightning import Trainer", PYTHON, "imports Lightning"),
        (GROUP + "import torch.multiprocessing as mp", TORCHRUN, "2 ranks"),  # in pytorch/examples, and never used
        (GROUP + "# once: mp.spawn(train)", TORCHRUN, "2 ranks"),
        (GROUP + "import lightning_utilities", TORCHRUN, "2 ranks"),
    ],
)
def test_a_script_is_launched_as_its_text_suggests(text: str, command: str, why: str) -> None:
    found = launch(text)
    assert shlex.join(found.command) == command
    assert " ".join(found.why).endswith(why) or why in " ".join(found.why)


@pytest.mark.parametrize(
    ("gpus", "ranks", "why"),
    [
        (None, 2, "the number of your GPUs."),
        (0, 2, "no GPU here."),
        (1, 2, "one GPU here."),
        (8, 8, "8 ranks, one for each GPU"),
    ],
)
def test_there_are_two_ranks_or_one_for_each_gpu(gpus: int | None, ranks: int, why: str) -> None:
    found = launch(GROUP, gpus)
    assert f"--nproc_per_node={ranks}" in found.command
    assert why in found.why[0]


def test_the_preset_has_one_trial_and_its_examples_are_trials_once_they_are_uncommented() -> None:
    preset = read(preset_text("train.toml", launch(GROUP)))
    assert (preset.kind, preset.title, preset.repeats) == ("command", "Who waits for whom in train?", 3)
    assert [(trial.name, shlex.join(trial.command)) for trial in preset.trials] == [("as-it-is", TORCHRUN)]
    text, examples = re.subn(r"^#(?=\S)", "", preset_text("train.toml", launch("mp.spawn(x)")), flags=re.MULTILINE)
    preset = read(text)
    trials = {trial.name: trial for trial in preset.trials}
    assert examples == 10
    assert preset.baseline == "as-it-is"
    assert [*trials] == ["BUCKET_MB-25", "BUCKET_MB-100", "BUCKET_MB-100+NUM_WORKERS-4", "as-it-is", "4-workers",
                         "late-backward"]  # fmt: skip
    assert trials["BUCKET_MB-25"].env == ("BUCKET_MB=25",)
    assert trials["4-workers"].command == (*trials["as-it-is"].command, "--num-workers", "4")
    assert [(each.at, each.ranks) for each in trials["late-backward"].bottleneck] == [("backward", (1,))]
    assert {trial.steps for trial in preset.trials} == {200}


@pytest.mark.parametrize("word", ['a"b', "a\\b", "a\nb", "\x7f", "{}", '"""', ""])
def test_words_of_a_command_are_read_back_as_they_were(word: str) -> None:
    found = UserCommand(("sh", word), (f"{word} is a script",))
    assert read(preset_text("sh.toml", found)).trials[0].command == ("sh", word)


def test_a_command_that_no_file_can_hold_is_refused() -> None:
    with pytest.raises(TrialError, match=r"command: contains bytes that are not valid UTF-8"):
        preset_text("a.toml", UserCommand(("\udcff.py",)))


def test_a_preset_is_called_as_asked_unless_the_name_is_no_files() -> None:
    assert [file_name(name) for name in ("a", "a.toml", "v1.5")] == ["a.toml", "a.toml", "v1.5.toml"]
    for name in ("", "a/b", ".a", "a" * 65):
        with pytest.raises(TrialError, match="use letters, digits"):
            file_name(name)


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("torchrun --nproc_per_node=2 train.py --epochs 3", "train"),
        ("python -m my.module --lr 1", "my.module"),
        ("python -m torch.distributed.run ./deep/_main.py", "main"),
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

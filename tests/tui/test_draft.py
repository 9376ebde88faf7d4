"""Changes to a preset that nobody has run yet: they mean what --set means, and are refused as it is."""

import shlex
from pathlib import Path

import msgspec
import pytest

from ddptui.config.parser import PresetError, read_changes
from ddptui.config.preset import Preset
from ddptui.config.trial import Bottleneck
from ddptui.config.values import parse_assignment
from ddptui.engines.checks import prepare
from ddptui.store import user_presets
from ddptui.store.presets import load, preset_paths
from ddptui.tui import draft as drafts
from ddptui.tui.draft import Draft
from tests.support.builders import write_preset

MIXED = """
title = "Mixed"
repeats = 2
[defaults]
launch = "spawn"
[[trial]]
name = "a"
world_size = 2
[[trial]]
name = "b"
world_size = 3
[[trial.bottleneck]]
at = "backward"
ranks = [2]
sleep_ms = 5
"""
MATRIX = 'defaults = {launch = "spawn"}\nmatrix = {strategy = ["flat", "ring"], world_size = [1, 2]}\n'


@pytest.fixture
def mixed(tmp_path: Path) -> str:
    return str(write_preset(tmp_path, MIXED))


def test_the_command_line_says_the_same(mixed: str) -> None:
    draft = Draft(mixed, {"model": "mlp", "bottleneck": "forward 2.5 ms on 0, 1", "repeats": "3"})
    words = shlex.split(drafts.command_line(draft))
    assert words[:3] == ["ddptui", "run", mixed]
    assert words[-3:] == ["--repeats", "3", "--no-ui"]
    overrides = dict(parse_assignment(word) for place, word in enumerate(words) if words[place - 1] == "--set")
    assert load(mixed, overrides).trials == drafts.preset(draft).trials


def test_slow_links_are_put_in_with_what_they_let_through(mixed: str) -> None:
    put_in = drafts.preset(Draft(mixed, {"launch": "spawn", "bottleneck": "link 2.5 Mbit/s on 0, 1"}))
    assert {trial.bottleneck for trial in put_in.trials} == {(Bottleneck(at="link", ranks=(0, 1), mbit=2.5),)}
    refused = Draft(mixed, {"launch": "spawn", "bottleneck": "link 2.5.1 Mbit/s on 1"})
    with pytest.raises(PresetError, match=r"^bottleneck.mbit: \"2.5.1\" is not a number"):
        drafts.preset(refused)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"world_size": "two"}, 'world_size: expected an integer, got "two"'),
        ({"model": "mlp", "strategy": "ringg"}, "did you mean 'ring'?"),
        ({"repeats": "0"}, "repeats: expected 1 to 1000, got 0"),
        ({"repeats": "9" * 5000}, "repeats: expected 1 to 1000"),
        ({"bottleneck": "aggregate 10 ms on one"}, 'bottleneck: "aggregate 10 ms on one" is not understood'),
        ({"bottleneck": "aggregate 9..9 ms on 1"}, 'bottleneck.sleep_ms: "9..9" is not a number'),
        ({"bottleneck": "aggregate 1 ms on 9"}, "bottleneck[0].ranks: no rank 9"),
        ({"bottleneck": f"aggregate 1 ms on {'9' * 5000}"}, "bottleneck[0].ranks: no rank 999999999"),
        ({"bottleneck": '[{at = "aggregate", ranks = [1], sleep_ms = nan}]'}, "expected a number of 0 or more"),
        ({"bottleneck": "link 10 ms on 1"}, "bottleneck[0]"),
        ({"a:lr": "fast"}, 'a:lr: "fast" is not a number'),
        ({"c:lr": "1"}, "c:lr: no trial 'c'"),
        ({"a:name": "x"}, "a:name: "),
    ],
)
def test_a_change_that_cannot_be_is_refused_in_one_line(mixed: str, changes: dict[str, str], words: str) -> None:
    draft = Draft(mixed, changes)
    judged = drafts.validate(draft)
    assert judged.preset is None
    assert words in judged.reason
    assert mixed not in judged.reason
    assert "\n" not in judged.reason
    assert drafts.at_fault(draft, judged.reason) == [*changes][-1].rpartition(":")[2]


def test_what_is_wrong_in_the_file_is_said_in_the_files_words(tmp_path: Path) -> None:
    path = str(write_preset(tmp_path, 'trial = [{name = "a", world_size = "two"}]'))
    assert drafts.validate(Draft(path, {"epochs": "2"})).reason == (
        'trial[0].world_size: expected an integer, got "two"; "cores" means one rank for each core of this host'
    )


def test_a_matrix_is_narrowed_down_and_its_trials_may_meet(tmp_path: Path) -> None:
    path = str(write_preset(tmp_path, MATRIX))
    assert [trial.name for trial in drafts.preset(Draft(path, {"strategy": "ddp"})).trials] == ["ddp-1", "ddp-2"]
    judged = drafts.validate(Draft(path, {"launch": "single"}))
    assert "matrix" in judged.reason
    assert "launch = 'single'" in judged.reason
    assert drafts.at_fault(Draft(path, {"epochs": "2", "launch": "single"}), judged.reason) == "launch"


def test_what_only_this_machine_refuses_still_makes_a_preset(mixed: str) -> None:
    judged = drafts.validate(Draft(mixed, {"model": "resnet17"}))
    assert judged.preset is not None
    assert judged.prepared is None
    assert "no model 'resnet17'; did you mean 'resnet1" in judged.reason


@pytest.mark.parametrize(
    ("field", "shown"),
    [("world_size", "varies"), ("launch", "spawn"), ("repeats", "2"), ("bottleneck", "varies"), ("epochs", "3")],
)
def test_a_field_says_what_the_trials_have(mixed: str, field: str, shown: str) -> None:
    assert drafts.as_it_is(load(mixed), field) == shown


def test_copies_and_removals_are_on_the_command_line_and_in_the_preset(mixed: str) -> None:
    draft = drafts.duplicated(Draft(mixed, {"lr": "0.5", "b:epochs": "7"}), "b", "c")
    draft = drafts.without(draft, "a")
    made = drafts.preset(draft)
    assert [(trial.name, trial.epochs, trial.lr) for trial in made.trials] == [("b", 7, 0.5), ("c", 7, 0.5)]
    assert made.baseline == "b"
    words = shlex.split(drafts.command_line(draft))
    given = {
        option: [word for place, word in enumerate(words) if words[place - 1] == option]
        for option in ("--set", "--duplicate", "--remove")
    }
    overrides, edits = read_changes(*given.values())
    assert load(mixed, overrides, edits=edits) == made
    assert drafts.preset(drafts.without(draft, "c")).trials == made.trials[:1]
    kept = drafts.without(drafts.duplicated(draft, "c", "d"), "c")  # what others are copies of is removed at the end
    assert [trial.name for trial in drafts.preset(kept).trials] == ["b", "d"]


def test_a_copy_takes_no_name_that_a_trial_or_another_copy_has(mixed: str) -> None:
    made = drafts.preset(drafts.duplicated(Draft(mixed), "a", "c"))
    taken = ["another name" in drafts.copy_problem(made, name) for name in ("a", "B", "c", "d")]
    assert taken == [True, True, True, False]
    assert "cannot be the name" in drafts.copy_problem(made, "no name")


def test_only_trials_that_have_become_equal_are_named(tmp_path: Path) -> None:
    path = str(write_preset(tmp_path, MATRIX + '[[trial]]\nname = "again"\nstrategy = "ring"\nworld_size = 2\n'))
    before = load(path)
    assert drafts.became_equal(before, before) == ""  # again and ring-2, on purpose
    made = drafts.preset(Draft(path, {"flat-2:strategy": "ring"}))
    assert drafts.became_equal(made, before) == "flat-2, ring-2 and again are the same"
    assert drafts.became_equal(drafts.preset(Draft(path, {"epochs": "3"})), before) == ""
    copied = drafts.preset(drafts.duplicated(Draft(path), "flat-1", "copy"))
    assert drafts.became_equal(copied, before) == "flat-1 and copy are the same"


def test_a_line_of_words_is_changes_and_one_that_cannot_be_read_says_why() -> None:
    assert drafts.read_line("") == {}
    typed = "lr=1  'bottleneck=backward 20 ms on 1' env=A=1"
    assert drafts.read_line(typed) == {"lr": "1", "bottleneck": "backward 20 ms on 1", "env": "A=1"}
    for typed in ("lr=", "lr", "'lr=1", "=1", "lr=1 x"):
        with pytest.raises(PresetError, match=r"KEY=VALUE|quotation|has no value"):
            drafts.read_line(typed)


# One of each kind of answer: a number, a list of choices, a boolean, words, a text, nothing where something was.
CHANGES = {
    "repeats": "4",
    "world_size": "4",
    "launch": "process",
    "strategy": "ring",
    "model": "mlp",
    "steps": "40",
    "lr": "1e-05",
    "channels_last": "true",
    "data_dir": 'a "folder" of data',
    "seed": str(2**62),
    "reduce_ops": "sum, max",
    "min_bytes": "2048",
    "bottleneck": '[{at = "data", ranks = [0, 1], sleep_ms = 2.5, every = 2, jitter = "uniform"}]',
    "fault": "raise on 0, step 3",
}


def saved(preset: Preset) -> Preset:
    """Return the preset as it is loaded after it was saved, under the name that it had."""
    user_presets.save(preset, "kept")
    return msgspec.structs.replace(load(str(user_presets.path_of("kept"))), name=preset.name)


def test_what_is_shipped_is_loaded_as_it_was_saved() -> None:
    for name in preset_paths():
        assert saved(load(name)) == load(name), name


@pytest.mark.parametrize("name", ["quickstart", "compression", "slow-link", "primitives-measure", "primitives-see"])
def test_what_was_chosen_is_what_is_loaded(name: str) -> None:
    possible = 0
    for key, text in {**CHANGES, "no bottleneck": "none"}.items():
        made = drafts.validate(Draft(name, {key if key in CHANGES else "bottleneck": text})).preset
        if made is not None:
            possible += made != load(name)
            assert saved(made) == made, key
    assert possible >= 3, "hardly any change was possible"


def test_a_preset_with_all_that_a_file_can_have_comes_back(tmp_path: Path) -> None:
    file = tmp_path / "all.toml"
    file.write_text(
        'title = "All"\ngroup = "Mine"\nabout = """\nTwo\n\nlines\\\\n"""\nbaseline = "ring-2"\nrepeats = 2\n'
        'columns = ["train", "step"]\n[engine]\nname = "slurm"\nnodes = 2\n'
        '[matrix]\nstrategy = ["flat", "ring"]\nworld_size = [2, 4]\n'
        '[[reference]]\ntrial = "flat-2"\ntrain_time_s = 1.5\nsource = "a paper"\n'
        '[[defaults.bottleneck]]\nat = "backward"\nranks = [1]\nsleep_ms = 20\n'
        '[[defaults.bottleneck]]\nat = "data"\nranks = [0]\nsleep_ms = 5\njitter = "exponential"\n',
        encoding="utf-8",
    )
    made = drafts.preset(Draft(str(file), {"lr": "0.5"}))
    assert (len(made.trials), len(made.references), made.columns, made.engine.nodes) == (4, 1, ("train", "step"), 2)
    assert saved(made) == made
    assert {len(trial.bottleneck) for trial in made.trials} == {2}


PUBLISHED = (
    '[[trial]]\nname = "a"\nlr = 0.5\n[[trial]]\nname = "b"\n'
    '[[reference]]\ntrial = "a"\ntrain_time_s = 1\n[[reference]]\ntrial = "b"\ntrain_time_s = 2\n'
)


def test_published_figures_stay_with_their_trials() -> None:
    file = user_presets.path_of("kept")
    write_preset(file.parent, PUBLISHED, file.name)
    before = load("kept")
    assert drafts.without_old_figures(drafts.preset(Draft("kept", {"repeats": "5"})), before).references
    changed = drafts.preset(Draft("kept", {"lr": "0.5"}))
    assert [each.trial for each in drafts.without_old_figures(changed, before).references] == ["a"]
    # a run of that draft, in which nothing more was changed
    assert [each.trial for each in drafts.without_old_figures(prepare(changed), prepare(changed)).references] == ["a"]
    file.unlink()
    assert [each.trial for each in drafts.without_old_figures(changed, before).references] == ["a"]

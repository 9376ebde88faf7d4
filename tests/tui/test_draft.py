"""Changes to a preset that nobody has run yet: they mean what --set means, and are refused as it is."""

import shlex
from pathlib import Path

import pytest

from ddptui.config.parser import PresetError, read_changes
from ddptui.config.trial import Bottleneck
from ddptui.config.trial_text import parse_assignment
from ddptui.store.presets import load
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


def test_without_changes_it_is_the_preset(mixed: str) -> None:
    assert drafts.preset(Draft(mixed)) == load(mixed)


def test_a_change_speaks_to_all_trials(mixed: str) -> None:
    made = drafts.preset(Draft(mixed, {"world_size": "4", "model": "mlp", "repeats": "5"}))
    assert {(trial.world_size, trial.model) for trial in made.trials} == {(4, "mlp")}
    assert made.repeats == 5


def test_the_command_line_says_the_same(mixed: str) -> None:
    draft = Draft(mixed, {"model": "mlp", "bottleneck": "forward 2.5 ms on 0, 1", "repeats": "3"})
    words = shlex.split(drafts.command_line(draft))
    assert words[:3] == ["ddptui", "run", mixed]
    assert words[-3:] == ["--repeats", "3", "--no-ui"]
    overrides = dict(parse_assignment(word) for place, word in enumerate(words) if words[place - 1] == "--set")
    assert load(mixed, overrides).trials == drafts.preset(draft).trials


def test_only_what_was_changed_is_on_the_command_line() -> None:
    assert drafts.command_line(Draft("quickstart")) == "ddptui run quickstart --no-ui"


def test_a_bottleneck_is_put_in_everywhere_and_taken_out_everywhere(mixed: str) -> None:
    put_in = drafts.preset(Draft(mixed, {"bottleneck": "aggregate 10 ms on 1"}))
    assert {trial.bottleneck for trial in put_in.trials} == {(Bottleneck(at="aggregate", ranks=(1,), sleep_ms=10),)}
    taken_out = drafts.preset(Draft(mixed, {"bottleneck": "none"}))
    assert {trial.bottleneck for trial in taken_out.trials} == {()}


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
        ({"world_size": "0"}, "world_size: expected an integer of 1 or more, got 0"),
        ({"world_size": "2000"}, "world_size: expected an integer of 1024 at most, got 2000"),
        ({"world_size": "2.5"}, "world_size: expected an integer, got 2.5"),
        ({"model": "mlp", "dataset": "x"}, "dataset: unknown value 'x'"),
        ({"model": "mlp", "strategy": "ringg"}, "did you mean 'ring'?"),
        ({"repeats": "0"}, "repeats: expected 1 to 1000, got 0"),
        ({"repeats": "9" * 5000}, "repeats: expected 1 to 1000"),
        ({"repeats": "²"}, "repeats: expected 1 to 1000"),
        ({"bottleneck": "aggregate 10 ms on one"}, 'bottleneck: "aggregate 10 ms on one" is not understood'),
        ({"bottleneck": "aggregate 9..9 ms on 1"}, 'bottleneck.sleep_ms: "9..9" is not a number'),
        ({"bottleneck": "aggregate 1 ms on 9"}, "bottleneck[0].ranks: no rank 9"),
        ({"bottleneck": f"aggregate 1 ms on {'9' * 5000}"}, "bottleneck[0].ranks: no rank 999999999"),
        ({"bottleneck": '[{at = "aggregate", ranks = [], sleep_ms = 1}]'}, "lists no rank"),
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


def test_what_is_refused_of_a_delay_is_not_taken_for_the_number_of_ranks(mixed: str) -> None:
    draft = Draft(mixed, {"world_size": "2", "bottleneck": "aggregate 1 ms on 9"})
    assert drafts.at_fault(draft, drafts.validate(draft).reason) == "bottleneck"


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


def test_a_preset_that_is_gone_is_said_to_be_gone(tmp_path: Path) -> None:
    with pytest.raises(PresetError, match="no such file"):
        drafts.preset(Draft(str(tmp_path / "gone.toml")))


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
    assert ["another name" in drafts.copy_problem(made, name) for name in ("a", "B", "c", "d")] == [
        True,
        True,
        True,
        False,
    ]
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


@pytest.mark.parametrize(
    ("typed", "changes"),
    [
        ("", {}),
        ("lr=1  epochs=2", {"lr": "1", "epochs": "2"}),
        ("'bottleneck=backward 20 ms on 1' env=A=1", {"bottleneck": "backward 20 ms on 1", "env": "A=1"}),
    ],
)
def test_a_line_of_words_is_changes(typed: str, changes: dict[str, str]) -> None:
    assert drafts.read_line(typed) == changes


@pytest.mark.parametrize("typed", ["lr=", "strategy=", "lr", "'lr=1", "=1", "lr=1 x"])
def test_a_line_that_cannot_be_read_says_why(typed: str) -> None:
    with pytest.raises(PresetError, match=r"KEY=VALUE|quotation|has no value"):
        drafts.read_line(typed)

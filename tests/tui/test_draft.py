"""Changes to a preset that nobody has run yet: they mean what --set means, and are refused as it is."""

import shlex
from pathlib import Path

import pytest

from ddptui.config.parser import PresetError
from ddptui.config.trial import Bottleneck
from ddptui.config.trial_text import parse_assignment
from ddptui.store.presets import load
from ddptui.tui import draft as drafts
from ddptui.tui import form_lines
from ddptui.tui.draft import Draft
from ddptui.tui.form_lines import NOTHING_IN, REST
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


def delay(at: str, ranks: str, amount: str, rest: str = "") -> str:
    return form_lines.value("bottleneck", [{"at": at, "ranks": ranks, "amount": amount, REST: rest}])


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
    draft = Draft(mixed, {"model": "mlp", "bottleneck": delay("forward", "0, 1", "2.5"), "repeats": "3"})
    words = shlex.split(drafts.command_line(draft))
    assert words[:3] == ["ddptui", "run", mixed]
    assert words[-3:] == ["--repeats", "3", "--no-ui"]
    overrides = dict(parse_assignment(word) for place, word in enumerate(words) if words[place - 1] == "--set")
    assert load(mixed, overrides).trials == drafts.preset(draft).trials


def test_only_what_was_changed_is_on_the_command_line() -> None:
    assert drafts.command_line(Draft("quickstart")) == "ddptui run quickstart --no-ui"


def test_a_bottleneck_is_put_in_everywhere_and_taken_out_everywhere(mixed: str) -> None:
    put_in = drafts.preset(Draft(mixed, {"bottleneck": delay("aggregate", "1", "10")}))
    assert {trial.bottleneck for trial in put_in.trials} == {(Bottleneck(at="aggregate", ranks=(1,), sleep_ms=10),)}
    taken_out = drafts.preset(Draft(mixed, {"bottleneck": NOTHING_IN}))
    assert {trial.bottleneck for trial in taken_out.trials} == {()}


def test_slow_links_are_put_in_with_what_they_let_through(mixed: str) -> None:
    put_in = drafts.preset(Draft(mixed, {"launch": "spawn", "bottleneck": delay("link", "0, 1", "2.5")}))
    assert {trial.bottleneck for trial in put_in.trials} == {(Bottleneck(at="link", ranks=(0, 1), mbit=2.5),)}
    refused = Draft(mixed, {"launch": "spawn", "bottleneck": delay("link", "1", "fast")})
    with pytest.raises(PresetError, match=r"^bottleneck, Mbit/s: \"fast\" is not a number"):
        drafts.preset(refused)


def test_the_lines_of_bottlenecks_and_faults_come_back() -> None:
    bottlenecks = [
        {"at": "link", "ranks": "0,1", "amount": "2.5", REST: ""},
        {"at": "aggregate", "ranks": "0,1", "amount": "2.5", REST: "per=call every=2 jitter=uniform"},
    ]
    assert form_lines.lines("bottleneck", form_lines.value("bottleneck", bottlenecks)) == bottlenecks
    faults = [{"kind": "kill", "rank": "1", "step": "5"}, {"kind": "skip", "rank": "0", "step": "7"}]
    assert form_lines.lines("fault", form_lines.value("fault", faults)) == faults


@pytest.mark.parametrize(
    "line",
    [
        {"at": "aggregate", "ranks": "1", "amount": "10", REST: "every=2 every=3"},
        {"at": "aggregate", "ranks": "1", "amount": "10", REST: "sleep_ms=3 ranks=1 at=link every"},
        {"at": "link", "ranks": "1", "amount": "10", REST: "mbit=3 a=b=c a=d"},
        {"at": "aggregate", "ranks": "0,1 # one", "amount": "10 # ms", REST: "every=2#steps # per=true"},
        {"at": "aggregate", "ranks": "0x" + "f" * 6000, "amount": "9" * 6000, REST: "every=\" x=] y={ z=' =3 ="},
    ],
)
def test_a_line_comes_back_whatever_is_typed(line: dict[str, str]) -> None:
    [again] = form_lines.lines("bottleneck", form_lines.value("bottleneck", [line]))
    assert again[REST].replace("every= ", "every ").split() == [
        word if "=" in word else f"{word}=" for word in line[REST].split()
    ]
    assert {**again, REST: ""} == {**line, REST: ""}


@pytest.mark.parametrize(
    "text",
    [
        "", "[", "1", "true", "every=2", '"text"', "[1]", "[[]]", "[{}]", '[{at = "link"}]', '[{at = 1, ranks = [1]}]',
        '[{at = "link", ranks = 1}]', '[{kind = "kill"}]', f"[{'[' * 5000}", "[" * 400 + "]" * 400, "{}", "[{at",
        f'[{{at = "link", ranks = [0x{"f" * 6000}]}}]', f'[{{at = "link", ranks = [], x = {"[" * 90}{"]" * 90}}}]',
        f'[{{kind = 0x{"f" * 6000}, rank = 1, step = 1}}]', '[{at = "data", ranks = [1], sleep_ms = 1, sleep_ms = 2}]',
        form_lines.value("bottleneck", [{"at": "data", "ranks": "1", "amount": "1", REST: f"x=a{'.a' * 20}"}]),
    ],
    ids=lambda text: text[:30],
)  # fmt: skip
def test_no_text_is_too_strange_for_lines(text: str) -> None:
    for field in form_lines.KINDS:
        assert len(form_lines.lines(field, text)) <= 1


@pytest.mark.parametrize(
    ("rest", "key", "word"),
    [
        ("every=2 every=3", "every", "every=3"),
        ("sleep_ms=3", "sleep_ms", "sleep_ms=3"),
        ("ranks=1", "ranks", "ranks=1"),
        ("at=link", "at", "at=link"),
        ("jitter=uniform every jitter=none", "jitter", "jitter=none"),
    ],
)
def test_a_repeated_key_is_named(mixed: str, rest: str, key: str, word: str) -> None:
    draft = Draft(mixed, {"bottleneck": delay("aggregate", "1", "10", rest)})
    judged = drafts.validate(draft)
    assert judged.preset is None
    assert judged.reason == f"bottleneck, and: {key} is given twice: remove {word}"
    assert drafts.at_fault(draft, judged.reason) == "bottleneck"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"world_size": "two"}, 'ranks: expected an integer, got "two"'),
        ({"world_size": "0"}, "ranks: expected an integer of 1 or more, got 0"),
        ({"world_size": "2000"}, "ranks: expected an integer of 1024 at most, got 2000"),
        ({"world_size": "2.5"}, "ranks: expected an integer, got 2.5"),
        ({"model": "mlp", "dataset": "x"}, "data: unknown value 'x'"),
        ({"model": "mlp", "strategy": "ringg"}, "did you mean 'ring'?"),
        ({"repeats": "0"}, "repeats: expected 1 to 1000, got 0"),
        ({"repeats": "9" * 5000}, "repeats: expected 1 to 1000"),
        ({"repeats": "²"}, "repeats: expected 1 to 1000"),
        (
            {"bottleneck": delay("aggregate", "one", "10")},
            'bottleneck, ranks: expected an integer, got "one"',
        ),
        ({"bottleneck": delay("aggregate", "", "10")}, "lists no rank"),
        ({"bottleneck": delay("aggregate", "1", "")}, 'bottleneck, ms: "" is not a number'),
        ({"bottleneck": delay("aggregate", "1", "nan")}, "bottleneck, ms: expected a number of 0 or more"),
        ({"bottleneck": delay("aggregate", "9", "1")}, "bottleneck, ranks: no rank 9"),
        ({"bottleneck": delay("aggregate", "1", '"')}, "is not a number"),
    ],
)
def test_a_change_that_cannot_be_is_refused_in_one_line(mixed: str, changes: dict[str, str], words: str) -> None:
    draft = Draft(mixed, changes)
    judged = drafts.validate(draft)
    assert judged.preset is None
    assert words in judged.reason
    assert mixed not in judged.reason
    assert "\n" not in judged.reason
    assert drafts.at_fault(draft, judged.reason) == [*changes][-1]


def test_what_is_refused_of_a_delay_is_not_taken_for_the_number_of_ranks(mixed: str) -> None:
    draft = Draft(mixed, {"world_size": "2", "bottleneck": delay("aggregate", "9", "1")})
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

"""What a table says of trials before they are run."""

from ddptui.report.preset_columns import differs, facts
from tests.support.builders import preset_of


def test_what_differs_comes_first_and_what_says_nothing_is_left_out() -> None:
    shown = facts(preset_of({"matrix": {"world_size": [1, 2]}, "defaults": {"model": "mlp", "depth": 1, "width": 8}}))
    assert [fact.header for fact in shown] == [
        "trial", "ranks", "launch", "strategy", "model", "data", "batch", "length",
    ]  # fmt: skip
    assert shown[0].cells == ["world_size-1", "world_size-2"]
    assert [fact.header for fact in shown[1:] if differs(fact)] == ["ranks"]
    assert {fact.header: fact.cells[0] for fact in shown}["model"] == "mlp 1×8"


def test_a_field_without_a_column_has_one_where_it_differs() -> None:
    trials = [{"name": "a", "sched_batch": True}, {"name": "b", "bucket_mb": 2, "strategy": "ddp"}]
    cells = {fact.header: tuple(fact.cells) for fact in facts(preset_of({"trial": trials}))}
    assert cells["sched_batch"] == ("true", "false")
    assert cells["bucket_mb"] == ("–", "2.0")
    assert "seed" not in cells


def test_what_trials_on_gpus_differ_in_is_told() -> None:
    trials = [{"name": "a", "amp": "bf16", "share_gpu": True}, {"name": "b", "clip_norm": 1, "num_workers": 2}]
    shown = facts(preset_of({"trial": trials}))
    told = {fact.header: tuple(fact.cells) for fact in shown if differs(fact)}
    assert told.pop("trial") == ("a", "b")
    assert told == {
        "amp": ("bf16", "–"), "share_gpu": ("true", "false"), "clip_norm": ("–", "1.0"), "num_workers": ("0", "2"),
    }  # fmt: skip


def test_delays_and_lengths_are_spelled_out() -> None:
    delay = {"at": "aggregate", "ranks": [1], "sleep_ms": 10}
    trials = [{"name": "a", "bottleneck": [delay], "steps": 9}, {"name": "b", "epochs": 1}]
    cells = {fact.header: tuple(fact.cells) for fact in facts(preset_of({"trial": trials}))}
    assert cells["bottleneck"] == ("aggregate 10 ms on 1", "–")
    assert cells["length"] == ("9 steps", "1 epoch")


def test_a_training_without_an_end_says_so() -> None:
    trials = [{"name": "a", "epochs": 0}, {"name": "b", "steps": 9}]
    cells = {fact.header: tuple(fact.cells) for fact in facts(preset_of({"trial": trials}))}
    assert cells["length"] == ("until stopped", "9 steps")

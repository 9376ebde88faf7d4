"""What was published, beside what was measured."""

import tomllib
from typing import Any

import msgspec

from ddptui.analysis.results import Results
from ddptui.config.parser import parse
from ddptui.config.preset import Preset
from ddptui.report.notes import notes
from ddptui.store.presets import as_toml
from tests.support.builders import failure, journal, preset_of, results_for


def ran(*references: dict[str, Any]) -> tuple[Results, Preset]:
    """Trial a took 0.03 s with steps of 10 ms, b 0.06 s with steps of 20 ms; c failed."""
    preset = preset_of({"trial": [{"name": "a"}, {"name": "b"}, {"name": "c"}], "reference": list(references)})
    return results_for(preset, journal("a"), journal("b", step_ms=20), failure("c")), preset


A = {"trial": "a", "train_time_s": 3.0, "step_ms": 1040, "source": "a demo"}
B = {"trial": "b", "train_time_s": 1.5, "step_ms": 700.5}


def published(results: Results, preset: Preset) -> list[str]:
    return [note.text for note in notes(results, preset) if note.kind == "published"]


def test_a_published_step_stands_beside_ours() -> None:
    source, first, second = published(*ran(A, B))
    assert source == "published: a demo"
    assert first == (
        "published: a: 0.03 s here, 3.00 s published (0.01 times as long); ratio 1.00 here, 1.00 published; "
        "a step 10.00 ms here, 1040 ms published"
    )
    assert second.endswith("ratio 2.00 here, 0.50 published; a step 20.00 ms here, 700.5 ms published")


def test_without_a_published_step_none_is_spoken_of() -> None:
    (only,) = published(*ran({"trial": "a", "train_time_s": 3.0}))
    assert "step" not in only


def test_steps_that_are_not_known_here_are_left_out() -> None:
    results, preset = ran(A)
    unmeasured = [msgspec.structs.replace(repeat, step_ms=None) for repeat in results.trials[0].repeats]
    unknown = msgspec.structs.replace(
        results, trials=[msgspec.structs.replace(results.trials[0], repeats=unmeasured), *results.trials[1:]]
    )
    assert "a step" not in published(unknown, preset)[1]


def test_a_trial_that_failed_has_only_what_was_published() -> None:
    results, preset = ran({"trial": "c", "train_time_s": 2.0, "step_ms": 5})
    assert published(results, preset) == ["published: c: failed here, 2.00 s published"]


def test_what_was_published_is_kept_with_a_run_whether_a_step_was_or_not() -> None:
    _, preset = ran(A, {"trial": "b", "train_time_s": 1.5})
    assert parse("made", tomllib.loads(as_toml(preset)), {}).references == preset.references

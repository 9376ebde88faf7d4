"""The columns that a preset wants seen."""

import pytest

from ddptui.config.columns import MEANINGS
from ddptui.config.parser import parse
from ddptui.config.toml import read_toml
from ddptui.config.trial import TrialError
from ddptui.store.presets import all_presets, as_toml
from tests.support.builders import preset_of

ONE_TRIAL = {"trial": [{"name": "a"}]}


def test_they_are_read_and_survive_being_kept_as_toml() -> None:
    preset = preset_of({"columns": ["startup", "sync"], **ONE_TRIAL})
    assert preset.columns == ("startup", "sync")
    assert parse("made", read_toml(as_toml(preset)), {}) == preset
    assert preset_of(ONE_TRIAL).columns == ()


@pytest.mark.parametrize(
    ("columns", "key", "why"),
    [
        (["sync", "startpu"], "columns[1]", "no column 'startpu'; did you mean 'startup'?"),
        ([["sync"]], "columns[0]", 'expected text, got ["sync"]'),
        ("sync", "columns", 'expected a list, got "sync"'),
    ],
)
def test_an_unknown_one_is_refused_with_the_nearest_spelling(columns: object, key: str, why: str) -> None:
    with pytest.raises(TrialError) as refused:
        preset_of({"columns": columns, **ONE_TRIAL})
    assert (refused.value.key, refused.value.why) == (key, why)


def test_primitives_have_other_columns() -> None:
    trials = {"kind": "primitives", "trial": [{"name": "a", "primitives": "see"}]}
    with pytest.raises(TrialError, match="columns: has no effect with kind = 'primitives'"):
        preset_of({"columns": ["sync"], **trials})
    assert preset_of(trials).columns == ()


def test_the_presets_want_the_columns_that_they_speak_of() -> None:
    wanted = {preset.name: preset.columns for presets in all_presets()[0].values() for preset in presets}
    assert wanted["launch-modes"] == ("startup",)
    assert wanted["mistakes"] == ("sync", "mean", "order")
    assert {key for keys in wanted.values() for key in keys} <= {*MEANINGS}

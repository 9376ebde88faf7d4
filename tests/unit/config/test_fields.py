"""A trial's field documents itself: what tables, listings and rules say of it is read from the field."""

from pathlib import Path

import pytest

from ddptui.config import fields
from ddptui.config.fields import FIELDS, kind, misnamed
from ddptui.config.strategies import LACKS, STRATEGIES, StrategyFacts
from ddptui.config.trial import TRIAL_FIELDS
from ddptui.report.preset_columns import OF_COMMAND, OF_PRIMITIVES, OF_TRAINING
from tests.support.runner import ddptui


def test_every_field_says_what_it_is_and_names_a_column_of_the_presets_table() -> None:
    assert [name for name in TRIAL_FIELDS if not FIELDS[name].description] == []
    assert {facts.column for facts in FIELDS.values()} <= {"", "trial", *OF_TRAINING, *OF_PRIMITIVES, *OF_COMMAND}


@pytest.mark.parametrize("column", sorted({facts.column for facts in FIELDS.values() if facts.column}))
def test_every_column_with_another_name_than_its_field_leads_to_the_field(column: str) -> None:
    assert misnamed(column).startswith("no such field; write ")
    assert {*misnamed(column).removeprefix("no such field; write ").split(" or ")} <= {*TRIAL_FIELDS}
    assert misnamed("zzz") == ""


def test_what_a_field_needs_of_a_strategy_is_a_fact_of_strategies() -> None:
    needs = {facts.needs for facts in FIELDS.values() if facts.needs}
    assert needs == LACKS.keys() <= set(StrategyFacts._fields)
    assert all(any(getattr(facts, need) for facts in STRATEGIES.values()) for need in needs)


@pytest.mark.parametrize(
    ("name", "type_and_bounds"),
    [
        ("world_size", "integer, 1 to 1,024"),
        ("bucket_mb", "number, more than 0, 65,536 at most"),
        ("amp", "bf16 | fp16"),
        ("operations", "list of send_recv | isend_irecv | broadcast"),
        ("bottleneck", "list of tables"),
        ("save", "true or false"),
    ],
)
def test_a_fields_type_is_listed_with_its_bounds(name: str, type_and_bounds: str) -> None:
    assert kind(name).startswith(type_and_bounds)


def test_the_listing_has_every_field_with_its_default_and_description(tmp_path: Path) -> None:
    listed = ddptui(tmp_path, "presets", "--fields")
    assert (listed.returncode, listed.stderr) == (0, "")
    assert listed.stdout == fields.listing()
    assert 'world_size = 2  (integer, 1 to 1,024)\n    number of ranks; "cores": ' in listed.stdout
    assert all(f"\n{name}" in listed.stdout for name in TRIAL_FIELDS)

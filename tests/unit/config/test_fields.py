"""Fields and strategies document themselves; the console's lists are the ranks' own, read off their source."""

import ast
from pathlib import Path

import pytest

from ddptui.config import catalog, fields
from ddptui.config.catalog import LACKS, STRATEGIES, StrategyFacts
from ddptui.config.fields import FIELDS, choices, kind, misnamed
from ddptui.config.trial import TRIAL_FIELDS
from ddptui.host.folders import lab_root
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


AGGREGATE = lab_root() / "workers" / "aggregate"
NAMES = tuple(catalog.STRATEGIES)


def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def table_in(path: Path, name: str) -> ast.Dict:
    """The dictionary that a module's top level calls `name`."""
    tables = [
        node.value
        for node in parsed(path).body
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.target.id == name
    ]
    [table] = tables
    assert isinstance(table, ast.Dict)
    return table


def keys_of(table: ast.Dict) -> list[object]:
    return [ast.literal_eval(key) for key in table.keys if key]


def test_strategies_and_mistakes_are_those_of_the_ranks() -> None:
    assert choices("strategy") == NAMES
    assert choices("mistake") == tuple(catalog.MISTAKES)
    possible = [(mistake, strategy) for mistake, with_which in catalog.MISTAKES.items() for strategy in with_which]
    assert keys_of(table_in(AGGREGATE / "mistakes.py", "MISTAKES")) == possible
    anywhere = {mistake for mistake, with_which in catalog.MISTAKES.items() if not with_which}
    loop = {node.value for node in ast.walk(parsed(AGGREGATE.parent / "train.py")) if isinstance(node, ast.Constant)}
    assert loop & set(catalog.MISTAKES) == anywhere == {"no_set_epoch"}


@pytest.mark.parametrize("name", NAMES)
def test_every_strategy_is_one_class_of_its_file_which_says_what_it_does(name: str) -> None:
    assert ast.get_docstring(parsed(AGGREGATE / f"{name}.py"))
    classes = [node for node in parsed(AGGREGATE / f"{name}.py").body if isinstance(node, ast.ClassDef)]
    bases = [base.id for node in classes for base in node.bases if isinstance(base, ast.Name)]
    assert bases in (["Strategy"], ["DDP"])

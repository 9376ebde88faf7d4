"""The console's lists of strategies and mistakes are the ranks' own: read off their source, since torch is not here."""

import ast
from pathlib import Path

import pytest

from ddptui.config import strategies
from ddptui.config.fields import choices
from ddptui.host.folders import lab_root

AGGREGATE = lab_root() / "workers" / "aggregate"
NAMES = tuple(strategies.STRATEGIES)


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


def test_a_preset_and_the_console_name_the_same_strategies_and_mistakes_in_the_same_order() -> None:
    assert choices("strategy") == NAMES
    assert choices("mistake") == tuple(strategies.MISTAKES)


def test_a_mistake_can_be_made_with_the_strategies_that_the_ranks_have_it_for() -> None:
    """Those that go with any strategy are not in the strategies' place, but in the loop."""
    possible = [(mistake, strategy) for mistake, with_which in strategies.MISTAKES.items() for strategy in with_which]
    assert keys_of(table_in(AGGREGATE / "mistakes.py", "MISTAKES")) == possible
    anywhere = {mistake for mistake, with_which in strategies.MISTAKES.items() if not with_which}
    loop = {node.value for node in ast.walk(parsed(AGGREGATE.parent / "train.py")) if isinstance(node, ast.Constant)}
    assert loop & set(strategies.MISTAKES) == anywhere == {"no_set_epoch"}


@pytest.mark.parametrize("name", NAMES)
def test_every_strategy_is_one_class_of_its_file_which_says_what_it_does(name: str) -> None:
    assert ast.get_docstring(parsed(AGGREGATE / f"{name}.py"))
    classes = [node for node in parsed(AGGREGATE / f"{name}.py").body if isinstance(node, ast.ClassDef)]
    bases = [base.id for node in classes for base in node.bases if isinstance(base, ast.Name)]
    assert bases in (["Strategy"], ["DDP"])

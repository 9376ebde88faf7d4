"""What is imported inside a training that is watched keeps to the oldest Python that `ddptui watch` takes.

Its grammar, and the names in the modules below. Methods and arguments that are newer are not found here: with
DDPTUI_OLDER_TORCH, tests/real/test_watch.py runs it all.
"""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

REPO = Path(__file__).parents[1]
INJECTED = REPO / "workers" / "watch" / "inject" / "sitecustomize.py"
OLDEST, OLDEST_TO_SAY_NO = (3, 10), (3, 6)
NEWER_MODULES = {"tomllib"}
NEWER_NAMES = {
    "typing": "LiteralString Never NotRequired ReadOnly Required Self TypeAliasType TypeIs TypeVarTuple Unpack"
    " assert_never assert_type dataclass_transform get_overloads override reveal_type",
    "enum": "EnumCheck FlagBoundary ReprEnum StrEnum global_enum member nonmember property verify",
    "datetime": "UTC",
    "itertools": "batched",
    "contextlib": "chdir",
    "hashlib": "file_digest",
    "operator": "call",
    "collections.abc": "Buffer",
    "builtins": "BaseExceptionGroup ExceptionGroup PythonFinalizationError",
}
IMPORT = """
import sys
package = type(sys)("ddptui_injected")
package.__path__ = ["workers"]
sys.modules[package.__name__] = package
import ddptui_injected.watch.entrances, ddptui_injected.watch.observer
others = {name.partition(".")[0] for name in sys.modules} & {"msgspec", "zmq", "psutil", "click", "rich"}
assert not others, others
print(*(module.__file__ for name, module in sys.modules.items() if name.startswith("ddptui") and module is not package))
"""


def newer_than_oldest(source: str) -> list[str]:
    """Return what the oldest Python lacks of the names that a module uses. Raises SyntaxError for newer grammar."""
    return sorted(set(_newer(ast.parse(source, feature_version=OLDEST))))


def _newer(tree: ast.Module) -> Iterator[str]:
    newer = {(module, name) for module, names in NEWER_NAMES.items() for name in names.split()}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in NEWER_MODULES)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield from [node.module] if node.module in NEWER_MODULES else []
            yield from (f"{node.module}.{alias.name}" for alias in node.names if (node.module, alias.name) in newer)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            yield from [f"{node.value.id}.{node.attr}"] if (node.value.id, node.attr) in newer else []
        elif isinstance(node, ast.Name):
            yield from [node.id] if ("builtins", node.id) in newer else []


def test_what_a_training_imports_uses_nothing_that_the_oldest_python_lacks() -> None:
    done = subprocess.run([sys.executable, "-c", IMPORT], cwd=REPO, capture_output=True, text=True, check=True)
    paths = [Path(path) for path in done.stdout.split()]
    assert {"observer.py", "tap.py", "sender.py", "own_steps.py"} <= {path.name for path in paths}
    assert {path.name: newer for path in paths if (newer := newer_than_oldest((REPO / path).read_text()))} == {}


def test_what_says_that_a_python_is_too_old_can_be_read_by_a_much_older_one() -> None:
    ast.parse(INJECTED.read_text(), feature_version=OLDEST_TO_SAY_NO)

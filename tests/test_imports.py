"""What is imported: nothing heavy by the console, nothing too new by a training; and benchmarks can be started."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ddptui.host.folders import lab_root
from tests.support.runner import ENOUGH_S

HEAVY = ("torch", "torchvision", "textual", "numpy")
LIST = "print(*sorted({name.partition('.')[0] for name in sys.modules} & set(HEAVY)))"
# textual belongs to ddptui.tui alone; _lab holds the rank side in a wheel; __main__ would run the console.
EVERY_MODULE = """
import importlib, pkgutil
def below(package):
    for found in pkgutil.iter_modules(package.__path__, package.__name__ + "."):
        if found.name not in ("ddptui.tui", "ddptui._lab", "ddptui.__main__"):
            module = importlib.import_module(found.name)
            print(found.name)
            if found.ispkg:
                below(module)
import ddptui
below(ddptui)
"""


def output_of(code: str) -> list[str]:
    preface = f"import sys; HEAVY = {HEAVY!r}\n"
    done = subprocess.run(
        [sys.executable, "-c", preface + code], capture_output=True, text=True, check=True, timeout=ENOUGH_S
    )
    return done.stdout.split("\n")


@pytest.mark.parametrize(
    ("modules", "later"),
    [
        ("ddptui", HEAVY),
        ("ddptui.cli", (*HEAVY, "zmq", "msgspec", "rich")),  # it may only have to say no
        *((f"ddptui.{module}", ("numpy",)) for module in ("cli.run", "run.headless", "run.verify", "report.table")),
        *((f"ddptui.tui.{module}", ("numpy",)) for module in ("app", "screens.run")),
        ("ddptui.cli.inspect, ddptui.run.listing, ddptui.tui.screens.export", ("jinja2", "markdown_it", "ddptui.page")),
        ("ddptui.run.listing", ("zmq", "psutil", "ddptui.engines.rank_server")),
        ("workers.relay.rank", ("torch",)),
        ("workers.train", ("torchvision",)),
    ],
)
def test_what_is_not_needed_yet_is_not_imported(modules: str, later: tuple[str, ...]) -> None:
    assert output_of(f"import {modules}; print(*sorted(sys.modules.keys() & set({later})))") == ["", ""]


def test_no_module_of_the_console_imports_anything_heavy_but_those_that_judge_do_numpy() -> None:
    *modules, heavy, _ = output_of(EVERY_MODULE + LIST)
    assert {"ddptui.cli", "ddptui.run.runner", "ddptui.report.table", "ddptui.engines.local.engine"} <= set(modules)
    assert heavy == "numpy"


@pytest.mark.parametrize(("wanted", "painted"), [(None, 120), ("30", 30)])
def test_how_often_the_console_paints(wanted: str | None, painted: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TEXTUAL_FPS")
    if wanted is not None:
        monkeypatch.setenv("TEXTUAL_FPS", wanted)
    period = "from textual import screen; print(round(1 / screen.UPDATE_PERIOD))"
    assert output_of(f"import ddptui.tui.app; {period}") == [str(painted), ""]


# Benchmarks


EACH = """
import importlib, sys
for name in sys.argv[1:]:
    try:
        importlib.import_module(f"benchmarks.{name}")
    except Exception as error:
        print(name, repr(error))
"""


@pytest.mark.rare  # `make bench` starts each
def test_every_benchmark_can_be_started() -> None:
    """In a process of its own, since some import torch, and some the screens."""
    names = sorted(path.stem for path in (lab_root() / "benchmarks").glob("*.py"))
    assert {"ranks", "attribution", "soak"} <= {*names}
    done = subprocess.run(
        [sys.executable, "-c", EACH, *names],
        capture_output=True,
        text=True,
        check=True,
        timeout=ENOUGH_S,
        cwd=lab_root(),
    )
    assert (done.stdout, done.stderr) == ("", "")


# Within a training that is watched: the oldest Python that `ddptui watch` takes


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
IMPORT_INJECTED = """
import sys
package = type(sys)("ddptui_injected")
package.__path__ = ["workers"]
sys.modules[package.__name__] = package
import ddptui_injected.watch.patches, ddptui_injected.watch.observer
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
    done = subprocess.run([sys.executable, "-c", IMPORT_INJECTED], cwd=REPO, capture_output=True, text=True, check=True)
    paths = [Path(path) for path in done.stdout.split()]
    assert {"observer.py", "tap.py", "sender.py", "notes.py"} <= {path.name for path in paths}
    assert {path.name: newer for path in paths if (newer := newer_than_oldest((REPO / path).read_text()))} == {}


def test_what_says_that_a_python_is_too_old_can_be_read_by_a_much_older_one() -> None:
    ast.parse(INJECTED.read_text(), feature_version=OLDEST_TO_SAY_NO)

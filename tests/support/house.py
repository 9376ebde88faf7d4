"""The rules of the house, checked on the sources alone: what may import what, and which rooms stay pure."""

import ast
from collections.abc import Iterable, Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

# From the ground up. A room imports from lower floors only, never from one beside it.
FLOORS = (
    ("text",),
    ("config",),
    ("wire",),
    ("host",),
    ("analysis", "diagnosis"),
    ("findings",),
    ("live", "report", "store"),
    ("engines",),
    ("run",),
    ("doctor", "projection"),
    ("page",),
    ("tui",),
    ("cli",),
    ("__main__",),
)
WORKERS_FLOORS = (
    ("instruments",),
    ("watch",),
    ("own_code",),
    ("rank",),
    ("relay",),
    ("aggregate",),
    ("primitives", "replicas", "training"),
    ("train",),
    ("run_rank", "preload"),
    ("doctor",),
    ("dp", "single", "process", "spawn", "launch", "task", "verify"),
    ("warm",),
)
SHARED_WITH_WORKERS = {"text", "config", "wire", "host"}
INJECTED = ("workers.instruments.", "workers.watch.")  # into foreign processes, where `workers` may be another package
PURE = {"text", "config", "wire", "analysis", "diagnosis", "findings", "live", "report"}
# What a pure room may import from outside: nothing here reads a file, a clock or an environment. Of random only Random,
# with a seed.
PURE_IMPORTS = {
    "bisect", "collections", "contextlib", "csv", "dataclasses", "datetime", "difflib", "enum", "functools", "io",
    "itertools", "json", "math", "msgspec", "numpy", "operator", "random", "re", "shlex", "signal", "statistics",
    "string", "textwrap", "tomli_w", "tomllib", "types", "typing", "unicodedata",
}  # fmt: skip
IMPURE_CALLS = {"open", "print", "input", "now", "today", "utcnow"}

Imports = Mapping[str, set[str]]


def sources(root: Path) -> dict[str, ast.Module]:
    """Return the modules below `root`/ddptui and `root`/workers, parsed, by dotted name."""
    return {
        ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__"): ast.parse(path.read_text())
        for package in ("ddptui", "workers")
        for path in (root / package).rglob("*.py")
        if "_lab" not in path.parts
    }


def violations(root: Path) -> list[str]:
    """Return one line for each place that breaks a rule; empty if the house stands as it should."""
    modules = sources(root)
    imports = {name: set(_imports(tree, name, modules)) for name, tree in modules.items()}
    return sorted(
        [
            *_upward(imports),
            *_circles(imports),
            *_forbidden(imports),
            *_impure(modules, imports),
            *_private(modules),
            *_at_the_root(modules),
        ]
    )


def _imports(tree: ast.Module, module: str, modules: Iterable[str]) -> Iterator[str]:
    """Names of all imported modules, wherever the import stands; `from package import module` is that module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            source = _source(node, module)
            for alias in node.names:
                full = f"{source}.{alias.name}"
                yield full if full in modules else source


def _source(node: ast.ImportFrom, module: str) -> str:
    """Return the absolute name of what an import is from; all but those of the injected part are absolute."""
    if node.level == 0:
        return str(node.module)
    assert module.startswith(INJECTED), f"{module}: imports are absolute here"
    return ".".join([*module.split(".")[: -node.level], *filter(None, [node.module])])


def _room(module: str) -> str:
    return module.split(".")[1] if "." in module else ""


def _upward(imports: Imports) -> Iterator[str]:
    for package, floors in (("ddptui", FLOORS), ("workers", WORKERS_FLOORS)):
        level = {room: number for number, floor in enumerate(floors) for room in floor}
        for module, imported in imports.items():
            for other in imported:
                here, there = _room(module), _room(other)
                same_package = module.split(".")[0] == other.split(".")[0] == package
                if same_package and here and there and here != there and level.get(here, -1) <= level.get(there, 99):
                    yield f"{module} imports {other}: imports point down only"


def _circles(imports: Imports) -> Iterator[str]:
    """Also circles that only TYPE_CHECKING or an import within a function hides."""
    own = {name: {other for other in imported if other in imports} for name, imported in imports.items()}
    try:
        TopologicalSorter(own).prepare()
    except CycleError as error:
        yield f"a circle: {' <- '.join(error.args[1])}"


def _forbidden(imports: Imports) -> Iterator[str]:
    for module, imported in imports.items():
        tops = {name.split(".")[0] for name in imported}
        console = module.split(".")[0] == "ddptui"
        if console and tops & {"torch", "torchvision"}:
            yield f"{module} imports torch: a crash in native code would take the terminal with it"
        if console and "numpy" in tops and _room(module) not in ("analysis", "findings"):
            yield f"{module} imports numpy: only judging a run takes arrays"
        if console and _room(module) != "tui" and "textual" in tops:
            yield f"{module} imports textual: only ddptui/tui does"
        if console and "workers" in tops:
            yield f"{module} imports workers, which import torch"
        for other in imported:
            if not console and other.startswith("ddptui.") and _room(other) not in SHARED_WITH_WORKERS:
                yield f"{module} imports {other}: workers share {', '.join(sorted(SHARED_WITH_WORKERS))} only"


def _impure(modules: Mapping[str, ast.Module], imports: Imports) -> Iterator[str]:
    for module, tree in modules.items():
        if not module.startswith("ddptui.") or _room(module) not in PURE:
            continue
        checked = filter(_is_type_checking, ast.walk(tree))
        types_only = {name for node in checked for name in _imports_of(node, module, modules)}
        for other in imports[module] - types_only:
            if other.startswith("ddptui."):
                if _room(other) not in PURE:
                    yield f"{module} imports {other}: {_room(module)} is pure, {_room(other)} is not"
            elif other.split(".")[0] not in PURE_IMPORTS:
                yield f"{module} imports {other}: {_room(module)} is pure"
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and (name := _called(node)) in IMPURE_CALLS:
                yield f"{module} calls {name}: {_room(module)} is pure"


def _is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def _imports_of(node: ast.AST, module: str, modules: Iterable[str]) -> set[str]:
    assert isinstance(node, ast.If)
    return set(_imports(ast.Module(node.body, []), module, modules))


def _called(call: ast.Call) -> str:
    if isinstance(call.func, ast.Attribute):
        return call.func.attr
    return call.func.id if isinstance(call.func, ast.Name) else ""


def _private(modules: Mapping[str, ast.Module]) -> Iterator[str]:
    for module, tree in modules.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and str(node.module).startswith(("ddptui", "workers")):
                for alias in node.names:
                    if alias.name.startswith("_") and not alias.name.endswith("__"):
                        yield f"{module} imports {node.module}.{alias.name}: what begins with _ is private"


def _at_the_root(modules: Mapping[str, ast.Module]) -> Iterator[str]:
    rooms = {room for floor in FLOORS for room in floor}
    for module in modules:
        if module.startswith("ddptui.") and _room(module) not in rooms:
            yield f"{module} stands in no room"

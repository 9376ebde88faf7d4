"""Python imports this file at the start of every process below `ddptui watch`: PYTHONPATH begins with this folder.

It makes `from ddptui import phase, step` work. It does nothing else until the process imports torch, so that a process
without torch (a shell script may start many) takes only a millisecond longer. This file must run in the training's
Python, 3.6 or newer.
"""

import os
import sys
from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec
from typing import Any

HERE = os.path.dirname(os.path.abspath(__file__))
WORKERS = os.path.dirname(os.path.dirname(HERE))
CHECKOUT = os.path.dirname(WORKERS)
# The folder of the console's package, which is beside `workers`, or around it if installed (ddptui/_lab/workers).
CONSOLE = CHECKOUT if os.path.isdir(os.path.join(CHECKOUT, "ddptui")) else os.path.dirname(os.path.dirname(CHECKOUT))
OLDEST_PYTHON, OLDEST_TORCH = (3, 10), (2, 4)  # what our other modules require
WATCHED = "DDPTUI_WATCHED"  # variable with the path of the file that says how to reach the console
HUB = "DDPTUI_HUB"  # variable that is set in a rank of the lab, which finds the package itself
NOTES = "notes"  # the file beside that one in which a process notes why it is not watched


def note(why: str) -> None:
    """Note in the notes file why this process is not watched, so that the training's output stays as it is."""
    try:
        notes = os.path.join(os.path.dirname(os.environ[WATCHED]), NOTES)
        descriptor = os.open(notes, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.write(descriptor, (why.replace("\n", " ") + "\n").encode("utf-8", "backslashreplace"))
        os.close(descriptor)
    except Exception:  # the console is gone, or the disk is full: that must not disturb the training
        pass


def import_the_environments_own() -> None:
    """Import the environment's own sitecustomize, if any: this file hides it from Python."""
    sys.path[:] = [folder for folder in sys.path if os.path.abspath(folder) != HERE]
    spec = PathFinder.find_spec("sitecustomize", sys.path)
    if spec is not None and spec.loader is not None:
        module = sys.modules["sitecustomize"] = module_from_spec(spec)
        spec.loader.exec_module(module)


def note_error(error: Exception) -> None:
    """Note an error as the reason why this process is not watched."""
    note(f"{type(error).__name__}: {error}")


class AfterTorch:
    """A module finder that finds no module itself, but has `enter` called once torch has been imported."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name != "torch":
            return None
        sys.meta_path.remove(self)
        try:
            spec = find_spec("torch")
        finally:
            sys.meta_path.insert(0, self)  # the caller may only check whether torch exists
        if spec is not None and spec.loader is not None:
            import_torch = spec.loader.exec_module

            def import_and_enter(module: Any) -> None:
                sys.meta_path.remove(self)
                import_torch(module)
                enter(module)

            loader: Any = spec.loader
            loader.exec_module = import_and_enter
        return spec


class ConsolesOwn:
    """A module finder for the console's own ddptui: the training's environment may lack it, or have another version."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        return PathFinder.find_spec(name, [CONSOLE]) if name == "ddptui" else None


def is_the_consoles_own() -> bool:
    """Whether this process is a console or a rank of its lab, of any version of ddptui."""
    arguments = getattr(sys, "argv", [])  # embedded Pythons may have none
    program = sys.orig_argv[-len(arguments) :][:1]  # the script's path, or the module's name
    return HUB in os.environ or [os.path.basename(name) for name in program] == ["ddptui"]


def too_old(torch: str) -> str:
    """Return why this environment is too old; empty if it is not. torch: torch's version."""
    python_is, torch_is = sys.version_info[:2], tuple(int(number) for number in torch.split(".")[:2])
    for name, has, needs in (("Python", python_is, OLDEST_PYTHON), ("torch", torch_is, OLDEST_TORCH)):
        if has < needs:
            older, oldest = (".".join(map(str, version)) for version in (has, needs))
            return f"its {name} is {older}, and ddptui watch needs {oldest} or newer"
    return ""


def enter(torch: Any) -> None:
    """Install our hooks in torch, if this environment is new enough."""
    try:
        why = too_old(str(torch.__version__))
        if why:
            note(why)
            return
        # Under a name of our own: the training may have a package named `workers`.
        package = type(sys)("ddptui_injected")
        package.__path__ = [WORKERS]
        sys.modules[package.__name__] = package
        from ddptui_injected.watch import entrances  # type: ignore[import-not-found]

        entrances.install(note_error)
    except Exception as error:
        note_error(error)


if WATCHED in os.environ:
    sys.meta_path.insert(0, AfterTorch())
    if sys.version_info >= OLDEST_PYTHON and not is_the_consoles_own():
        sys.meta_path.insert(0, ConsolesOwn())
import_the_environments_own()

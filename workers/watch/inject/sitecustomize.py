"""Python imports this file at the start of every process below `ddptui watch`: PYTHONPATH begins with this folder.

It makes `from ddptui import phase, step` work, and tells the console if the process fails (workers/watch/ending.py). It
does nothing else until the process imports torch, so that a process without torch (a shell script may start many) takes
only a millisecond longer. This file must run in the training's Python, 3.6 or newer.
"""

import atexit
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
EVENTS = "events"  # the file beside that one in which a process says why it fails
EXIT = sys.exit
KEPT: Any = []  # multiprocessing refers to it weakly


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


class AfterImport:
    """A module finder that finds no module itself, but has `enter` called once a module has been imported."""

    def __init__(self, module: str, enter: Any) -> None:
        self.module, self.enter = module, enter

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name != self.module:
            return None
        sys.meta_path.remove(self)
        try:
            spec = find_spec(name)
        finally:
            sys.meta_path.insert(0, self)  # the caller may only check whether the module exists
        if spec is not None and spec.loader is not None:
            import_module = spec.loader.exec_module

            def import_and_enter(module: Any) -> None:
                sys.meta_path.remove(self)
                import_module(module)
                self.enter(module)

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
        process_end()
        from ddptui_injected.watch import patches  # type: ignore[import-not-found]

        patches.install(note_error)
    except Exception as error:
        note_error(error)


def process_end() -> Any:
    """Import what knows how this process ends. Only now: most processes succeed, and import no torch."""
    if "ddptui_injected" not in sys.modules:  # a name of our own: the training may have a package named `workers`
        package = type(sys)("ddptui_injected")
        package.__path__ = [WORKERS]
        sys.modules[package.__name__] = package
    from ddptui_injected.watch.ending import END  # type: ignore[import-not-found]

    END.events = EVENTS_FILE
    return END


def report_end() -> Any:
    """Tell the console if this process fails. Called at the process's end."""
    is_failing = (sys.exc_info()[1] or getattr(sys, "last_value", None)) is not None
    if not (is_failing or "ddptui_injected.watch.ending" in sys.modules):
        return None
    for _ in range(2):  # a signal handler of the training may raise meanwhile: nothing can catch that any more
        try:
            return process_end().report()
        except Exception:  # or the console is gone, or the disk is full: that must not disturb the training
            continue


def end_by_exit(*code: Any) -> None:
    """Do what sys.exit does, and note why, if this is a failure."""
    unwinding = note_exit(code[0] if code else None)  # noqa: F841  must live as long as the frame
    EXIT(*code)


def note_exit(code: Any) -> Any:
    """Note that sys.exit was called. Returns what the caller's frame must hold."""
    if code is None or (isinstance(code, int) and code == 0):
        return None
    try:
        return process_end().exits(code, sys._getframe(2))
    except Exception as error:  # the process ends, whether or not the console learns why
        from ddptui_injected.instruments.shield import is_from_a_handler  # type: ignore[import-not-found]

        if is_from_a_handler(error):
            raise
        return None


def wrap_exit() -> None:
    """Have `end_by_exit` called for sys.exit."""
    wrapped: Any = end_by_exit
    for attribute in ("__name__", "__qualname__", "__module__", "__doc__"):
        setattr(wrapped, attribute, getattr(EXIT, attribute))
    sys.exit = wrapped


def enter_multiprocessing(util: Any) -> None:
    """Have `report_end` called where a process of multiprocessing ends. It reports an exception of its own there, and
    then exits with a code."""

    def register(_: Any) -> None:
        util.Finalize(None, report_end, exitpriority=0)

    register(None)
    util.register_after_fork(register, register)  # a forked process drops what its parent has registered
    KEPT.append(register)


if WATCHED in os.environ:
    sys.meta_path.insert(0, AfterImport("torch", enter))
    if sys.version_info >= OLDEST_PYTHON and not is_the_consoles_own():
        sys.meta_path.insert(0, ConsolesOwn())
        EVENTS_FILE = os.path.join(os.path.dirname(os.environ[WATCHED]), EVENTS)
        wrap_exit()
        atexit.register(report_end)
        sys.meta_path.insert(0, AfterImport("multiprocessing.util", enter_multiprocessing))
import_the_environments_own()

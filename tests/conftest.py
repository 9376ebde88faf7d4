"""What every test is held to: it leaves no process, thread, environment variable or language behind."""

import gc
import os
import signal
import threading
from collections.abc import Iterator

import psutil
import pytest
from hypothesis import settings

from ddptui.engines.local.warm import WarmParent
from ddptui.host.machine import is_dumb
from ddptui.text import words
from tests.support.descendants import descendants

GRACE_S = 10  # for processes that are on their way out
GARBAGE = 20_000  # objects; Python's own 700 suits a process with fewer objects than torch and Textual make
PYTHONS_OWN = ("multiprocessing.resource_tracker", "multiprocessing.forkserver")  # in their command lines
TORCHS_OWN = ("torch/_inductor/compile_worker",)  # in torch 2.8, which keeps them as long as the process lives

# Two threads of torch spin for each other: a step takes ten times as long where other tests want the cores as well.
os.environ.setdefault("OMP_NUM_THREADS", "1")

os.environ.setdefault("TEXTUAL_FPS", "60")  # Textual's own; else the console would set it in the midst of a test

if is_dumb():  # as in an editor's shell: the terminals that tests open are others
    os.environ["TERM"] = "xterm"

# A suite in the background, or under nohup, ignores these, and so would every console that a test signals.
for number in (signal.SIGINT, signal.SIGHUP):
    if signal.getsignal(number) == signal.SIG_IGN:
        signal.signal(number, signal.SIG_DFL)

# Property tests are held to what is true, not to how fast a busy machine finds it.
settings.register_profile("patient", deadline=None)
settings.load_profile("patient")

gc.disable()  # until all tests are collected: imports make millions of objects, and hardly any garbage

# These come first, and real runs before all else, or the other workers of pytest wait for them at the end.
LONG = ("test_wheel", "test_deaths", "test_big_batch", "test_modes", "test_lab_screen", "test_doctor_for_real")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the long files first."""
    items.sort(key=_when)


def _when(item: pytest.Item) -> tuple[int, bool]:
    name = item.path.stem
    return LONG.index(name) if name in LONG else len(LONG), "real" not in item.path.parts


def pytest_collection_finish() -> None:
    """Look for garbage less often, and not among what was imported: that took a fifth of a screen's test."""
    gc.freeze()
    gc.set_threshold(GARBAGE)
    gc.enable()


@pytest.fixture
def signals_given_back() -> Iterator[None]:
    """The signals that a command takes over, when it runs in this process, get their handlers back."""
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    yield
    for number, handler in handlers.items():
        signal.signal(number, handler)


@pytest.fixture
def in_chinese() -> Iterator[None]:
    """Titles, questions and findings are in Chinese; a command of the test may choose that as well."""
    words.choose_language("zh")
    yield
    words.choose_language("en")


_shared: set[int] = set()


@pytest.fixture(scope="session")
def shared() -> set[int]:
    """The ids of processes that serve more than one test: those who start one put it in."""
    return _shared


@pytest.fixture(scope="session")
def warm(shared: set[int]) -> Iterator[WarmParent]:
    """One for all tests that launch ranks from this process."""
    before = set(descendants())
    parent = WarmParent()
    while not parent.is_ready(1):
        pass
    assert parent.problem is None
    shared.update(process.pid for process in set(descendants()) - before)
    yield parent
    parent.close()


@pytest.fixture(autouse=True)
def leaves_nothing_behind() -> Iterator[None]:
    environment = dict(os.environ)
    threads = set(threading.enumerate())
    yield
    left = words.chosen()
    words.choose_language("en")  # else each later test would fail, too
    assert left == "en", f"the language stayed {left}"
    changed = {key for key in {*environment, *os.environ} if environment.get(key) != os.environ.get(key)}
    changed -= {"PYTEST_CURRENT_TEST", "TORCHINDUCTOR_CACHE_DIR"}  # torch sets the latter with its first optimizer
    assert not changed, f"environment variables leaked: {changed}"
    for thread in set(threading.enumerate()) - threads:
        thread.join(GRACE_S)
        assert not thread.is_alive(), f"a thread leaked: {thread.name}"
    left = [process for process in descendants() if not _is_shared(process)]
    _, alive = psutil.wait_procs(left, timeout=GRACE_S)
    assert not alive, f"processes leaked: {alive}"


def _is_shared(process: psutil.Process) -> bool:
    """Whether it serves more than one test: multiprocessing's and torch's own helpers, too."""
    try:
        return process.pid in _shared or any(name in " ".join(process.cmdline()) for name in PYTHONS_OWN + TORCHS_OWN)
    except psutil.NoSuchProcess:
        return True

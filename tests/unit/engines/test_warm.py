"""The warm parent: a forked launcher is like a fresh one; and without it there are reasons, and cold launches."""

import errno
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psutil
import pytest

from ddptui.engines.base import LAUNCHER_LOG
from ddptui.engines.local.engine import LocalLaunch
from ddptui.engines.local.warm import CannotFork, WarmParent, is_readable
from ddptui.host import keeper
from ddptui.wire.helper_messages import MOST_WARM_BYTES
from tests.support.runner import ENOUGH_S
from tests.unit.engines.conftest import launched, ready

# What a process is: all that a fork could inherit, and a fresh process would not have.
PORTRAIT = """
import atexit, ctypes, json, os, random, resource, signal, sys, tempfile, threading
death = ctypes.c_int()
ctypes.CDLL(None).prctl(2, ctypes.byref(death))  # PR_GET_PDEATHSIG
def target(descriptor):
    try:
        return os.readlink(f"/proc/self/fd/{descriptor}")
    except OSError:
        return None
portrait = {
    "signals": {number: str(signal.getsignal(number)) for number in signal.valid_signals()},
    "blocked": sorted(signal.pthread_sigmask(signal.SIG_BLOCK, [])),
    "woken by": signal.set_wakeup_fd(-1),
    "dies with its parent": death.value,
    "session": os.getsid(0) == os.getpid(),
    "group": os.getpgid(0) == os.getppid(),
    "folder": os.getcwd(),
    "modules first": sys.path[0],
    "variables": {name: value for name, value in os.environ.items() if "PYTEST" not in name},
    "temporary files": tempfile.gettempdir(),
    "files": {number: target(number) for number in range(64) if target(number) and "/proc/" not in target(number)},
    "nice": os.nice(0),
    "policy": os.sched_getscheduler(0),
    "threads": len(os.listdir("/proc/self/task")),
    "umask": os.umask(0),
    "limits": [resource.getrlimit(kind) for kind in (resource.RLIMIT_CORE, resource.RLIMIT_NOFILE)],
    "chance": random.random(),
}
atexit.register(lambda: json.dump(portrait, open("portrait.json", "w")))
"""


@pytest.fixture
def few_files(warm: WarmParent) -> Iterator[None]:
    """A limit that the warm parent of the session has not: consoles change theirs, too."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft - 1, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def ended(launch: LocalLaunch, folder: Path) -> tuple[int, str]:
    """Its exit code, and its log."""
    code = launch._process.wait(ENOUGH_S)
    launch.stop()
    return code, (folder / LAUNCHER_LOG).read_text()


def test_a_forked_launcher_is_like_a_fresh_one(warm: WarmParent, tmp_path: Path, few_files: None) -> None:
    def portrait(parent: WarmParent | None) -> dict[str, Any]:
        code, log = ended(launched(PORTRAIT, tmp_path, parent, TMPDIR=str(tmp_path), WHO="me"), tmp_path)
        assert code == 0, log
        found: dict[str, Any] = json.loads((tmp_path / "portrait.json").read_text())
        return found

    fresh, forked = portrait(None), portrait(warm)
    assert forked.pop("chance") != portrait(warm).pop("chance") != fresh.pop("chance")
    assert forked == fresh


HANDLERS = """
import signal
from workers.rank import forked
signal.signal(signal.SIGQUIT, signal.SIG_IGN)  # as a shell has it for what it starts in the background
signal.signal(signal.SIGTERM, print)
forked.reset_signals()
print(signal.getsignal(signal.SIGQUIT).name, signal.getsignal(signal.SIGTERM).name)
"""
WAITED_FOR = "import threading, time; threading.Thread(target=lambda: (time.sleep(0.1), print('late'))).start()"
POOL = "from concurrent.futures import *; import sys; sys.p = ThreadPoolExecutor(); sys.p.submit(print, 'done')"


@pytest.mark.parametrize(
    ("script", "log"),
    [(HANDLERS, "SIG_IGN SIG_DFL\n"), (WAITED_FOR, "late\n"), (POOL, "done\n")],
    ids=["handlers", "thread", "pool"],
)
def test_a_fork_keeps_no_handler_and_waits_for_a_thread_but_for_no_pool(
    script: str, log: str, tmp_path: Path, warm: WarmParent
) -> None:
    assert ended(launched(script, tmp_path, warm), tmp_path) == (0, log)


def test_what_it_raises_and_exits_with_is_in_its_log_as_of_a_fresh_one(tmp_path: Path, warm: WarmParent) -> None:
    for script in ("raise ValueError('x')", "import sys; sys.exit('so')", "import sys; sys.exit(3)", "print('out')"):
        ends = []
        for parent in (None, warm):
            code, log = ended(launched(script, tmp_path, parent), tmp_path)
            ends.append((code, log.splitlines()[-1:]))
        assert ends[0] == ends[1]


# Without it


def refusal(parent: WarmParent, folder: Path, **variables: str) -> str:
    """Why it does not fork."""
    with (folder / "log").open("wb") as log, pytest.raises(CannotFork) as refused:
        parent.fork("tests.support.script", "main", [""], variables, folder, folder / "own", log)
    return str(refused.value)


THREAD = "import threading, time; threading.Thread(target=time.sleep, args=(600,), daemon=True).start()"


@pytest.mark.parametrize(
    ("torch", "problem"),
    [
        ("raise ImportError('no')", "the process that forks the ranks ended with exit code 1: ImportError: no"),
        (THREAD, "importing torch starts threads here, and a fork copies only one"),
    ],
)
def test_a_torch_that_cannot_be_forked_is_said(torch: str, problem: str, own: WarmParent, tmp_path: Path) -> None:
    (tmp_path / "torch" / "__init__.py").write_text(torch)
    assert ready(own).problem == problem


def test_one_whose_files_have_changed_is_replaced_and_one_killed_is_missed(own: WarmParent, tmp_path: Path) -> None:
    first = ready(own)._imported
    own._files[Path(keeper.__file__)] = 1
    second = ready(own)._imported
    assert second.pid != first.pid
    assert not psutil.pid_exists(first.pid)

    psutil.Process(second.pid).kill()
    own._keeper.wait(ENOUGH_S)
    assert ready(own).problem == "the process that forks the ranks was killed by SIGKILL"
    own._files[Path(keeper.__file__)] = 1  # what was wrong may be mended
    assert ready(own).problem is None


def test_one_that_ends_before_it_was_looked_at_is_missed(own: WarmParent, tmp_path: Path) -> None:
    own.start()
    assert is_readable(own._socket, ENOUGH_S)
    [parent] = psutil.Process(own._keeper.pid).children()
    parent.kill()
    own._keeper.wait(ENOUGH_S)
    ready(own)  # its message is there
    assert refusal(own, tmp_path) == "the process that forks the ranks was killed by SIGKILL"
    assert own.problem is not None


def test_it_forks_nothing_before_it_is_ready_and_nothing_it_cannot_be_told(own: WarmParent, tmp_path: Path) -> None:
    own.start()
    assert refusal(own, tmp_path) == "the process that forks the ranks is not ready"
    ready(own)
    assert refusal(own, tmp_path, A="\udcff") == "a path or a variable is not UTF-8"
    assert refusal(own, tmp_path, A="a" * MOST_WARM_BYTES) == (
        "the trial is too long to be sent to the process that forks the ranks"
    )
    assert own.problem is None
    os.kill(own._imported.pid, signal.SIGSTOP)  # one that does not answer is given up
    assert refusal(own, tmp_path) == own.problem == "the process that forks the ranks does not answer"


def test_it_forks_one_launch_at_a_time_and_without_one_there_is_nothing_to_end(own: WarmParent, tmp_path: Path) -> None:
    ready(own).end_launch()
    first = launched("import time; time.sleep(600)", tmp_path, own)
    assert refusal(own, tmp_path) == "another launch is running"
    first.stop()
    assert first.exit_code == -signal.SIGTERM
    assert ended(launched("print('second')", tmp_path, own), tmp_path) == (0, "second\n")
    killed = launched("import os; os.killpg(0, 9)", tmp_path, own)  # a launch may signal its own group
    assert ended(killed, tmp_path)[0] == -signal.SIGKILL
    assert not own.notices_its_end()
    launched("", tmp_path, own)
    assert is_readable(own._socket, ENOUGH_S)  # the launch has ended
    own._socket.close()  # by a console that has not read all
    assert own._keeper.wait(ENOUGH_S) == 0


def test_a_console_may_have_many_files_open(own: WarmParent, tmp_path: Path) -> None:
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (2048, limits[1]))
    try:
        with ExitStack() as files:
            for _ in range(1024):
                files.enter_context(open(os.devnull))
            ready(own)
        assert ended(launched("print('here')", tmp_path, own), tmp_path) == (0, "here\n")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def test_one_that_cannot_be_started_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "no-such-python"))
    before = os.listdir("/proc/self/fd")
    parent = WarmParent()
    assert parent.is_ready(0)
    assert parent.problem == os.strerror(errno.ENOENT)
    assert os.listdir("/proc/self/fd") == before
    assert not list(tmp_path.iterdir())
    parent.close()


STOPPED_AS_IT_IS_FORKED = """
import os
import resource
import signal

from ddptui.host import keeper
from ddptui.wire import helper_messages as wire
from workers import warm

keeper.listen()
keeper.die_with = lambda parent: os.kill(os.getpid(), signal.SIGTERM)  # the first thing that a fork does
files = resource.getrlimit(resource.RLIMIT_NOFILE)
request = wire.Fork(
    module="os", function="getpid", arguments=(), environment={}, folder="/", launch_folder="/", open_files=files
)
print(os.waitstatus_to_exitcode(os.waitpid(warm.fork_launcher(request, 2), 0)[1]))
"""


def test_a_signal_that_comes_as_a_launcher_is_forked_waits_until_it_has_let_go_of_the_parents_handlers() -> None:
    """In these it would be lost, and the launch be killed seconds later."""
    done = subprocess.run([sys.executable, "-c", STOPPED_AS_IT_IS_FORKED], capture_output=True, text=True, check=True)
    assert int(done.stdout) == -signal.SIGTERM

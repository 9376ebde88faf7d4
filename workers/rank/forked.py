"""Makes forked processes behave like new ones: they inherit imported modules, and nothing else."""

import atexit
import logging
import multiprocessing.util
import os
import signal
import sys
import tempfile
import threading
import traceback
import weakref
from collections.abc import Callable
from typing import Any, NoReturn

from ddptui.host.keeper import LISTENED


def run(main: Callable[[], None]) -> NoReturn:
    """Run `main` in this process, which was just forked, and end it with the exit code that Python would use."""
    code = 1
    try:
        forget()
        main()
        code = 0
    except SystemExit as exited:
        code = exit_code(exited)
    except BaseException:
        traceback.print_exc()
    finally:
        end(code)  # whatever happens: the parent's code must not continue in this process


def forget() -> None:
    """Drop what a fork inherits but a new process lacks: signal handlers and exit functions. (Python itself reseeds its
    random generator in a fork.)"""
    reset_signals()
    atexit._clear()
    finalize: Any = weakref.finalize
    for finalizer in list(finalize._registry):  # torch tears down its operators with them
        finalizer.atexit = False
    processes: Any = multiprocessing.util
    for at_exit in (logging.shutdown, finalize._exitfunc, processes._exit_function):
        atexit.register(at_exit)  # as these modules did when they were imported
    tempfile.tempdir = None  # TMPDIR may have changed


def reset_signals() -> None:
    """Reset signals as in a new process, which has no handlers, but ignores the signals that its parent ignored."""
    signal.set_wakeup_fd(-1)
    for number in (*LISTENED, signal.SIGQUIT):
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)


def call_at_exit_functions() -> None:
    """Have the functions of `atexit` called when this process ends, even if multiprocessing has forked it, which would
    skip them."""
    if multiprocessing.parent_process() is not None:
        multiprocessing.util.Finalize(None, atexit._run_exitfuncs, exitpriority=0)


def end(code: int) -> NoReturn:
    """End this process as Python does, but skip the teardown of imported modules, which takes 0.8 s."""
    try:
        shutdown: Any = threading
        shutdown._shutdown()  # joins threads, as Python does; those of a pool end only now
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)


def exit_code(exited: SystemExit) -> int:
    """The exit code of a SystemExit. Prints its message, if any, to stderr."""
    if exited.code is None or isinstance(exited.code, int):
        return exited.code or 0
    print(exited.code, file=sys.stderr)
    return 1

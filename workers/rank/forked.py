"""Forked processes that behave as if they had been started anew: they take over imported modules, and nothing else."""

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
    """Run `main` in this process, which was just forked, and end it, with the exit code that Python would give it."""
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
        end(code)  # whatever happens: what forked this process must not go on in it


def forget() -> None:
    """Drop what a fork inherits but a new process does not have: signal handlers, and what others want done at the
    end. (Python itself gives a fork new random numbers.)"""
    reset_signals()
    atexit._clear()
    finalize: Any = weakref.finalize
    for finalizer in list(finalize._registry):  # torch takes apart its operators with them
        finalizer.atexit = False
    processes: Any = multiprocessing.util
    for at_exit in (logging.shutdown, finalize._exitfunc, processes._exit_function):
        atexit.register(at_exit)  # as these modules did themselves when they were imported
    tempfile.tempdir = None  # TMPDIR may be another one


def reset_signals() -> None:
    """Have signals do what they do in a new process: it has no handlers, but ignores what its parent ignored."""
    signal.set_wakeup_fd(-1)
    for number in (*LISTENED, signal.SIGQUIT):
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)


def call_at_exit_functions() -> None:
    """Have the functions of `atexit` called when this process ends, also if multiprocessing has forked it, which would
    leave them out."""
    if multiprocessing.parent_process() is not None:
        multiprocessing.util.Finalize(None, atexit._run_exitfuncs, exitpriority=0)


def end(code: int) -> NoReturn:
    """End this process as Python does, but without taking apart what was imported, which takes 0.8 s."""
    try:
        shutdown: Any = threading
        shutdown._shutdown()  # waits for threads, as Python does; those of a pool end only with it
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)


def exit_code(exited: SystemExit) -> int:
    """The exit code of sys.exit; a message goes to stderr."""
    if exited.code is None or isinstance(exited.code, int):
        return exited.code or 0
    print(exited.code, file=sys.stderr)
    return 1

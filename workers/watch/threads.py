"""Threads of ddptui's in a training's process, hidden from `threading`. Otherwise a training that joins all threads
would wait forever, and its trace and profile functions would run in ddptui's threads.
"""

from _thread import start_new_thread
from collections.abc import Callable
from threading import Event, get_ident, get_native_id


class OwnThread:
    """A thread that does one thing. Like a daemon, it keeps no process alive."""

    def __init__(self, work: Callable[[], object]) -> None:
        self._work = work
        self._over = Event()
        self._over.set()
        self._ident = 0  # that of no thread
        self.native_id = 0  # by which the system knows it; 0: it has not begun

    def start(self) -> None:
        """Begin. Raises RuntimeError if no thread is to be had."""
        self._over.clear()
        start_new_thread(self._run, ())

    def _run(self) -> None:
        self._ident, self.native_id = get_ident(), get_native_id()
        try:
            self._work()
        finally:
            self._over.set()

    def has_ended_within(self, seconds: float) -> bool:
        """Wait so long for its end, unless this is the thread itself. Returns whether it has ended, or never begun."""
        return self._over.wait(0 if self._ident == get_ident() else seconds)

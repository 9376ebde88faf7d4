"""ddptui's own threads in a training's process, hidden from `threading`. Otherwise a training that joins all threads
would wait forever, and its trace and profile functions would run in our threads.
"""

from _thread import start_new_thread
from collections.abc import Callable
from threading import Event, get_ident, get_native_id


class OwnThread:
    """A thread that runs one function. Like a daemon thread, it does not keep the process alive."""

    def __init__(self, work: Callable[[], object]) -> None:
        self._work = work
        self._over = Event()
        self._over.set()
        self._ident = 0  # no thread has this number
        self.native_id = 0  # the operating system's number of the thread; 0 before it has begun

    def start(self) -> None:
        """Start the thread. Raises RuntimeError if no thread can be started."""
        self._over.clear()
        start_new_thread(self._run, ())

    def _run(self) -> None:
        self._ident, self.native_id = get_ident(), get_native_id()
        try:
            self._work()
        finally:
            self._over.set()

    def has_ended_within(self, seconds: float) -> bool:
        """Wait up to `seconds` for the thread's end, unless called in it. Returns whether it has ended or not begun."""
        return self._over.wait(0 if self._ident == get_ident() else seconds)

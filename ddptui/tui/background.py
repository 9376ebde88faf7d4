"""Calls in threads that the console does not wait for, neither to draw nor to quit."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

Answer = TypeVar("Answer")


def in_background(call: Callable[[], Answer]) -> asyncio.Future[Answer]:
    """Run a call in a daemon thread. Return its result as a future; to cancel that discards the result."""
    answer: Future[Answer] = Future()
    answer.set_running_or_notify_cancel()  # so that the thread may set an answer that is no longer wanted

    def run() -> None:
        try:
            answer.set_result(call())
        except Exception as error:
            answer.set_exception(error)

    # A pool's thread would be joined when the console closes: a disk or a check that hangs would hold it open.
    threading.Thread(target=run, name="background", daemon=True).start()
    return asyncio.wrap_future(answer)

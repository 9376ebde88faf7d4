"""Runs calls in threads. The console waits for them neither to draw nor to quit."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

Answer = TypeVar("Answer")


def in_background(call: Callable[[], Answer]) -> asyncio.Future[Answer]:
    """Run a call in a daemon thread. Return its result as a future; canceling the future discards the result."""
    answer: Future[Answer] = Future()
    answer.set_running_or_notify_cancel()  # so that the thread may set a result even after a cancel

    def run() -> None:
        try:
            answer.set_result(call())
        except Exception as error:
            answer.set_exception(error)

    # Not a pool: its threads are joined when the console closes, so a hanging disk or check would keep it open.
    threading.Thread(target=run, name="background", daemon=True).start()
    return asyncio.wrap_future(answer)

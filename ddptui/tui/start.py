"""From the command line to the console, and from its end back to the shell."""

import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from ddptui.config.preset import Preset
from ddptui.run.output import show
from ddptui.store.runs import Run
from ddptui.tui.app import Console
from ddptui.tui.settings import first_theme

NICENESS = 10
DRAWN_A_SECOND = 4.0
OVER_SSH = 2.0  # where every picture travels


def start(
    runs: Path,
    preset: Preset | None,
    begun: tuple[Run, Preset] | None = None,
    *,
    drawn_a_second: float | None,
    theme: str | None,
) -> int:
    """Run the console; when it ends no rank is left. Prints the tables of what was run. Returns the exit code."""
    threads = ThreadPoolExecutor(1, "lab")
    threads.submit(os.getpid).result()  # the thread is born, and so are its children, before this one becomes nice
    be_nice()
    rate = drawn_a_second or (OVER_SSH if "SSH_CONNECTION" in os.environ else DRAWN_A_SECOND)
    app = Console(runs, preset, begun, threads=threads, refresh_s=1 / rate)
    app.theme = first_theme(theme, app.available_themes)
    try:
        app.run()
    finally:
        if app.session is not None:
            app.session.close()
            app.finished.append((app.session.results, app.session.preset))
        threads.shutdown()
    from ddptui.run import headless  # now: it would have kept the first picture waiting

    for results, shown in app.finished:
        show(headless.as_table(results, shown))
    worst = max((headless.EXIT_CODES[results.status] for results, _ in app.finished), default=0)
    return app.return_code or worst


def be_nice() -> None:
    """The thread that draws gives way to the ranks. Only Linux can be asked this for a single thread."""
    if sys.platform == "linux":
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICENESS)

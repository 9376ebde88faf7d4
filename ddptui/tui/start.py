"""Starts the console for the command line, and prints the last results after it closes."""

import gc
import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from ddptui.config.preset import Preset
from ddptui.config.settings import Settings
from ddptui.engines.local.warm import WarmParent
from ddptui.store import settings as settings_file
from ddptui.tui.app import Console
from ddptui.wire.records import Notice

if TYPE_CHECKING:
    from ddptui.engines.local.command import WatchMode
    from ddptui.run.prepare import Calm, Resumption

NICENESS = 10  # so that the ranks, at 0, get the cores first
# gc's thresholds: number of new objects before a collection (about 10 ms); number of collections after which it
# includes the survivors; and number of those after which it includes all objects.
THRESHOLDS = 50_000, 1, 1_000


def start(
    runs: Path,
    preset: Preset | None,
    begun: "Resumption | None" = None,
    *,
    settings: Settings,
    refreshes_per_s: float | None = None,
    theme: str | None = None,
    terms: "WatchMode | None" = None,
    calm: "Calm | None" = None,
) -> int:
    """Run the console, then print the table of the last run, and where all runs are kept. Return the exit code. All
    ranks have ended when it returns."""
    threads = ThreadPoolExecutor(1, "lab")
    threads.submit(os.getpid).result()  # start the thread now, so that it and its children do not inherit our niceness
    give_way()
    rate, _ = settings_file.refreshes_per_s(settings, refreshes_per_s)
    warm = WarmParent()
    app = Console(
        runs, preset, begun, threads=threads, warm=warm, terms=terms, calm=calm, refresh_s=1 / rate, settings=settings
    )
    app.watch_load = True
    app.theme = settings_file.theme(settings, theme).value
    unread: list[str] = []
    try:
        app.run()
    finally:
        if app.session is not None:
            app.session.close()
            # The screen is gone: print the remaining notices, e.g. that a job was left behind.
            unread = [message.text for message in app.session.drain() if isinstance(message, Notice)]
            app.run_ended(app.session)
        threads.shutdown()  # waits for the session's thread, which ends the ranks
        warm.close()
    # Imported late, so that the first screen appears sooner.
    from ddptui.engines.local.training import training_that_runs
    from ddptui.run.headless import EXIT_CODES
    from ddptui.run.listing import as_table, show_result, wrapped

    launch = terms.launch if terms is not None and terms.saw_nothing else None
    if launch is not None and (unseen := app.finished.pop(launch.folder.parents[1], None)):
        unseen.run.remove()
        show_result(wrapped(f"{unseen.results.trials[0].error or ''}; the run is not kept\n"))
    if ended := [*reversed(app.finished.values())]:
        run, last, results = ended[0]
        about = [f"{each.results.status}, kept in {each.run.folder}" for each in ended if each.run.folder.is_dir()]
        if terms is not None and training_that_runs(run, last):
            about.append(f"the training goes on: `ddptui attach {run.name}` watches it again")
        show_result(as_table(results, last, settings.columns) + wrapped("\n".join(["", *about, ""])))
    for text in unread:
        print(text, file=sys.stderr)
    return app.return_code or max((EXIT_CODES[each.results.status] for each in ended), default=0)


def give_way() -> None:
    """Leave the cores to the ranks: lower the priority of this thread, which draws, and rarely collect garbage.

    By default, Python collects after 700 new objects, and each redraw makes thousands. It also includes the survivors
    of eleven collections at once, which here are the last steps of all ranks: keys waited for 90 ms, twice a minute.
    """
    if sys.platform == "linux":  # only there a thread has a priority of its own
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICENESS)
    gc.freeze()  # everything imported so far is never collected
    gc.set_threshold(*THRESHOLDS)

"""Starts the console for the command line, and prints the last results after it closes."""

import gc
import os
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from ddptui.config.preset import Preset
from ddptui.config.settings import Settings
from ddptui.engines.local.warm import WarmParent
from ddptui.store import settings as settings_file
from ddptui.store.runs import Run
from ddptui.tui.app import Console
from ddptui.tui.screens.base import EndedRun
from ddptui.wire.records import Notice

if TYPE_CHECKING:
    from ddptui.engines.local.foreign import Terms
    from ddptui.run.quiet import Calm
    from ddptui.run.resume import Resumption

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
    terms: "Terms | None" = None,
    calm: "Calm | None" = None,
) -> int:
    """Run the console, then print the table of the last run, and where all runs are kept. Return the exit code. All
    ranks have ended when it returns."""
    threads = ThreadPoolExecutor(1, "lab")
    threads.submit(os.getpid).result()  # start the thread now, so that it and its children do not inherit our niceness
    be_nice()
    collect_seldom()
    rate, _ = settings_file.refreshes_per_s(settings, refreshes_per_s)
    warm = WarmParent(nice=NICENESS)
    app = Console(
        runs,
        preset,
        begun,
        threads=threads,
        warm=warm,
        watch_load=True,
        terms=terms,
        calm=calm,
        refresh_s=1 / rate,
        settings=settings,
    )
    app.theme = settings_file.theme(settings, theme).value
    unread: list[str] = []
    try:
        app.run()
    finally:
        if app.session is not None:
            app.session.close()
            # The screen is gone: print the remaining notices, e.g. that a job was left behind.
            unread = [message.text for message in app.session.drain() if isinstance(message, Notice)]
            app.finished.append(EndedRun(app.session.run, app.session.preset, app.session.results))
        threads.shutdown()  # waits for the session's thread, which ends the ranks
        warm.close()
    from ddptui.run.headless import EXIT_CODES  # imported late, so that the first screen appears sooner
    from ddptui.run.output import as_table, show, wrapped

    ended = each_once(app.finished)
    if (unseen := run_without_ranks(ended, terms)) is not None:
        unseen.run.remove()
        ended.remove(unseen)
        show(wrapped(f"{unseen.results.trials[0].error or ''}; the run is not kept\n"))
    if ended:
        about = ["", *places(ended), *left_running(ended[0].run, terms), ""]
        show(as_table(ended[0].results, ended[0].preset, settings.columns) + wrapped("\n".join(about)))
    for text in unread:
        print(text, file=sys.stderr)
    worst = max((EXIT_CODES[run.results.status] for run in ended), default=0)
    return app.return_code or worst


def each_once(finished: Sequence[EndedRun]) -> list[EndedRun]:
    """The runs of a session, last first. A run that was resumed appears once, as it ended last."""
    last: dict[Path, EndedRun] = {}
    for ended in reversed(finished):
        last.setdefault(ended.run.folder, ended)
    return [*last.values()]


def places(ended: Sequence[EndedRun]) -> list[str]:
    """A line for each run: its folder, whether it is still there, and (except for the last run) how it ended."""
    lines = []
    for number, (run, _, results) in enumerate(ended):
        kept = "kept in" if run.folder.is_dir() else "no longer in"
        lines.append(f"{kept} {run.folder}" if number == 0 else f"{results.status}, {kept} {run.folder}")
    return lines


def run_without_ranks(ended: Sequence[EndedRun], terms: "Terms | None") -> EndedRun | None:
    """The run of a watched command that succeeded without training anything; otherwise None."""
    if terms is None or terms.launch is None or not terms.saw_nothing:
        return None
    return next((each for each in ended if each.run.folder in terms.launch.folder.parents), None)


def left_running(run: Run, terms: "Terms | None") -> list[str]:
    """A line about the watched training, if it is still running; otherwise empty."""
    from ddptui.engines.local.training import NotRunning, training_of

    if terms is None:
        return []
    try:
        training_of(run)
    except NotRunning:
        return []
    return [f"the training goes on: `ddptui attach {run.name}` watches it again"]


def collect_seldom() -> None:
    """Make Python collect garbage rarely, and ignore everything imported so far.

    By default, Python collects after 700 new objects, and each redraw makes thousands. It also includes the survivors
    of eleven collections at once, which here are the last steps of all ranks: keys waited for 90 ms, twice a minute.
    """
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)


def be_nice() -> None:
    """Lower the priority of this thread, which draws, below that of the ranks. Only Linux can do this per thread."""
    if sys.platform == "linux":
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICENESS)

"""A run is written to a file that somebody names."""

import asyncio
import os
from typing import TYPE_CHECKING

from ddptui.analysis.results import Results
from ddptui.config.preset import Preset
from ddptui.store.runs import Run
from ddptui.tui import exports
from ddptui.tui.screens.confirm import Confirm
from ddptui.tui.screens.export import ExportDialog

if TYPE_CHECKING:
    from ddptui.tui.app import Console


async def export(app: "Console", run: Run, preset: Preset, results: Results, form: str = "markdown") -> None:
    """Ask for format and path, and again before anything is replaced. Written in a thread: a trace of a long run takes
    its time."""
    wanted = await app.push_screen_wait(ExportDialog(run, form))
    if wanted is None:
        return
    replace = os.path.exists(wanted.path)
    question = f"{wanted.path} is there. Replace it?"
    if replace and not await app.push_screen_wait(Confirm(question, yes="Replace")):
        return
    what = run, preset, results, wanted.form, wanted.path
    try:
        await asyncio.to_thread(exports.write, *what, replace=replace)
    except (OSError, ValueError) as error:
        app.complain("Not exported", exports.why(error))
    else:
        app.notify(str(wanted.path), title="Exported", markup=False)

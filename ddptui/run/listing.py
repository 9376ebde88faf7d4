"""Prints results and the lists of presets and runs. Imports no engine and nothing that judges:
lists appear at once.
"""

import os
import re
import shutil
import sys
from collections.abc import Sequence

from ddptui.analysis.results import Results
from ddptui.config.preset import Preset
from ddptui.host.machine import is_dumb
from ddptui.host.source import source_line
from ddptui.report import table
from ddptui.report.exports import json_text
from ddptui.store.overview import overview, record
from ddptui.store.presets import all_presets, describe_size
from ddptui.store.runs import Run
from ddptui.store.trash import Deleted
from ddptui.text.drawing import cell_len, ljust, paragraph
from ddptui.text.sanitize import FIRST_STYLE, LAST_STYLE
from ddptui.text.words import printable

PIPED_WIDTH = 80  # columns if stdout is not a terminal
STYLE = re.compile(f"[{chr(FIRST_STYLE)}-{chr(LAST_STYLE)}]")  # marks of styles, which take no column


def show_result(text: str) -> None:
    """Print results on stdout. Does nothing if the reader of a pipe has exited (`| head`)."""
    try:
        print(text, end="", flush=True)
    except OSError:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115  (otherwise Python reports the error again at exit)


def as_table(results: Results, preset: Preset, pinned: Sequence[str], answers: Sequence[str] = ()) -> str:
    """The results as a table for stdout, as wide as the terminal, in color if it shows color. pinned, answers: see
    table.text."""
    color = _is_terminal() and not os.environ.get("NO_COLOR") and not is_dumb()  # no-color.org
    shown = table.text(results, preset, output_width(), color=color, pinned=pinned, source=source_line, answers=answers)
    return wrapped(shown)


def wrapped(text: str) -> str:
    """The text, wrapped between words to the width of the terminal. In a pipe, lines are not wrapped."""
    return "".join(f"{line}\n" for long in text.splitlines() for line in _wrapped(long)) if _is_terminal() else text


def _wrapped(line: str) -> list[str]:
    if cell_len(STYLE.sub("", line)) <= output_width():
        return [line]
    # do not break commands and paths, so that they can be copied
    return paragraph(line, output_width(), subsequent_indent="  ", break_long_words=False)


def _is_terminal() -> bool:
    return bool(sys.stdout) and sys.stdout.isatty()


def output_width() -> int:
    """The columns of the terminal; PIPED_WIDTH if stdout is not a terminal."""
    return shutil.get_terminal_size((PIPED_WIDTH, 24)).columns


def every_preset() -> str:
    """The list of presets: name, title and size of each, by shelf; then errors about presets that cannot be read."""
    shelves, broken = all_presets()
    width = max(cell_len(printable(preset.name)) for presets in shelves.values() for preset in presets)
    lines: list[str] = []
    for shelf, presets in shelves.items():
        lines += ["", shelf] if presets else []
        lines += [
            f"  {ljust(printable(each.name), width)}  {each.localized_title}  ({describe_size(each)})"
            for each in presets
        ]
    return "\n".join([*lines[1:], *(printable(preset.why) for preset in broken)]) + "\n"


def every_run(runs: Sequence[Run], *, as_json: bool = False) -> str:
    """The list of runs: name and status of each, with what is missing in it, or an error if it cannot be read."""
    if as_json:
        return json_text([record(run) for run in runs])
    lines = [overview(run) for run in runs]
    rows = [(line.run.name, line.why or f"{line.status}  {line.shortfall}".rstrip()) for line in lines]
    return _columns(rows, "no runs yet: start one with `ddptui run quickstart`")


def every_deleted(trash: Sequence[Deleted], *, as_json: bool = False) -> str:
    """The list of runs in the trash: name of each, and when it was deleted."""
    if as_json:
        deleted = [(each, each.when.isoformat(timespec="seconds")) for each in trash]
        return json_text(
            [{"name": each.run.name, "folder": str(each.run.folder), "deleted": when} for each, when in deleted]
        )
    return _columns([(each.run.name, f"deleted {each.when:%Y-%m-%d %H:%M}") for each in trash], "the trash is empty")


def _columns(rows: Sequence[tuple[str, str]], if_none: str) -> str:
    """One line per row: a name and a text, in two columns."""
    width = max((cell_len(printable(name)) for name, _ in rows), default=0)
    return "\n".join([f"{ljust(printable(name), width)}  {printable(text)}" for name, text in rows] or [if_none]) + "\n"

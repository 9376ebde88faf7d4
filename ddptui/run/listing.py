"""The lists of `ddptui presets` and `ddptui runs`. This module does not import engines, whose import would be slow."""

from collections.abc import Sequence

from ddptui.report.exports import json_text
from ddptui.store.overview import overview, record
from ddptui.store.presets import all_presets, describe_size
from ddptui.store.runs import Run
from ddptui.store.trash import Deleted
from ddptui.text.drawing import cell_len, ljust
from ddptui.text.words import printable


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

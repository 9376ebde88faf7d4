"""The lists of `ddptui presets` and `ddptui runs`. This module does not import engines, whose import would be slow."""

from collections.abc import Sequence

from ddptui.report.exports import json_text
from ddptui.store.overview import UNDER_WAY, overview, record
from ddptui.store.presets import all_presets, describe_size
from ddptui.store.runs import Run
from ddptui.store.trash import Deleted
from ddptui.text.words import printable


def every_preset() -> str:
    """The list of presets: name, title and size of each, by shelf; then errors about presets that cannot be read."""
    shelves, broken = all_presets()
    width = max(len(printable(preset.name)) for presets in shelves.values() for preset in presets)
    lines: list[str] = []
    for shelf, presets in shelves.items():
        lines += ["", shelf] if presets else []
        lines += [f"  {printable(each.name):{width}}  {each.title}  ({describe_size(each)})" for each in presets]
    return "\n".join([*lines[1:], *(printable(preset.why) for preset in broken)]) + "\n"


def every_run(runs: Sequence[Run]) -> str:
    """The list of runs: name and status of each, with what is missing in it, or an error if it cannot be read."""
    listed = _columns([(run.name, printable(_state(run))) for run in runs])
    return listed or "no runs yet: start one with `ddptui run quickstart`\n"


def _state(run: Run) -> str:
    line = overview(run)
    whole = line.why or "  ".join(filter(None, [line.status, line.shortfall]))
    return UNDER_WAY if line.status == UNDER_WAY else whole


def every_run_as_json(runs: Sequence[Run]) -> str:
    """The runs as a JSON list, newest first."""
    return json_text([record(run) for run in runs])


def every_deleted(trash: Sequence[Deleted]) -> str:
    """The list of runs in the trash: name of each, and when it was deleted."""
    listed = _columns([(each.run.name, f"deleted {each.when:%Y-%m-%d %H:%M}") for each in trash])
    return listed or "the trash is empty\n"


def every_deleted_as_json(trash: Sequence[Deleted]) -> str:
    """The runs in the trash as a JSON list, most recently deleted first."""
    deleted = [(each, each.when.isoformat(timespec="seconds")) for each in trash]
    return json_text(
        [{"name": each.run.name, "folder": str(each.run.folder), "deleted": when} for each, when in deleted]
    )


def _columns(runs: Sequence[tuple[str, str]]) -> str:
    """One line per run: its name and a text, in two columns."""
    width = max((len(printable(name)) for name, _ in runs), default=0)
    return "".join(f"{printable(name):{width}}  {said}\n" for name, said in runs)

"""The lists of `ddptui presets` and `ddptui runs`. They need no engine: importing those takes longer than all else."""

from collections.abc import Sequence
from itertools import groupby

from ddptui.store.overview import overview
from ddptui.store.presets import all_presets, describe_size
from ddptui.store.runs import Run
from ddptui.store.trash import Deleted


def every_preset() -> str:
    """Name, question and size of each preset, by group; then why others cannot be read."""
    presets, broken = all_presets()
    width = max((len(preset.name) for preset in presets), default=0)
    lines: list[str] = []
    for group, members in groupby(presets, key=lambda preset: preset.group):
        lines += ["", group]
        lines += [f"  {preset.name:{width}}  {preset.title}  ({describe_size(preset)})" for preset in members]
    return "\n".join([*lines[1:], *(preset.why for preset in broken)]) + "\n"


def every_run(runs: Sequence[Run]) -> str:
    """Name and status of each run; of one that cannot be read, why."""
    if not runs:
        return "no runs yet: `ddptui --preset quickstart --no-ui`\n"
    width = max(len(run.name) for run in runs)
    return "".join(f"{run.name:{width}}  {_status(run)}\n" for run in runs)


def _status(run: Run) -> str:
    """The status, and what is missing; or why it cannot be read."""
    line = overview(run)
    return line.why or "  ".join(filter(None, [line.status, line.shortfall]))


def every_deleted(trash: Sequence[Deleted]) -> str:
    """Name of each run in the trash, and when it was deleted."""
    if not trash:
        return "the trash is empty\n"
    width = max(len(each.run.name) for each in trash)
    return "".join(f"{each.run.name:{width}}  deleted {each.when:%Y-%m-%d %H:%M}\n" for each in trash)

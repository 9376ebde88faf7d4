"""The trash for deleted runs, from which they can be restored. Only `empty` deletes runs permanently.

The trash is a folder within the folder of runs, so it is on the same file system, and a run moves there in one rename.
Each deletion creates a folder in the trash for the runs deleted together, so that runs of the same name do not collide.
"""

import itertools
import os
import shutil
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from ddptui.store.runs import Run, RunError, all_runs

TRASH = ".ddptui-trash"  # not listed as a run, because it has no preset.toml
STAMP_FORMAT = "%Y%m%d-%H%M%S.%f"  # name of a deletion's folder: the time in UTC, so that names sort by time


class Deleted(NamedTuple):
    """A run in the trash."""

    run: Run
    when: datetime  # local time of the deletion


class Moved(NamedTuple):
    """The runs that were moved, and a line for each run that was not."""

    runs: list[Run]
    problems: list[str]


def deleted(runs: Path) -> list[Deleted]:
    """The runs in the trash, most recently deleted first. Raises OSError."""
    trash = runs / TRASH
    if not trash.is_dir():
        return []
    found = []
    for folder in sorted(trash.iterdir(), key=lambda path: path.name, reverse=True):
        with suppress(ValueError):  # not a name that ddptui gives
            when = datetime.strptime(folder.name, STAMP_FORMAT).replace(tzinfo=UTC).astimezone()
            found += [Deleted(run, when) for run in all_runs(folder)]
    return found


def discard(runs: Path, chosen: Sequence[Run]) -> Moved:
    """Move runs to the trash, as one deletion. Raises OSError."""
    listed = {run.name for run in all_runs(runs)}
    folder = runs / TRASH / datetime.now(UTC).strftime(STAMP_FORMAT)
    moved = Moved([], [])
    for run in chosen:
        # A symbolic link may lead out of the folder of runs.
        if run.name not in listed or run.folder.resolve() != runs.resolve() / run.name:
            moved.problems.append(f"{run.folder}: not deleted: it is not a run's folder in {runs}")
        elif run.is_held():
            moved.problems.append(f"{run.folder}: not deleted: a console is running it: stop it there first")
        else:
            _move(run, folder / run.name, moved, "not deleted")
    _remove_if_empty(folder)
    return moved


def restore(runs: Path, name: str | None = None) -> Moved:
    """Restore all runs of the last deletion, or the most recently deleted run of this name. Raises OSError."""
    in_trash = [each.run for each in deleted(runs)]
    if name is None:
        chosen = [run for run in in_trash if run.folder.parent == in_trash[0].folder.parent]
    else:
        chosen = [run for run in in_trash if run.name == name][:1]
    moved = Moved([], [])
    if not chosen:
        what = "nothing" if name is None else f"no run {name!r}"
        moved.problems.append(f"{what} in the trash of {runs}; `ddptui runs --trash` lists it")
    for run in chosen:
        names = itertools.chain([run.name], (f"{run.name}.{number}" for number in itertools.count(2)))
        free = next(name for name in names if not os.path.lexists(runs / name))  # the name may be taken by now
        _move(run, runs / free, moved, "not restored")
        _remove_if_empty(run.folder.parent)
    return moved


def empty(runs: Path) -> int:
    """Permanently delete all runs in the trash. Returns their number. Raises RunError."""
    trash = runs / TRASH
    try:
        number = len(deleted(runs))
        if trash.is_dir():
            shutil.rmtree(trash)
    except OSError as error:
        raise RunError(f"{trash}: not emptied completely: {error.strerror or error}") from None
    return number


def _move(run: Run, to: Path, moved: Moved, what: str) -> None:
    """Move a run, and add it to `moved`, or else the reason why it could not be moved. what: the failure in words."""
    try:
        to.parent.mkdir(parents=True, exist_ok=True)
        run.folder.rename(to)
    except OSError as error:
        moved.problems.append(f"{run.folder}: {what}: {error.strerror}")
    else:
        moved.runs.append(Run(to))


def _remove_if_empty(folder: Path) -> None:
    with suppress(OSError):
        folder.rmdir()

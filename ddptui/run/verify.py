"""`ddptui verify`: compares copies of a model bit by bit, from checkpoints or from the hashes in a run's journals."""

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from ddptui.analysis.correctness import differing_names
from ddptui.config.launch_modes import ONE_PROCESS
from ddptui.config.trial import Trial
from ddptui.host.rank_side import Child, NoAnswer
from ddptui.store.runs import Run, RunError
from ddptui.text.words import count
from ddptui.wire.messages import Done

EQUAL, DIFFERENT, UNREADABLE = 0, 1, 2
MODULE = "workers.verify"  # runs in a process of its own, because it needs torch; one process for all pairs of a run
WITHIN_S = 3600.0  # checkpoints may be large


def checkpoints(a: str | Path, b: str | Path) -> int:
    """Compare two checkpoints and print the differences. Returns 0 if they are equal, 1 if not, 2 if one is
    unreadable."""
    with Child(MODULE) as child:
        return compare(child, a, b)


def compare(child: Child, a: str | Path, b: str | Path) -> int:
    """Like `checkpoints`, but with an existing child process."""
    try:
        answer = child.ask(json.dumps([os.path.abspath(a), os.path.abspath(b)]), WITHIN_S)
    except NoAnswer as why:
        print(f"{a}, {b}: not compared: {why}", file=sys.stderr)
        return UNREADABLE
    if "refused" in answer:
        print(f"Error: {answer['refused']}", file=sys.stderr)
        return UNREADABLE
    print(*answer["lines"], sep="\n")
    return DIFFERENT if answer["differ"] else EQUAL


def ranks_of(run: Run) -> int:
    """Compare the ranks of every repeat and print the differences. Returns the worst code of `checkpoints`. Raises
    RunError if no repeat has two copies of a model."""
    preset = run.preset()
    repeats = [(trial, number) for trial in preset.trials for number in range(1, preset.repeats + 1)]
    with Child(MODULE) as child:
        codes = [_repeat(child, run, trial, number) for trial, number in repeats]
    compared = [code for code in codes if code is not None]
    if not compared:
        raise RunError(f"{run.name}: nothing to compare: no trial ended with two copies of its model")
    return max(compared)  # a higher code is worse


def _repeat(child: Child, run: Run, trial: Trial, number: int) -> int | None:
    """Compare the ranks of one repeat; None if there is nothing to compare."""
    done = [message for message in run.messages(trial.name, number) if isinstance(message, Done) and message.parameters]
    print(f"{trial.name}, repeat {number}, {count(len(done), 'rank')}", end="", flush=True)
    if trial.launch not in ONE_PROCESS and len(done) < trial.world_size:
        print(f" of {trial.world_size} ended well: not compared")
        return None
    if len(done) < 2:
        print(": only one copy, nothing to compare")
        return None
    print(flush=True)
    saved = run.checkpoints(trial.name, number)
    all_saved = len(saved) == len(done)
    return _files(child, saved) if all_saved else _hashes(sorted(done, key=lambda message: message.rank))


def _files(child: Child, paths: Sequence[Path]) -> int:
    """Compare every rank's checkpoint with that of rank 0."""
    codes = []
    for path in paths[1:]:
        print(f"{path.name} against {paths[0].name}", flush=True)
        codes.append(compare(child, paths[0], path))
    return max(codes)


def _hashes(done: Sequence[Done]) -> int:
    """Compare the hashes of tensors that every rank sent at its end."""
    code = EQUAL
    kinds = {"parameters": [rank.parameters for rank in done], "buffers": [rank.buffers for rank in done]}
    for kind, copies in kinds.items():
        differing, total = differing_names(copies), len(copies[0])
        equal = f"all {total} equal" if total else "none"
        print(f"{kind}: {len(differing)} of {total} differ" if differing else f"{kind}: {equal}")
        for name in differing:
            print("  " + name.encode("unicode_escape").decode())  # a name from a file may hold control characters
            code = DIFFERENT
    return code

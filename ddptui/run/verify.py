"""`ddptui verify`: compares copies of a model bit by bit, from checkpoints or from the hashes in a run's journals."""

import json
import os
import sys
from collections.abc import Sequence
from itertools import product
from pathlib import Path

from ddptui.analysis.correctness import differing_names
from ddptui.config.catalog import ONE_PROCESS
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
    preset, codes = run.preset(), list[int]()
    with Child(MODULE) as child:
        for trial, number in product(preset.trials, range(1, preset.repeats + 1)):
            ended = [each for each in run.messages(trial.name, number) if isinstance(each, Done) and each.parameters]
            repeat = f"{trial.name}, repeat {number}, {count(len(ended), 'rank')}"
            if len(ended) < (2 if trial.launch in ONE_PROCESS else max(2, trial.world_size)):
                print(f"{repeat} of {trial.world_size} ended well: not compared")
                continue
            print(repeat, flush=True)
            saved = run.checkpoints(trial.name, number)
            if len(saved) < len(ended):
                codes.append(_hashes(sorted(ended, key=lambda done: done.rank)))
                continue
            for path in saved[1:]:
                print(f"{path.name} against {saved[0].name}", flush=True)
                codes.append(compare(child, saved[0], path))
    if not codes:
        raise RunError(f"{run.name}: nothing to compare: no trial ended with two copies of its model")
    return max(codes)  # a higher code is worse


def _hashes(done: Sequence[Done]) -> int:
    """Compare the hashes of tensors that every rank sent at its end."""
    code = EQUAL
    for kind, copies in (("parameters", [d.parameters for d in done]), ("buffers", [d.buffers for d in done])):
        differing, total = differing_names(copies), len(copies[0])
        equal = f"all {total} equal" if total else "none"
        print(f"{kind}: {len(differing)} of {total} differ" if differing else f"{kind}: {equal}")
        for name in differing:
            print("  " + name.encode("unicode_escape").decode())  # a name from a file may hold control characters
            code = DIFFERENT
    return code

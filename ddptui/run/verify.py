"""`ddptui verify`: are two copies of a model the same, to the last bit? Of checkpoints torch tells, in a process of its
own; of a run's ranks the hashes in its journals, or, where the ranks saved theirs, the checkpoints."""

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from ddptui.analysis.correctness import differing_names
from ddptui.config.launch_modes import ONE_PROCESS
from ddptui.host.rank_side import run_module
from ddptui.store.runs import Run, RunError
from ddptui.text.words import count
from ddptui.wire.messages import Done

EQUAL, DIFFERENT, UNREADABLE = 0, 1, 2


def checkpoints(a: str | Path, b: str | Path) -> int:
    """Compare two files and print how. 0: equal; 1: they differ; 2: one cannot be read."""
    code = run_module("workers.verify", os.path.abspath(a), os.path.abspath(b)).returncode
    if code in (EQUAL, DIFFERENT, UNREADABLE):
        return code
    print(f"{a}, {b}: the process that read them died (exit code {code})", file=sys.stderr)
    return UNREADABLE


def ranks_of(run: Run) -> int:
    """Compare the ranks of every repeat and print how. 0: all that could be compared are equal; 1: some differ. Raises
    RunError where there are no two copies of a model."""
    preset = run.preset()
    codes: list[int] = []
    for trial in preset.trials:
        for number in range(1, preset.repeats + 1):
            done = [words for words in run.messages(trial.name, number) if isinstance(words, Done) and words.parameters]
            print(f"{trial.name}, repeat {number}, {count(len(done), 'rank')}", end="", flush=True)
            if trial.launch not in ONE_PROCESS and len(done) < trial.world_size:
                print(f" of {trial.world_size} ended: nothing is compared")
            elif len(done) < 2:
                print(": there is nothing to compare it with")
            else:
                print(flush=True)
                saved = run.checkpoints(trial.name, number)
                same = len(saved) == len(done)
                codes.append(_files(saved) if same else _hashes(sorted(done, key=lambda words: words.rank)))
    if not codes:
        raise RunError(f"{run.name}: no trial of it has ended with two copies of its model: nothing to compare")
    return max(codes)


def _files(paths: Sequence[Path]) -> int:
    """Every rank's checkpoint against rank 0's."""
    first, *others = paths
    codes = []
    for path in others:
        print(f"{path.name} against {first.name}", flush=True)
        codes.append(checkpoints(first, path))
    return max(codes)


def _hashes(done: Sequence[Done]) -> int:
    kinds = {"parameters": [words.parameters for words in done], "buffers": [words.buffers for words in done]}
    return max(_say(kind, copies) for kind, copies in kinds.items())


def _say(kind: str, copies: Sequence[Mapping[str, str]]) -> int:
    apart, total = differing_names(copies), len(copies[0])
    equal = f"all {total} equal" if total else "none"
    print(f"{kind}: {len(apart)} of {total} differ" if apart else f"{kind}: {equal}")
    for name in apart:
        print("  " + name.encode("unicode_escape").decode())
    return DIFFERENT if apart else EQUAL

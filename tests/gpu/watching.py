"""Where the checks of GPUs run trainings of watched.py: under `ddptui watch`, in a process of its own, or as is."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import pytest

from ddptui.analysis.results import RepeatResult, Results
from ddptui.host.folders import python_path
from ddptui.host.rank_place import without_launchers
from ddptui.store.runs import all_runs
from ddptui.text.words import MS
from ddptui.wire.messages import Step
from ddptui.wire.phases import PHASES
from tests.gpu import judging
from tests.gpu.judging import Recorded
from tests.gpu.running import ended_within, logs_of_unfinished, recorded_by
from tests.support.runner import arguments

TRAININGS = Path(__file__).with_name("watched.py")
SKIPPED = 3  # steps at first, which are in no figure
NOTHING = Recorded(Results(run="", preset="", baseline="", environment={}, status="ok", trials=[]), {})


class Watched(NamedTuple):
    """What a training has printed, by rank; and what watching it has left, which is nothing if it was not watched."""

    found: Mapping[int, Mapping[str, Any]]
    recorded: Recorded

    @property
    def repeat(self) -> RepeatResult:
        """Its figures."""
        [repeat] = self.recorded.repeats.values()
        return repeat

    @property
    def steps(self) -> list[Step]:
        """The steps of all ranks, as reported."""
        [messages] = self.recorded.messages.values()
        return [message for message in messages if isinstance(message, Step)]

    def phase_ms(self, phase: str, first: int, last: int) -> float:
        """The median of a phase over the steps from the first on, without the last."""
        at = PHASES.index(phase)
        return median(step.phases_ns[at] / MS for step in self.steps if first <= step.step < last)


Watch = Callable[..., Watched]  # as run_training, in a folder of its own


def run_training(
    folder: Path, name: str, *options: str, ranks: int = 1, watched: bool = True, minutes: float = 2.0
) -> Watched:
    """Run a training of watched.py to its end, watched or not. One that fails, or is not over, fails."""
    program = [sys.executable, *launcher(ranks), str(TRAININGS), name, *options]
    words = ("watch", "--no-ui", "--skip", str(SKIPPED), "--runs", str(folder), "--", *program)
    environment = {**without_launchers(os.environ), "PYTHONPATH": python_path(), "PYTHONFAULTHANDLER": "1"}
    out, error = folder / "stdout", folder / "stderr"
    with out.open("wb") as printed, error.open("wb") as said:
        process = subprocess.Popen(
            arguments(*words) if watched else program,
            cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=printed, stderr=said,
        )  # fmt: skip
        code = ended_within(process, minutes * 60)
    runs = all_runs(folder)
    print(out.read_text(), error.read_text(), *(line for run in runs for line in logs_of_unfinished(run)), sep="\n")
    if code != 0:
        pytest.fail(f"not over after {minutes:g} min: stopped" if code is None else f"ended with exit code {code}")
    recorded = recorded_by(runs[0]) if watched else NOTHING
    if watched and not recorded.repeats:
        pytest.fail(f"watched, but nothing seen: {judging.reason(recorded.results.trials[0])}")
    return Watched(found_in(out.read_text()), recorded)


def launcher(ranks: int) -> Sequence[str]:
    """What starts so many ranks, after Python; one rank starts by itself."""
    return ("-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={ranks}") if ranks > 1 else ()


def found_in(printed: str) -> dict[int, dict[str, Any]]:
    """What the ranks have printed of themselves."""
    found = [json.loads(line)["found"] for line in printed.splitlines() if line.startswith('{"found"')]
    return {each.pop("rank"): each for each in found}

"""Real launches and their warm parent: what its ranks are like, when it is not ready, and when it ends."""

import io
import os
import signal
from contextlib import closing
from pathlib import Path

import psutil

from ddptui.engines.base import LAUNCHER_LOG
from ddptui.engines.local.warm import WarmParent
from ddptui.host.machine import heap_limits
from ddptui.run import runner
from ddptui.run.headless import Narrator
from ddptui.run.runner import RunControls
from ddptui.store.runs import Run
from ddptui.wire.records import Ended, Launched
from tests.support.builders import preset_of
from tests.support.here import run_here
from tests.support.runner import write_preset

TINY = {"model": "mlp", "width": 16, "depth": 1, "steps": 8, "warmup_steps": 2, "threads": 1}
WHY = "the process that forks the ranks was killed by SIGKILL"


def test_without_their_parent_launches_start_cold_and_say_so(tmp_path: Path) -> None:
    preset = preset_of({"repeats": 3, "trial": [{"name": "a", "launch": "single", **TINY}]})
    run = Run.create(tmp_path, preset, {"cores": 2})
    narrator = Narrator(preset, io.StringIO())
    controls = RunControls()
    starts, ends = [], []
    with closing(WarmParent()) as warm, closing(runner.run_preset(preset, run, controls, warm=warm)) as stream:
        for message in stream:
            narrator.add(message)
            if isinstance(message, Launched):
                starts.append((message.start, message.start_why))
                if len(starts) == 3:
                    controls.skip(message.at_ns)  # how it goes on is known
            if isinstance(message, Ended):
                ends.append(message.status)
                if len(ends) == 1:
                    [parent] = psutil.Process(warm._keeper.pid).children()  # type: ignore[union-attr]
                    limits = heap_limits(os.environ)
                    assert limits.items() <= parent.environ().items()  # its forks have what malloc read as it started
                    os.kill(parent.pid, signal.SIGKILL)
                    psutil.wait_procs([parent])
    assert starts == [("warm", ""), ("cold", WHY), ("cold", WHY)]
    assert ends == ["ok", "ok", "skipped"]
    assert narrator._output.getvalue().count(f"starts cold: {WHY}") == 2  # type: ignore[attr-defined]


def test_what_is_stopped_before_it_is_ready_is_never_started(tmp_path: Path) -> None:
    preset = preset_of({"trial": [{"name": "a", **TINY}, {"name": "b", **TINY}]})
    controls = RunControls()

    class Never(WarmParent):
        def is_ready(self, timeout_s: float) -> bool:
            controls.stop()
            return False

    statuses: list[str] = []
    with closing(
        runner.run_preset(preset, Run.create(tmp_path, preset, {"cores": 2}), controls, warm=Never())
    ) as stream:
        for message in stream:
            if isinstance(message, Ended):
                statuses.append(message.status)
    assert statuses == ["interrupted"]
    assert not list(tmp_path.rglob(LAUNCHER_LOG))  # it is the first thing that a launch makes


def test_ranks_have_the_handlers_of_a_new_process_however_they_were_launched(warm: WarmParent, tmp_path: Path) -> None:
    modes = ("single", "process", "spawn", "launch")
    model = 'model = "tests.support.handlers:net"'
    trials = [f'[[trial]]\nname = "{mode}"\nlaunch = "{mode}"\nsteps = 4\n{model}\n' for mode in modes]
    results = run_here(warm, tmp_path / "runs", write_preset(tmp_path, "".join(trials)))
    inherited = signal.Handlers(signal.getsignal(signal.SIGQUIT)).name  # who runs tests in the background ignores it
    for trial in results["trials"]:
        assert trial["repeats"][0]["start"] == "warm"
        log = tmp_path / "runs" / results["run"] / f"trial-{trial['name']}" / "repeat-1" / "rank-0.log"
        sigquit = "SIG_DFL" if trial["name"] == "launch" else inherited  # torch's launcher has a handler
        assert f"handlers None SIG_DFL SIG_DFL {sigquit} SIG_DFL\n" in log.read_text()  # None: Python's own for SIGINT

"""Record the run of primitives that tests replay: real ranks, a launch to be seen and two that are measured.

python -m tests.tui.record_primitives
"""

import tempfile
from pathlib import Path

from ddptui.host.machine import describe
from ddptui.run import runner
from ddptui.store.presets import load
from ddptui.store.runs import Run
from tests.tui.record import keep

HERE = Path(__file__).parent / "recorded_primitives"


def main() -> None:
    preset = load(str(HERE / "preset.toml"))
    with tempfile.TemporaryDirectory() as folder:
        run = Run.create(Path(folder), preset, describe())
        for _ in runner.run_preset(preset, run):
            pass
        keep(run, HERE / "run")


if __name__ == "__main__":
    main()

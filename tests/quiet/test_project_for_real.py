"""`ddptui project` on a run that ranks have really made: two of them, and four to set its prediction against."""

from pathlib import Path

import pytest

from ddptui.engines.local.warm import WarmParent
from ddptui.host.machine import available_cores
from ddptui.projection.command import ProjectOptions, projection
from tests.support.here import run_here
from tests.support.runner import QUICK, write_preset

MEAN_MS, STEPS, WARM_UP = 60.0, 40, 2  # so long that what a busy machine adds is little beside it
LATE = f'at = "forward", sleep_ms = {MEAN_MS}, jitter = "uniform"'
TRAINING = f"""
repeats = 1
[defaults]
{QUICK.replace("steps = 8", f"steps = {STEPS}", 1)}
strategy = "all_reduce"
sched_batch = true
[[trial]]
name = "two"
batch_size = 16
bottleneck = [{{ {LATE}, ranks = [0, 1] }}]
[[trial]]
name = "four"
world_size = 4
batch_size = 32
bottleneck = [{{ {LATE}, ranks = [0, 1, 2, 3] }}]
"""


@pytest.mark.rare  # tests/unit/projection has the prediction, test_throwaway_strategy.py a real run's
def test_a_real_run_predicts_itself_and_more_ranks(warm: WarmParent, tmp_path: Path) -> None:
    [_, four] = run_here(warm, tmp_path, write_preset(tmp_path, TRAINING))["trials"]
    found = projection(tmp_path, "last", ProjectOptions(trial="two", ranks="2,4,64", cores=available_cores()))
    own = {point.ranks: point for point in found.points if point.strategy == "all_reduce"}

    assert own[2].error == pytest.approx(0, abs=0.15)  # whatever else the machine does: it is in both
    assert own[2].work_ms > 0.8 * MEAN_MS  # the sleep is part of the work
    assert own[2].wait_ms > 0.6 * MEAN_MS / 3  # the larger of two, uniform on 0 to 2, is 4 / 3 on average
    assert own[64].wait_ms > own[4].wait_ms > own[2].wait_ms
    assert own[4].measured_ms is not None
    assert own[4].measured_ms > own[2].step_ms
    assert own[4].measured_ms == pytest.approx(four["repeats"][0]["train_time_s"] * 1000 / (STEPS - WARM_UP), rel=0.1)
    assert found.network.alpha_us  # else it is unknown

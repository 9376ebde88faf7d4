"""How the GPU report judges delays that are there: of real ranks, on the CPU."""

from pathlib import Path

from ddptui.doctor.gpu_report import plans, training, verdicts
from ddptui.doctor.gpu_report.bench import Workbench
from tests.support.gpu_results import missed, on_the_cpu

ENOUGH_S = 300


def test_who_was_delayed_is_named_and_nobody_else(tmp_path: Path) -> None:
    recorded = Workbench(tmp_path, 1, {}).run(on_the_cpu(plans.DELAYS, epochs=2), ENOUGH_S)
    [on_cpu] = missed(verdicts.delays(recorded))
    assert "aggregate on cpu" in on_cpu
    wrong = {"none": None, "aggregate": training.Site(0, "aggregate"), "backward": training.Site(1, "forward")}
    assert [found.ok for found in training.delays_found(recorded.results, wrong)] == [True, False, False]

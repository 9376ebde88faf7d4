"""How the checks of GPUs judge delays that are there: of real ranks, on the CPU.

Steps are long, and sleep. Once another virtual machine made one core 1.3 × as slow as the other: its rank was late
indeed, and ddptui named it. Beside such steps, that is too little to be named.
"""

from pathlib import Path

from tests.gpu import plans
from tests.gpu.judging import delay_found
from tests.gpu.running import run_plan
from tests.gpu.test_one_gpu import test_bottleneck_where as check
from tests.support.gpu_checks import missed, on_the_cpu


def test_who_was_delayed_is_named_and_no_other(tmp_path: Path) -> None:
    delays = on_the_cpu(plans.DELAYS, ("none", "aggregate", "backward"), steps=33, model="tests.support.slow:Net")
    recorded = run_plan(tmp_path, delays, minutes=5)
    [on_cpu_only, *others] = missed(check, lambda _: recorded)
    assert "aggregate on cpu" in on_cpu_only
    assert others == []
    wrong = {"none": None, "aggregate": (0, "aggregate"), "backward": (1, "forward")}
    assert [delay_found(recorded, name, site).ok for name, site in wrong.items()] == [True, False, False]

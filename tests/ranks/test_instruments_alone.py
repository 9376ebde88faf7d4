"""The instruments serve any training loop: they load nothing of the lab's own, and a plain loop reports with them."""

import subprocess
import sys

from ddptui.host.folders import lab_root
from tests.support.runner import ENOUGH_S

PLAIN_LOOP = """
import sys
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from workers.instruments.clock import Clock
from workers.instruments.progress import Progress
from workers.instruments.records import PhaseTimer, StepRecord
from workers.instruments.reporter import Reporter
from workers.instruments.tap import Tap


class Kept(Reporter):
    def send(self, message):
        if callable(message):
            for step in message():
                reduced = [call.kind for call in step.collectives].count("all_reduce")
                print(step.step, step.samples, reduced, sum(step.phases_ns) <= step.end_ns - step.begin_ns)


dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
network = DistributedDataParallel(nn.Linear(4, 2))
reporter, clock = Kept(0), Clock()
tap, progress = Tap(clock, network, buckets=True, overlaps=True), Progress(0, 0, reporter)
reporter.position = tap.position
for step in range(21):
    timer = PhaseTimer(clock, step)
    tap.begin(timer)
    inputs = torch.ones(8, 4)
    timer.end("data")
    loss = network(inputs).sum()
    timer.end("forward")
    loss.backward()
    tap.settle()
    timer.end("backward")
    progress.step(StepRecord(step, 0, timer, len(inputs), loss.detach(), tap.end(), tap.buckets, ()), clock)
assert tap.position().step is None
tap.close()
reporter.close()
dist.destroy_process_group()
print(*sorted(name for name in sys.modules if name.startswith("workers.") and "instruments" not in name))
"""


def test_a_plain_loop_reports_its_steps_and_loads_nothing_of_the_lab() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PLAIN_LOOP], cwd=lab_root(), capture_output=True, text=True, check=True, timeout=ENOUGH_S
    )
    *lines, loaded = done.stdout.splitlines()
    said = ("rank 0", "[Gloo] Rank 0")  # by the reporter, and by gloo in torch 2.8 and 2.9
    assert [line for line in lines if not line.startswith(said)] == [f"{step} 8 1 True" for step in range(21)]
    assert loaded == "workers.rank workers.rank.guard"  # which workers/__init__.py starts before all else

"""What it costs that glibc hands memory back to the kernel: one process trains, and how often pages are missing.

At the end of a step torch frees tensors of some MB. If they lie at the end of the heap, glibc gives their pages back,
and the next step has the kernel make and clear new ones. Whether they lie there is chance, and stays as it is for a
whole launch: so launches that do the same differ by half. Each setting trains the lab's net in a process of its own, in
turn with the others. Goal: with ours, launches differ by a fifth at most, and none misses pages.

    python benchmarks/trimming.py [ROUNDS] [THREADS]
"""

import os
import resource
import subprocess
import sys
import time
from statistics import median

from ddptui.host.machine import HEAP, SPINS

STEPS = 120
WARM_UP = 20
BATCH = 128
SETTINGS: dict[str, dict[str, str]] = {"glibc's own": {}, "ours": HEAP}


def train(threads: int) -> tuple[float, float]:
    """ms a step, and page faults a step."""
    import torch
    import torch.nn.functional as F

    from workers.training.models import Net

    torch.set_num_threads(threads)
    torch.manual_seed(0)
    model = Net(10)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.5)
    inputs, labels = torch.randn(BATCH, 1, 28, 28), torch.randint(0, 10, (BATCH,))

    def step() -> None:
        optimizer.zero_grad()
        F.cross_entropy(model(inputs), labels).backward()
        optimizer.step()

    for _ in range(WARM_UP):
        step()
    faults, begin = resource.getrusage(resource.RUSAGE_SELF).ru_minflt, time.monotonic()
    for _ in range(STEPS):
        step()
    took = time.monotonic() - begin
    return took / STEPS * 1000, (resource.getrusage(resource.RUSAGE_SELF).ru_minflt - faults) / STEPS


def measured(setting: dict[str, str], threads: str) -> tuple[float, float]:
    environment = {name: value for name, value in os.environ.items() if name not in HEAP}
    environment |= {"GOMP_SPINCOUNT": SPINS} | setting
    done = subprocess.run(
        [sys.executable, __file__, "train", threads], env=environment, capture_output=True, text=True, check=True
    )
    step_ms, faults = map(float, done.stdout.split())
    return step_ms, faults


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 16
    threads = sys.argv[2] if len(sys.argv) > 2 else "2"
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in SETTINGS}
    for _ in range(rounds):
        for name, setting in SETTINGS.items():
            found[name].append(measured(setting, threads))
    for name, launches in found.items():
        steps, faults = zip(*launches, strict=True)
        print(
            f"{name:12} {median(steps):6.2f} ms a step ({min(steps):.1f} to {max(steps):.1f}), "
            f"{median(faults):6.0f} pages missing ({min(faults):.0f} to {max(faults):.0f})"
        )


if __name__ == "__main__":
    print(*train(int(sys.argv[2]))) if sys.argv[1:2] == ["train"] else main()

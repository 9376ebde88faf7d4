"""How OpenMP's threads should wait: a process of two threads trains alone, and beside busy processes.

GCC's OpenMP, which torch brings, lets a waiting thread look 300,000 times before it sleeps. Beside another process that
spoils both threads: the one that works has no core, and the one that waits keeps its own. Each setting trains the
lab's net in a process of its own, in turn with the others. Goals: alone within 5 % of OpenMP's own; beside others no
slower than by the share of the cores that they take.

    python benchmarks/spinning.py [ROUNDS] [SPINS ...]
"""

import os
import subprocess
import sys
import time
from contextlib import ExitStack
from statistics import median

from ddptui.host.machine import SPINS, WAITING

TRAINS_S = 1.0
WARM_UP = 20  # steps
BATCH = 128
LOADS = (0, 1, 2)  # busy processes


def train() -> float:
    """ms a step, mean: a median would hide the steps in which a thread had no core."""
    import torch
    import torch.nn.functional as F

    from workers.training.models import Net

    torch.set_num_threads(2)
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
    steps, begin = 0, time.monotonic()
    while time.monotonic() - begin < TRAINS_S:
        step()
        steps += 1
    return (time.monotonic() - begin) / steps * 1000


def measured(setting: str) -> float:
    environment = {name: value for name, value in os.environ.items() if name not in WAITING}
    environment |= {"GOMP_SPINCOUNT": setting} if setting.isdecimal() else {}
    environment |= {"OMP_WAIT_POLICY": "passive"} if setting == "passive" else {}
    done = subprocess.run(
        [sys.executable, __file__, "train"], env=environment, capture_output=True, text=True, check=True
    )
    return float(done.stdout)


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 9
    settings = ["OpenMP's own", "passive", *(sys.argv[2:] or [SPINS])]
    for load in LOADS:
        with ExitStack() as stack:
            for _ in range(load):
                busy = stack.enter_context(subprocess.Popen([sys.executable, "-c", "while True: pass"]))
                stack.callback(busy.kill)
            steps_ms: dict[str, list[float]] = {setting: [] for setting in settings}
            for _ in range(rounds):
                for setting in settings:
                    steps_ms[setting].append(measured(setting))
        own = median(steps_ms[settings[0]])
        for setting, found in steps_ms.items():
            ratio = median(here / there for here, there in zip(found, steps_ms[settings[0]], strict=True))
            spread = f"{min(found):.1f} to {max(found):.1f}"
            print(f"beside {load}: {setting:13} {median(found):7.2f} ms a step ({spread}), {ratio:.2f} x {own:.2f}")


if __name__ == "__main__":
    print(train()) if sys.argv[1:] == ["train"] else main()

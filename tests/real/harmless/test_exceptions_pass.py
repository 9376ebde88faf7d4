"""What a training's own signal handler raises reaches the training, wherever in the instruments it comes."""

import sys
from pathlib import Path

from tests.support.watching import watched

# One signal a turn, after a time that differs: a turn that goes on once the handler has raised has lost the exception.
THOUSANDS = """
import signal, torch
received = raised = lost = 0

class Alarm(Exception):
    pass

def handle(number, frame):
    global raised
    raised += 1
    raise Alarm("too late")

weight = torch.ones(1, requires_grad=True)
optimizer = torch.optim.SGD([weight], lr=0.0)
for first in range(9):
    weight.square().backward()
    optimizer.step()
signal.signal(signal.SIGALRM, handle)
for turn in range(1500):
    torch.set_grad_enabled(True)
    before = raised
    try:
        signal.setitimer(signal.ITIMER_REAL, 20e-6 + turn % 100 * 2e-6)
        while raised == before:
            weight.square().backward()
            optimizer.step()
        lost += 1
    except Alarm:
        received += 1
print(received, raised, lost)
"""


def test_of_thousands_of_exceptions_none_is_lost(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(THOUSANDS)
    done = watched(tmp_path / "runs", "--", sys.executable, str(tmp_path / "train.py"))
    assert (done.returncode, done.stdout) == (0, "1500 1500 0\n"), done.stderr
    assert "not watched" not in done.stderr

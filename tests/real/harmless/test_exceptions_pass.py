"""What a training's own signal handler raises reaches the training, wherever in the instruments it comes."""

import sys
from pathlib import Path

import pytest

from tests.support.watching import journal, only_trial, watched

# One signal a turn, after a time that differs: a turn that goes on once the handler has raised has lost the exception.
HUNDREDS = """
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
for turn in range(500):
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


def test_of_hundreds_of_exceptions_none_is_lost(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(HUNDREDS)
    done = watched(tmp_path / "runs", "--", sys.executable, str(tmp_path / "train.py"))
    assert (done.returncode, done.stdout) == (0, "500 500 0\n"), done.stderr
    assert "not watched" not in done.stderr


# What a debugger raises as a function of the instruments begins is the training's own, too.
AT_EACH_END = """
import sys, torch
from ddptui import phase
from torch.utils.data import DataLoader, TensorDataset

class Stopped(BaseException):
    pass

def train():
    for [inputs] in loader:
        loss = (weight * inputs).square().sum()
        loss.backward()
        optimizer.step()
        with phase("aggregate"):
            optimizer.zero_grad()

weight = torch.ones(1, requires_grad=True)
optimizer = torch.optim.SGD([weight], lr=0.01)
loader = DataLoader(TensorDataset(torch.ones(8)), batch_size=2)
train()
for name in sys.argv[1:]:
    def stop(frame, event, argument):
        if frame.f_code.co_name == name and "observer" in frame.f_globals["__name__"]:
            sys.setprofile(None)
            raise Stopped(name)
    try:
        sys.setprofile(stop)
        train()
    except Stopped as error:
        print(error)
    sys.setprofile(None)
    train()
"""
CALLS = [f"{call}_{edge}" for call in ("data", "backward", "optimizer", "phase") for edge in ("begins", "ends")]


def test_steps_and_phases_are_told_after_an_exception_wherever_it_came(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(AT_EACH_END)
    done = watched(tmp_path / "runs", "--skip", "0", "--", sys.executable, str(tmp_path / "train.py"), *CALLS)
    assert (done.returncode, done.stdout.split()) == (0, CALLS), done.stderr
    steps = [line for line in journal(tmp_path / "runs") if line["type"] == "Step"]
    orders = [[phase for phase, _ in step["pieces"]] for step in steps]
    passes = 1 + len(CALLS)  # over the data, of 4 steps each, the first one of which follows the exception
    assert orders.count(orders[2]) >= 3 * passes - 1, orders
    assert 4 * passes <= len(steps) <= 5 * passes


# An exception of a kind that the instruments expect of the system, as it comes where they call the system.
AT_SYSTEM_CALLS = """
import sys, time, torch

weight = torch.ones(1, requires_grad=True)
optimizer = torch.optim.SGD([weight], lr=0.01)
for name in sys.argv[1:]:
    def stop(frame, event, argument):
        callers = ("ddptui_injected", "pathlib")
        if event == "c_call" and argument.__name__ == name and frame.f_globals["__name__"].startswith(callers):
            sys.setprofile(None)
            time.sleep(0.1)  # what runs beside has gone on
            raise TimeoutError(name)
    try:
        sys.setprofile(stop)
        for _ in range(1000):
            weight.square().backward()
            optimizer.step()
        print("lost:", name)
    except TimeoutError as error:
        print(error)
for _ in range(9):
    weight.square().backward()
    optimizer.step()
"""
SYSTEM_CALLS = ["stat", "open", "connect", "fstat", *["pread"] * 3]


@pytest.mark.rare
def test_a_timeout_that_is_the_trainings_passes_where_the_instruments_expect_errors_of_the_system(
    tmp_path: Path,
) -> None:
    (tmp_path / "train.py").write_text(AT_SYSTEM_CALLS)
    done = watched(tmp_path / "runs", "--", sys.executable, str(tmp_path / "train.py"), *SYSTEM_CALLS)
    assert (done.returncode, done.stdout.split("\n")[:-1]) == (0, SYSTEM_CALLS), done.stderr
    assert only_trial(tmp_path / "runs")["repeats"][0]["steps"] >= 9 - 3


# The instruments ask for the length of a pass over the data, which is the training's own code.
IN_A_LENGTH = """
import signal, time, torch
from torch.utils.data import DataLoader, Dataset

class Unknown(Exception):
    pass

class Samples(Dataset):
    def __len__(self):
        global asked
        asked += 1
        if asked % 2 == 0:
            raise Unknown("ask me once")
        return 6
    def __getitem__(self, number):
        return torch.ones(1)

asked = 0
weight = torch.ones(1, requires_grad=True)
optimizer = torch.optim.SGD([weight], lr=0.01)
loader = DataLoader(Samples(), batch_size=2)
for epoch in range(4):
    asked = 0
    for inputs in loader:
        (weight * inputs).sum().backward()
        optimizer.step()
print("trained")
"""


def test_an_error_of_a_data_set_that_we_ask_is_none_of_the_training(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(IN_A_LENGTH)
    done = watched(tmp_path / "runs", "--", sys.executable, str(tmp_path / "train.py"))
    assert (done.returncode, done.stdout) == (0, "trained\n"), done.stderr
    assert only_trial(tmp_path / "runs")["repeats"][0]["steps"] == 12 - 3

"""A training's own torch modes, tensor subclasses, trace functions and loops over all threads see the calls and threads
of the training, and none of ddptui's."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.watching import only_trial, script, watched

JOINS = """
import sys, threading, torch

seen_in = set()
threading.setprofile(lambda *_: seen_in.add(threading.get_ident()))
threading.settrace(lambda *_: seen_in.add(threading.get_ident()))

def train(steps):
    weight = torch.ones(3, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.1)
    for _ in range(steps):
        weight.square().sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    return weight.tolist()

print(train(50))
other = threading.Thread(target=train, args=(50,))
other.start()
for thread in threading.enumerate():
    if thread is not threading.main_thread():
        thread.join()
print(train(50), threading.active_count(), seen_in == {other.ident})
"""


@pytest.mark.rare
def test_a_trainings_own_modes_and_classes_of_tensors(tmp_path: Path) -> None:
    command = [sys.executable, *script("modes")]
    alone = subprocess.run(command, capture_output=True, text=True)
    assert (alone.returncode, len(alone.stdout.splitlines())) == (0, 5), alone.stderr
    seen = watched(tmp_path, "--", *command)
    assert seen.stdout == alone.stdout, seen.stderr
    assert "not watched" not in seen.stderr
    [repeat] = only_trial(tmp_path)["repeats"]
    assert repeat["steps"] > 70  # two optimizers, one after the other, may make one step
    assert repeat["loss"]["first"] is None  # the first ones are fake, or on no device
    assert repeat["loss"]["last"] > 0


def test_a_training_that_waits_for_all_threads(tmp_path: Path) -> None:
    command = [sys.executable, "-c", JOINS]
    alone = subprocess.run(command, capture_output=True, text=True)
    assert alone.stdout.endswith(" 1 True\n"), alone.stderr
    seen = watched(tmp_path, "--", *command)
    assert seen.stdout == alone.stdout, seen.stderr
    assert only_trial(tmp_path)["repeats"][0]["steps"] == 97

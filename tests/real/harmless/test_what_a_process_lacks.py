"""A training that runs out of descriptors or address space, or closes what is not its own, runs as it would."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.runner import environment
from tests.support.watching import watched

TRAINING = """
import os, resource, signal, sys, tempfile, torch
weight = torch.ones(3, requires_grad=True)
optimizer = torch.optim.SGD([weight], lr=0.1)

def train(steps):
    for _ in range(steps):
        weight.square().sum().backward()
        optimizer.step()
        optimizer.zero_grad()

"""
OVER = """
print(weight.tolist())
"""
LACKS = {
    # numbers that were ours are the training's own files by the time that anything of ours is sent or closed
    "closed descriptors": """
output, closed = os.dup(1), []
sys.stdout.flush()
os.close(0)
os.close(1)
train(20)
for stream in (0, 1):
    try:
        os.write(stream, b"for nobody")
    except OSError as error:
        closed.append(error.errno)
os.dup2(output, 1)
print(closed)
train(20)
os.closerange(3, 200)
own = [tempfile.TemporaryFile(buffering=0) for number in range(40)]
for file in own:
    file.write(b"mine")
import time
for _ in range(30):
    train(3)
    time.sleep(0.02)
print([os.pread(file.fileno(), 99, 0) for file in own] == [b"mine"] * 40)
""",
    "descriptors": """
_, most = resource.getrlimit(resource.RLIMIT_NOFILE)
free = os.dup(0)
os.close(free)
resource.setrlimit(resource.RLIMIT_NOFILE, (free + int(sys.argv[1]), most))
train(40)
""",
    "a relay, and SIGPIPE has its default": """
signal.signal(signal.SIGPIPE, signal.SIG_DFL)
train(20)
for process in os.listdir("/proc") if len(sys.argv) > 1 else []:
    try:
        words = open(f"/proc/{process}/cmdline", "rb").read().split(b"\\0")
        of = open(f"/proc/{process}/stat").read().rpartition(")")[2].split()[1]
    except OSError:
        continue
    if b"workers.relay" in words and int(of) == os.getppid():
        os.kill(int(process), signal.SIGKILL)
import time
for _ in range(30):
    train(3)
    time.sleep(0.02)
""",
    "address space": """
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + 2 * 2**20, resource.RLIM_INFINITY))
train(40)
resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
""",
}
RARE = pytest.mark.rare


@pytest.mark.parametrize(
    ("lack", "words"),
    [
        pytest.param("closed descriptors", (), marks=RARE),
        ("a relay, and SIGPIPE has its default", ("kill",)),
        *(pytest.param("descriptors", (str(left),), marks=RARE) for left in (0, 1, 4)),
        pytest.param("address space", (), marks=RARE),
    ],
)
def test_a_training_that_lacks_something_runs_as_it_would(tmp_path: Path, lack: str, words: tuple[str, ...]) -> None:
    (tmp_path / "train.py").write_text(TRAINING + LACKS[lack] + OVER)
    command = [sys.executable, "train.py", *words]
    with_us = watched(tmp_path / "runs", "--", sys.executable, str(tmp_path / "train.py"), *words)
    alone = subprocess.run(
        [*command[:2]] if "kill" in words else command,
        cwd=tmp_path,
        env=environment(tmp_path),
        capture_output=True,
        text=True,
    )
    assert alone.returncode == 0, alone.stderr
    assert (with_us.returncode, with_us.stdout) == (0, alone.stdout), with_us.stderr

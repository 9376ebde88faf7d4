"""How each process of a watched command ends reaches the console, and the command ends as it would without us."""

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.ends import Watched
from tests.support.watching import TORCHRUN
from workers.instruments.hooks import METHODS
from workers.watch.notes import KINDS

RARE = pytest.mark.rare
LAUNCH = TORCHRUN[1:]  # Watched begins with the Python itself
ARGPARSE = """
import argparse
def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int)
    parser.parse_args()
main()
"""
RAISES = """
def load(name):
    raise ValueError("no such model: " + name)
load("gpt")
"""
EXITS = "import sys\nsys.exit({})\n"
WITH_HOOK = "import sys\nsys.excepthook = lambda *error: print('mine')\n" + RAISES
CAUGHT = """
import sys
def leave():
    try:
        sys.exit(3)
    except SystemExit as error:
        print(error.code, type(error) is SystemExit)
leave()
"""
IN_A_THREAD = (
    "import sys, threading\nthread = threading.Thread(target=sys.exit, args=(3,))\nthread.start()\nthread.join()\n"
)
ON_THE_WAY_OUT = "import sys\ntry:\n    1 / 0\nexcept ZeroDivisionError:\n    sys.exit(4)\n"


def run(folder: Path, code: str, *words: str) -> Watched:
    """Run a script, and compare its output and exit code with those of the bare command."""
    (folder / "train.py").write_text(code)
    bare = subprocess.run([sys.executable, "train.py", *words], cwd=folder, capture_output=True, text=True)
    watched = Watched(folder, "train.py", *words)
    assert (watched.code, watched.out, watched.error) == (bare.returncode, bare.stdout, bare.stderr)
    return watched


@pytest.mark.parametrize(
    ("code", "words", "error", "places", "exit_code"),
    [
        pytest.param(
            *(ARGPARSE, ("--local-rank=0",), "train.py: error: unrecognized arguments: --local-rank=0"),
            *([("train.py", 6, "main"), ("train.py", 7, "<module>")], 2),
            id="argparse",
        ),
        pytest.param(
            *(RAISES, (), "ValueError: no such model: gpt"),
            *([("train.py", 3, "load"), ("train.py", 4, "<module>")], 1),
            id="an exception",
        ),
        pytest.param(
            *(WITH_HOOK, (), "ValueError: no such model: gpt"),
            *([("train.py", 5, "load"), ("train.py", 6, "<module>")], 1),
            id="an excepthook",
        ),
        pytest.param(EXITS.format("7"), (), "SystemExit: 7", [("train.py", 2, "<module>")], 7, id="a code"),
        pytest.param(
            ON_THE_WAY_OUT, (), "ZeroDivisionError: division by zero", [("train.py", 3, "<module>")], 4, id="handled"
        ),
    ],
)
def test_a_process_without_torch_says_why_it_fails(
    tmp_path: Path, code: str, words: tuple[str, ...], error: str, places: list[Any], exit_code: int
) -> None:
    [event] = run(tmp_path, code, *words).failed()
    assert (event["error"], event["exit"], event["failures"], event["rank"]) == (error, exit_code, [], None)
    own = [tuple(place) for *place, is_own in event["stack"] if is_own]
    assert [(file, line, function.rpartition(".")[2]) for file, line, function in own] == places


@pytest.mark.parametrize("code", [CAUGHT, IN_A_THREAD, EXITS.format(0), EXITS.format("")])
def test_a_process_that_ends_well_says_nothing(tmp_path: Path, code: str) -> None:
    assert run(tmp_path, code).events == []


RANKS = """
import multiprocessing, os, sys, time
def train(rank):
    raise RuntimeError(f"of rank {rank}")
if __name__ == "__main__":
    if sys.argv[1] == "mp.spawn":
        import torch.multiprocessing as mp
        mp.spawn(train, nprocs=1)
    child = multiprocessing.get_context(sys.argv[1]).Process(target=train, args=(0,))
    child.start()
    child.join()
    sys.exit(child.exitcode)
"""


@pytest.mark.parametrize("method", ["fork", "spawn", pytest.param("mp.spawn", marks=RARE)])
def test_what_a_process_of_multiprocessing_raises_is_said_once(tmp_path: Path, method: str) -> None:
    (tmp_path / "train.py").write_text(RANKS)
    watched = Watched(tmp_path, "train.py", method)
    child, launcher = watched.failed()
    assert (watched.code, child["error"], child["exit"]) == (1, "RuntimeError: of rank 0", 1)
    assert child["stack"][0] == ["train.py", 4, "train", True]
    if method == "mp.spawn":
        assert launcher["error"].startswith("ProcessRaisedException: ")
        assert launcher["failures"] == [[0, child["pid"], 1]]
        assert child["ppid"] == launcher["pid"]
    else:
        assert (launcher["error"], launcher["failures"]) == ("SystemExit: 1", [])


BEFORE_THE_GROUP = """
import os, sys
from torch.distributed.elastic.multiprocessing.errors import record
@record
def main():
    rank = int(os.environ["RANK"])
    if rank == 1:
        raise ValueError("bad file")
    import signal
    signal.pause()
main()
"""


@RARE
def test_torchrun_knows_which_rank_failed(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(BEFORE_THE_GROUP)
    watched = Watched(tmp_path, *LAUNCH, "train.py")
    [rank] = [event for event in watched.failed() if event["error"] == "ValueError: bad file"]
    assert (rank["rank"], rank["world"], rank["attempt"], rank["stack"][0]) == (1, 2, 0, ["train.py", 8, "main", True])
    [launcher] = [event for event in watched.failed() if event["error"].startswith("ChildFailedError: ")]
    assert [1, rank["pid"], 1] in launcher["failures"]  # the other one may have got its SIGTERM
    assert (watched.code, launcher["exit"]) == (1, 1)


TRAINS = """
import datetime, os, signal, sys, time, torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Dataset

class Killed(Dataset):
    def __len__(self):
        return 64
    def __getitem__(self, number):
        if number == 40:
            os.kill(os.getpid(), signal.SIGKILL)
        return torch.ones(1)

def step():
    weight.square().sum().backward()
    dist.all_reduce(weight.grad)
    optimizer.step()

def end(how):
    if how == "raise":
        raise RuntimeError("CUDA out of memory")
    if how == "abort":
        steps, end = 3, time.monotonic() + 1  # until the rank has surely sent its Hello
        while time.monotonic() < end:
            step()
            steps += 1
        print(steps, flush=True)
        dist.all_reduce(torch.ones(7))
        os.abort()
    if how == "worker":
        for batch in DataLoader(Killed(), batch_size=8, num_workers=2):
            pass
    if how == "sleep":
        time.sleep(99)
    if how == "destroyed":
        dist.destroy_process_group()
        raise OSError("disk full")

dist.init_process_group("gloo", init_method="tcp://localhost:0", rank=0, world_size=1)
weight = torch.ones(1, requires_grad=True)
optimizer = torch.optim.SGD([weight], lr=0.1)
for _ in range(3):
    step()
end(sys.argv[1])
"""
SLEEPS = [["train.py", TRAINS.splitlines().index("        time.sleep(99)") + 1, "end", True]]


def trained(folder: Path, how: str, **options: Any) -> Watched:
    (folder / "train.py").write_text(TRAINS)
    return Watched(folder, "train.py", how, **options)


def test_a_rank_that_raises_says_so_in_its_last_frame(tmp_path: Path) -> None:
    watched = trained(tmp_path, "raise")
    last = watched.last(0)
    assert (last["error"], last["workers"]) == ("RuntimeError: CUDA out of memory", [])
    assert [function for _, _, function, own in last["stack"] if own] == ["end", "<module>"]
    joins, joined = watched.events  # and none of its end
    assert [(event["what"], event["rank"], event["world"]) for event in (joins, joined)] == [
        ("joins", 0, 1),
        ("joined", 0, 1),
    ]
    assert joins["stack"][-1][2:] == ["<module>", True]


@RARE
def test_after_its_group_a_rank_writes_an_event(tmp_path: Path) -> None:
    watched = trained(tmp_path, "destroyed")
    [event] = watched.failed()
    assert (watched.last(0)["error"], event["error"], event["rank"]) == ("", "OSError: disk full", 0)


@RARE
def test_a_loaders_worker_that_was_killed_is_named(tmp_path: Path) -> None:
    last = trained(tmp_path, "worker").last(0)
    # The last two if it dies while the rank fetches a tensor's file descriptor from it.
    assert last["error"].startswith(("RuntimeError: DataLoader worker", "ConnectionResetError", "EOFError"))
    [[pid, code]] = last["workers"]
    assert (pid > 0, code) == (True, -signal.SIGKILL)


def test_what_a_rank_called_last_is_known_after_it_has_aborted(tmp_path: Path) -> None:
    watched = trained(tmp_path, "abort")
    assert (watched.code, watched.last(0), watched.failed()) == (-signal.SIGABRT, {}, [])
    steps = int(watched.out)
    assert (last := watched.pages[0]) is not None
    assert last.numbers == (steps, 1, steps + 1, KINDS.index("all_reduce"), 28, 0)


def test_a_rank_that_stands_still_says_where(tmp_path: Path) -> None:
    watched = trained(tmp_path, "sleep", kill=[signal.SIGKILL])
    assert watched.frames[0][-1]["stack"][:1] == SLEEPS
    assert watched.code == -signal.SIGKILL


def test_the_kinds_are_those_that_are_seen() -> None:
    assert tuple(sorted(METHODS)) == KINDS


FREED = """
import gc, sys, torch, weakref
class Big:
    pass
def train():
    big = Big()
    kept.append(weakref.ref(big))
    [{}, sys.exit][len(kept) - 1](3)
def fails(code):
    raise ValueError(code)
kept = []
gc.disable()
weight = torch.ones(1, requires_grad=True)
weight.square().backward()
for _ in range(2):
    try:
        train()
    except (ValueError, SystemExit):
        pass
print([each() for each in kept])
"""


def test_nothing_of_an_exception_is_kept(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(FREED.format("fails"))
    assert Watched(tmp_path, "train.py").out == "[None, None]\n"

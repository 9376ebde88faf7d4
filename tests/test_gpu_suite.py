"""`make test-gpu`: without a GPU it skips in a blink; with one it prints what was seen, and writes a file to send."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ddptui.engines.gpu_checks import GpuInfo, problem
from ddptui.host import gpus
from ddptui.host.gpus import Build, Driver, HostGpu
from ddptui.store.presets import as_toml, load
from tests.gpu import plans, privacy
from tests.gpu.plans import Plan, planned
from tests.gpu.privacy import own_names, without_names
from tests.support.builders import write_preset

REPO = Path(__file__).parents[1]
no_gpu = pytest.mark.skipif(not gpus.surely_none(), reason="there may be a GPU here: all of them would run")


def run(*command: str, folder: Path = REPO, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a command where no registry answers."""
    of_the_suite = ("MAKEFLAGS", "MAKELEVEL", "PYTEST_ADDOPTS")
    own = {name: value for name, value in os.environ.items() if name not in of_the_suite}
    told = {**own, "PIP_NO_INDEX": "1", "PIP_INDEX_URL": "http://127.0.0.1:9", **variables}
    return subprocess.run(command, cwd=folder, env=told, capture_output=True, text=True, timeout=120, check=False)


# What make does


@no_gpu
def test_a_python_that_is_there_runs_them_with_packages_carried_along_and_without_a_gpu_skips(tmp_path: Path) -> None:
    (tmp_path / "carried.py").touch()
    facts = tmp_path / "carried-1.0.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Name: carried\nVersion: 1.0\n")
    (facts / "entry_points.txt").write_text("[pytest11]\ncarried = carried\n")  # a plugin of pytest
    done = run("make", "test-gpu", f"BIN={Path(sys.executable).parent}", f"CARRIED={tmp_path}")
    assert done.returncode == 0, done.stdout + done.stderr
    command, *lines, skipped, summary = done.stdout.splitlines()
    assert command == f"{Path(sys.executable).parent}/python3 -m pytest tests/gpu"  # nothing was installed before
    assert any(line.startswith("plugins: ") and "carried-1.0" in line for line in lines)
    assert skipped.startswith("SKIPPED [39] tests/gpu: needs an NVIDIA GPU, but this machine has none: run it on a")
    assert not [line for line in lines if "SKIPPED" in line or "to send back" in line]
    assert "39 skipped in" in summary


def test_without_the_packages_one_line_says_how_to_get_them(tmp_path: Path) -> None:
    done = run("make", "test-gpu", f"BIN={Path(sys.executable).parent}", f"CARRIED={tmp_path / 'none'}")
    assert (done.returncode, done.stdout) == (2, "")
    line, _ = done.stderr.splitlines()  # the other is make's own
    version = ".".join(map(str, sys.version_info[:2]))
    how = f"run 'make carried FOR={version}' in a checkout that reaches a registry, and copy the folder into this one"
    assert line == f"test-gpu: no {tmp_path / 'none'} here: {how}"


# What is printed, and what is written

MADE_UP = """
import os, pytest
from tests.gpu.judging import Observed

@pytest.fixture(scope="session")
def facts():
    return {"gpus": ["H100"], "nccl_implementations": ["ProcessGroupNCCL"]}

def test_wrong(expect):
    "What is tried. Expected: dark."
    print("the log, in /srv/secret/x.py on node-7.lab.example:29500\\x07")
    expect(Observed(True, "bright"), Observed(False, "midnight"))

def test_of_two(two_gpus):
    "Are there two. Expected: two."

def test_nccl(implementation, expect):
    expect(Observed(True, os.environ["TORCH_DIST_USE_NCCL2"]))
"""
TABLE = """
[1/4] wrong: What is tried.
  expected  dark.
  seen      ✗ midnight; bright
  ✗ NOT AS EXPECTED, under 1 s
[2/4] of_two: Are there two.
  expected  two.
  because   needs 2 GPUs; torch sees 1
  – not run, under 1 s
"""


def test_a_table_is_printed_and_a_file_written(tmp_path: Path) -> None:
    """Of these checks, on a machine that has one GPU."""
    (tmp_path / "test_made_up.py").write_text(MADE_UP)
    words = (sys.executable, "-m", "pytest", "-p", "tests.gpu.conftest")
    done = run(*words, folder=tmp_path, PYTHONPATH=str(REPO))
    [path] = tmp_path.glob("gpu-report-*.json")
    content = json.loads(path.read_text())
    assert done.returncode == 1
    assert TABLE in done.stdout
    assert f": 1 ok, 1 NOT AS EXPECTED, 2 not run\nto send back: {path}" in done.stdout
    assert "4 checks, " in content["summary"]
    assert content["machine"]["torch"]["gpus"] == ["H100"]
    assert not {"host", "executable"} & {*content["machine"]}
    assert [(row["check"], row["seen"], row["verdict"]) for row in content["checks"]] == [
        ("wrong", "✗ midnight; bright", "NOT AS EXPECTED"),
        ("of_two", "needs 2 GPUs; torch sees 1", "not run"),
        ("nccl[ProcessGroupNCCL]", "0", "ok"),
        ("nccl[ProcessGroupNCCL2]", "this torch has no ProcessGroupNCCL2", "not run"),
    ]
    assert content["checks"][0]["log"] == ["the log, in …/x.py on …:29500\\x07"]


NAMES = {"/home/alice": "…", "alice": "USER", "node-7.example.org": "HOST", "node-7": "HOST"}


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("File /home/alice/venv/lib/torch/nn.py, line 3, /home/alice", "File …/nn.py, line 3, …"),
        ("alice@node-7.example.org in job alice_job of ALICE", "USER@HOST in job USER_job of USER"),
        ("open('/data/set/a.bin') in ~bob/lab/b, https://host.example/page", "open('…/a.bin') in …/b, https:…/page"),
        ("bind 10.20.30.40:80, 127.0.0.1:29500, 580.65.06", "bind …:80, 127.0.0.1:29500, 580.65.06"),
        ("fe80::1:2:3:4 and aa:bb:cc:dd:ee:ff at 12:30:45", "… and … at 12:30:45"),
        ("GPU-0f3c5a2e-11aa-22bb on 00000000:1B:00.0, mig-1a2b3c4d-5", "… on 00000000:1B:00.0, …"),
        ("connect to node-7-ib0.cluster.example:29500 on node08.cluster.example", "connect to …:29500 on …"),
        ("node-7:4711:4712, gpu9:4711:4712 [0] NCCL INFO", "HOST:4711:4712, …:4711:4712 [0] NCCL INFO"),
        ("init.cpp:3417, NCCLUtils.hpp:1268, c10::Error", "init.cpp:3417, NCCLUtils.hpp:1268, c10::Error"),
        ("isend/irecv of 64 MB, 3 GB/s, 5/6, and/or, ± 2\n.", "isend/irecv of 64 MB, 3 GB/s, 5/6, and/or, ± 2\\n."),
    ],
)
def test_what_a_stranger_need_not_know_is_taken_out(text: str, left: str) -> None:
    assert without_names(text, NAMES) == left


def test_the_names_of_this_machine_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(privacy.platform, "node", lambda: "node-7.example.org")
    monkeypatch.setattr(privacy.getpass, "getuser", lambda: "alice")
    names = own_names()
    assert {(name, names[name]) for name in ("node-7", "alice", "example.org", str(REPO))} == {
        ("node-7", "HOST"), ("alice", "USER"), ("example.org", "DOMAIN"), (str(REPO), "…"),
    }  # fmt: skip
    monkeypatch.setattr(privacy.platform, "node", lambda: "box.local")
    monkeypatch.setattr(privacy.getpass, "getuser", lambda: "root")
    assert not {"local", "root", "/", ""} & {*own_names()}


# The presets


@pytest.mark.parametrize("name", [name for name, plan in vars(plans).items() if isinstance(plan, Plan)])
def test_a_machine_with_so_many_gpus_starts_a_plan_and_one_with_fewer_refuses(name: str, tmp_path: Path) -> None:
    def refused(number: int) -> bool:
        every = tuple(HostGpu("H100", f"GPU-{index}") for index in range(number))
        machine = GpuInfo(False, Driver("580.65", (13, 0), every), Build("13.0", None), None)
        return any(problem(trial, machine, "") for trial in preset.trials)

    plan = getattr(plans, name)
    preset = planned(plan)
    assert (refused(2), refused(1)) == (False, plan in plans.OF_TWO)
    assert all(trial.device == "cuda" for trial in preset.trials)
    assert load(str(write_preset(tmp_path, as_toml(preset)))).trials == preset.trials

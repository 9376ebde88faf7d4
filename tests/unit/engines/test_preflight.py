"""Room for the ranks, models of the user's own, a compiler: looked at before anything is started, and not run."""

import os
import resource
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from ddptui.config.parser import PresetError
from ddptui.config.trial import Trial, TrialError
from ddptui.config.values import make_trial
from ddptui.engines import checks, command, preflight
from ddptui.engines.checks import CHECKS, no_compiler
from ddptui.host import machine
from ddptui.host.folders import lab_root
from tests.support.builders import preset_of

RUINOUS = "raise SystemExit('this module was run')\n"


def settle(**fields: Any) -> None:
    kind = "primitives" if "primitives" in fields else "training"
    preflight.prepare(preset_of({"kind": kind, "trial": [{"name": "a", **fields}]}))


@pytest.fixture
def limits(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """This process's limit of open files, soft and hard: the last entry."""
    given = [(64, 128)]
    monkeypatch.setattr(resource, "getrlimit", lambda _: given[-1])
    monkeypatch.setattr(resource, "setrlimit", lambda _, pair: given.append(pair))
    return given


def test_the_limit_of_open_files_is_raised_as_far_as_wanted_and_no_further(limits: list[tuple[int, int]]) -> None:
    settle(world_size=2)
    assert limits == [(64, 128)]
    settle(world_size=16)
    assert limits[-1] == (32 + 4 * 16, 128)
    for soft in (resource.RLIM_INFINITY, 64):
        limits.append((soft, resource.RLIM_INFINITY))
        settle(world_size=16)
    assert limits[-1] == (96, resource.RLIM_INFINITY)


@pytest.mark.parametrize(("fields", "wanted"), [({"world_size": 32}, 160), ({"world_size": 16, "launch": "dp"}, 144)])
def test_more_open_files_than_are_allowed_are_refused(
    limits: list[tuple[int, int]], fields: dict[str, Any], wanted: int
) -> None:
    with pytest.raises(
        PresetError, match=f"need {wanted} open files per process, but 128 are allowed: raise `nofile` in .*, or lower"
    ):
        settle(**fields)
    assert limits[-1] == (128, 128)  # as many as may be had


MEASURE = {"primitives": "measure", "world_size": 3, "start": "cold"}


@pytest.mark.parametrize(
    ("fields", "fits"),
    [
        ({"world_size": 4, "start": "cold"}, True),
        ({"world_size": 5, "start": "cold"}, False),
        ({"world_size": 59}, True),
        ({"world_size": 60}, False),
        ({"world_size": 5, "compile": True}, False),  # starts cold
        ({"world_size": 60, "start_method": "fork"}, False),
        ({"world_size": 5, "launch": "launch"}, True),
        ({"world_size": 60, "launch": "dp"}, True),
        ({"world_size": 3, "num_workers": 1, "start": "cold"}, False),
        ({"world_size": 3, "num_workers": 1}, True),
        ({"launch": "single", "num_workers": 4, "start": "cold"}, False),
        (MEASURE | {"max_bytes": 49 * 2**20}, True),  # two of each size: 588 MB
        (MEASURE | {"max_bytes": 51 * 2**20}, False),
        (MEASURE | {"max_bytes": 40 * 2**20, "composites": ["all_gather"]}, False),
        (MEASURE | {"max_bytes": 40 * 2**20, "composites": ["ring"]}, True),
    ],
)
def test_ranks_that_cannot_fit_into_memory_are_refused(
    monkeypatch: pytest.MonkeyPatch, fields: dict[str, Any], fits: bool
) -> None:
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(total=1000 * 2**20))
    monkeypatch.setattr(psutil, "swap_memory", lambda: SimpleNamespace(total=499 * 2**20))
    if fits:
        settle(**fields)
    else:
        with pytest.raises(
            PresetError, match=r"ranks need at least 1,\d\d\d MB, but .* has 1,499 MB: lower world_size"
        ):
            settle(**fields)


@pytest.mark.parametrize("model", [":", "a:", ":b", "a:b:c", "a.:b", "a:b.c", "a b:c", "os:system('id')", "../a:b"])
def test_what_names_no_attribute_is_no_model(model: str) -> None:
    with pytest.raises(TrialError, match="does not name your code"):
        make_trial({"model": model})


def test_a_model_of_ones_own_is_looked_for_and_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ruinous.py").write_text(RUINOUS)
    with pytest.raises(PresetError, match="no module 'ruinous' for 'ruinous:Net': put its folder on PYTHONPATH"):
        settle(model="ruinous:Net")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    settle(model="ruinous:Net")
    settle(model="ruinous.deeper:Net")  # only importing it could tell
    assert "ruinous" not in sys.modules
    for model in ("os:getcwd", "sys:exit", "json:loads"):  # what Python has
        settle(model=model)


def test_the_current_folder_is_not_where_ranks_look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ruinous.py").write_text(RUINOUS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(PresetError, match="no module 'ruinous'"):
        settle(model="ruinous:Net")


def test_ranks_look_into_the_labs_own_folder_and_then_where_the_user_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(["mine", "/theirs", str(lab_root())]))
    path = command.environment(make_trial({}), 2)["PYTHONPATH"]
    assert path.split(os.pathsep) == [str(lab_root()), str(tmp_path / "mine"), "/theirs"]


@pytest.mark.parametrize("package", ["torch", "torchvision"])
def test_without_torch_or_with_one_whose_ranks_would_not_meet_nothing_starts(
    package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(checks, "installed", lambda _: "2.7.1+cu126")
        with pytest.raises(
            PresetError, match=r"torch 2\.7\.1\+cu126 is too old: ddptui needs 2\.8 or newer: `pip inst"
        ):
            settle()
    monkeypatch.setattr(checks, "find_spec", lambda wanted: None if wanted == package else object())
    with pytest.raises(PresetError, match=f"^{package} is not installed: `pip install {package}`$"):
        settle()


def test_the_oldest_torch_is_that_of_the_project_file() -> None:
    project = tomllib.loads((lab_root() / "pyproject.toml").read_text())["project"]
    assert "torch>=" + ".".join(map(str, machine.OLDEST_TORCH)) in project["dependencies"]


def test_a_folder_for_temporary_files_that_takes_none_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", "/dev/null")
    monkeypatch.setenv("TMPDIR", "/dev/null")
    with pytest.raises(PresetError, match=r"/dev/null: temporary files cannot be written .*TMPDIR"):
        settle()


# A compiler

COMPILED = Trial(compile=True)


def test_torch_compile_wants_a_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks.sys, "platform", "linux")
    for name in ("g++", "icpx"):
        (tmp_path / name).write_text("")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    assert no_compiler(COMPILED) is None
    monkeypatch.setenv("CXX", "icpx -O2")
    assert no_compiler(COMPILED) is None
    monkeypatch.setenv("CXX", "clang++")
    assert "needs a C++ compiler, but 'clang++' is missing: install g++" in str(no_compiler(COMPILED))
    monkeypatch.delenv("CXX")
    monkeypatch.setenv("PATH", "/nowhere")
    assert "needs a C++ compiler, but 'g++' is missing: install g++" in str(no_compiler(COMPILED))


def test_a_compiler_that_cannot_be_read_is_said_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "g++ '")
    said = 'CXX is "g++ \'", which cannot be parsed: No closing quotation; set it to a C++ compiler, or `unset CXX`'
    assert no_compiler(COMPILED) == said


def test_a_trial_to_be_compiled_is_refused_without_a_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setattr(checks.shutil, "which", lambda *_, **__: "/usr/bin/g++")
    settle(compile=True)
    monkeypatch.setattr(checks.shutil, "which", lambda *_, **__: None)
    with pytest.raises(PresetError, match=r"trial a: compile: torch.compile needs a C\+\+ compiler.*compile=false"):
        settle(compile=True)
    settle()


def test_on_a_gpu_it_wants_triton(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks.shutil, "which", lambda *_, **__: "/usr/bin/g++")
    monkeypatch.setattr(checks, "find_spec", lambda _: None)
    checks.check_trial("made", Trial(name="a", compile=True), CHECKS)
    with pytest.raises(PresetError, match="needs Triton on a GPU, but it is not installed: `pip install triton`, or"):
        checks.check_trial("made", Trial(name="a", compile=True, device="cuda"), CHECKS)

"""Room for the ranks, and models of the user's own: looked at before anything is started, without running any of it."""

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
from ddptui.config.trial import TrialError
from ddptui.config.values import make_trial
from ddptui.engines import checks, command, preflight
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


@pytest.mark.parametrize(("fields", "wanted"), [({"world_size": 32}, 160), ({"world_size": 16, "launch": "dp"}, 144)])
def test_more_open_files_than_are_allowed_are_refused(
    limits: list[tuple[int, int]], fields: dict[str, Any], wanted: int
) -> None:
    with pytest.raises(
        PresetError, match=f"need {wanted} open files per process, but 128 are allowed: raise `nofile` in .*, or lower"
    ):
        settle(**fields)
    assert limits[-1] == (128, 128)  # as many as may be had


def test_no_limit_is_enough(limits: list[tuple[int, int]]) -> None:
    limits.append((resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    settle(world_size=16)
    limits.append((64, resource.RLIM_INFINITY))
    settle(world_size=16)
    assert limits[-1] == (96, resource.RLIM_INFINITY)


MEASURE = {"primitives": "measure", "world_size": 3, "start": "cold"}


@pytest.mark.parametrize(
    ("fields", "fits"),
    [
        ({"world_size": 4, "start": "cold"}, True),
        ({"world_size": 5, "start": "cold"}, False),
        ({"world_size": 59}, True),
        ({"world_size": 60}, False),
        ({"world_size": 5, "compile": True}, False),  # starts cold
        ({"world_size": 59, "start_method": "fork"}, True),
        ({"world_size": 60, "start_method": "fork"}, False),
        ({"world_size": 5, "start": "cold", "launch": "launch"}, False),
        ({"world_size": 5, "launch": "launch"}, True),
        ({"world_size": 60, "launch": "dp"}, True),
        ({"world_size": 3, "num_workers": 1, "start": "cold"}, False),
        ({"world_size": 3, "num_workers": 1}, True),
        ({"world_size": 2, "num_workers": 2}, True),
        ({"launch": "single", "num_workers": 4, "start": "cold"}, False),
        ({"primitives": "see", "world_size": 4, "start": "cold"}, True),
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


def test_the_current_folder_is_not_where_ranks_look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ruinous.py").write_text(RUINOUS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(PresetError, match="no module 'ruinous'"):
        settle(model="ruinous:Net")


@pytest.mark.parametrize("model", ["os:getcwd", "sys:exit", "json:loads"])
def test_what_python_has_is_found(model: str) -> None:
    settle(model=model)


def test_ranks_look_into_the_labs_own_folder_and_then_where_the_user_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(["mine", "/theirs", str(lab_root())]))
    path = command.environment(make_trial({}), 2)["PYTHONPATH"]
    assert path.split(os.pathsep) == [str(lab_root()), str(tmp_path / "mine"), "/theirs"]


def test_a_torch_whose_ranks_would_not_meet_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "installed", lambda _: "2.7.1+cu126")
    with pytest.raises(PresetError, match=r"torch 2\.7\.1\+cu126 is too old: ddptui needs 2\.8 or newer: `pip install"):
        preflight.prepare(preset_of({"trial": [{"name": "a"}]}))


@pytest.mark.parametrize("package", ["torch", "torchvision"])
def test_without_torch_it_is_said_what_to_install(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "find_spec", lambda wanted: None if wanted == package else object())
    with pytest.raises(PresetError, match=f"^{package} is not installed: `pip install {package}`$"):
        preflight.prepare(preset_of({"trial": [{"name": "a"}]}))


def test_the_oldest_torch_is_that_of_the_project_file() -> None:
    project = tomllib.loads((lab_root() / "pyproject.toml").read_text())["project"]
    assert "torch>=" + ".".join(map(str, machine.OLDEST_TORCH)) in project["dependencies"]


def test_a_folder_for_temporary_files_that_takes_none_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", "/dev/null")
    monkeypatch.setenv("TMPDIR", "/dev/null")
    with pytest.raises(PresetError, match=r"/dev/null: temporary files cannot be written .*TMPDIR"):
        settle()

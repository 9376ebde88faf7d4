"""Room for the ranks, models of the user's own, a compiler, GPUs: looked at before anything is started, and not run."""

import os
import re
import resource
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from ddptui.config.checks import NO_SENDING
from ddptui.config.parser import PresetError, parse
from ddptui.config.trial import Trial, TrialError
from ddptui.config.values import make_trial, parse_assignment
from ddptui.engines import base, checks, gpu_checks
from ddptui.engines.checks import CHECKS
from ddptui.engines.gpu_checks import GpuInfo, problem, without_gpus
from ddptui.host import gpus
from ddptui.host.folders import lab_root
from ddptui.host.gpus import Build, Driver, HostGpu
from ddptui.host.machine import OLDEST_TORCH
from tests.support.builders import preset_of

RUINOUS = "raise SystemExit('this module was run')\n"


def settle(**fields: Any) -> None:
    kind = "primitives" if "primitives" in fields else "training"
    checks.prepare(preset_of({"kind": kind, "trial": [{"name": "a", **fields}]}))


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
def test_too_many_open_files_are_refused(limits: list[tuple[int, int]], fields: dict[str, Any], wanted: int) -> None:
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
        ({"world_size": 5, "launch": "launch"}, True),
        ({"world_size": 3, "num_workers": 1, "start": "cold"}, False),
        ({"launch": "single", "num_workers": 4, "start": "cold"}, False),
        (MEASURE | {"max_bytes": 49 * 2**20}, True),  # two of each size: 588 MB
        (MEASURE | {"max_bytes": 51 * 2**20}, False),
        (MEASURE | {"max_bytes": 40 * 2**20, "composites": ["all_gather"]}, False),
        (MEASURE | {"max_bytes": 40 * 2**20, "composites": ["ring"]}, True),
    ],
)
def test_ranks_must_fit_into_memory(monkeypatch: pytest.MonkeyPatch, fields: dict[str, Any], fits: bool) -> None:
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


def test_ranks_look_where_the_lab_is_then_where_users_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(["mine", "/theirs", str(lab_root())]))
    path = base.rank_environment(make_trial({}), 2)["PYTHONPATH"]
    assert path.split(os.pathsep) == [str(lab_root()), str(tmp_path / "mine"), "/theirs"]


@pytest.mark.parametrize("package", ["torch", "torchvision"])
def test_without_torch_or_with_one_too_old_nothing_starts(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
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
    assert "torch>=" + ".".join(map(str, OLDEST_TORCH)) in project["dependencies"]


def test_a_folder_for_temporary_files_that_takes_none_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", "/dev/null")
    monkeypatch.setenv("TMPDIR", "/dev/null")
    with pytest.raises(PresetError, match=r"/dev/null: temporary files cannot be written .*TMPDIR"):
        settle()


# A compiler


def test_torch_compile_wants_a_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks.sys, "platform", "linux")
    for name in ("g++", "icpx"):
        (tmp_path / name).write_text("")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    settle(compile=True)
    monkeypatch.setenv("CXX", "icpx -O2")
    settle(compile=True)
    monkeypatch.setenv("CXX", "clang++")
    with pytest.raises(PresetError, match=r"needs a C\+\+ compiler, but 'clang\+\+' is missing: install g\+\+"):
        settle(compile=True)
    monkeypatch.delenv("CXX")
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(PresetError, match=r"trial a: compile: torch.compile needs .* but 'g\+\+' .*compile=false"):
        settle(compile=True)
    settle()


def test_on_a_gpu_it_wants_triton(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks.shutil, "which", lambda *_, **__: "/usr/bin/g++")
    monkeypatch.setattr(checks, "find_spec", lambda _: None)
    checks.check_trial("made", Trial(name="a", compile=True), CHECKS)
    with pytest.raises(PresetError, match="needs Triton on a GPU, but it is not installed: `pip install triton`, or"):
        checks.check_trial("made", Trial(name="a", compile=True, device="cuda"), CHECKS)


# GPUs


TORCH = Build("13.2", None)
OTHERWISE = ", or `--set device=cpu`"
DOCTOR = (
    "run it on a machine that has one (a container sees them after `docker run --gpus all`; `ddptui doctor` shows what "
    "a machine has)"
)
NO_GPU = GpuInfo(surely_none=True, driver=None, build=TORCH, visible=None)


def with_gpus(
    number: int, visible: str | None = None, cuda: tuple[int, int] = (13, 0), build: Build | None = TORCH
) -> GpuInfo:
    every = tuple(HostGpu("H100", f"GPU-{index}") for index in range(number))
    return GpuInfo(surely_none=False, driver=Driver("580.65", cuda, every), build=build, visible=visible)


UNKNOWN = GpuInfo(surely_none=False, driver=None, build=TORCH, visible=None)


CUDA = {"device": "cuda"}
NONE = "device: 'cuda' needs an NVIDIA GPU, but this machine has none"
HIDDEN = "CUDA_VISIBLE_DEVICES is '{}', which hides every GPU"
UNSET = "`unset CUDA_VISIBLE_DEVICES`, or `--set"
NO_TWO = "NCCL refuses two ranks on one: `--set share_gpu=true{}` lets them share it over gloo, or lower world_size"
ONLY_GLOO = "the ranks share a GPU, which only gloo allows; "
NOT_BUILT = "this torch is built without CUDA: `pip install --force-reinstall torch torchvision` (on Linux: with CUDA)"
TOO_OLD = (
    "the driver 580.65 (CUDA 12.4) is too old for this torch, which is built for CUDA 13.2: update the driver, or "
    "install a torch for an older CUDA (pytorch.org/get-started)"
)


@pytest.mark.parametrize(
    ("fields", "machine", "says"),
    [
        (CUDA, NO_GPU, f"{NONE}: {DOCTOR}{OTHERWISE}"),
        (CUDA, NO_GPU._replace(visible=""), f"{NONE} (besides, {HIDDEN.format('')}): {DOCTOR}{OTHERWISE}"),
        ({"backend": "nccl"}, NO_GPU, "backend: 'nccl' needs NVIDIA GPUs, but this machine has none"),
        ({"sync_batchnorm": True}, NO_GPU, "sync_batchnorm: torch's SyncBatchNorm runs on GPUs only, but this machine"),
        (CUDA, with_gpus(2, build=Build(None, None)), f"needs an NVIDIA GPU, but {NOT_BUILT}{OTHERWISE}"),
        (CUDA, with_gpus(2, visible="-1"), f"{HIDDEN.format(-1)}: {UNSET}"),
        (CUDA, UNKNOWN._replace(visible=""), f"{HIDDEN.format('')}: {UNSET}"),
        (CUDA, with_gpus(2, visible="7"), "is '7', which names none (this machine has GPUs 0 to 1): `unset CUDA_VIS"),
        (CUDA, with_gpus(2, cuda=(12, 4)), f"{TOO_OLD}{OTHERWISE}"),
        (CUDA, with_gpus(1), f"world_size: 2 ranks need 2 GPUs, but this machine has 1; {NO_TWO.format('')}"),
        ({**CUDA, "backend": "nccl", "world_size": 4}, with_gpus(4, visible="0,1"),
         "world_size: 4 ranks need 4 GPUs, but CUDA_VISIBLE_DEVICES='0,1' leaves 2 of 4; "
         + NO_TWO.format(" --set backend=auto")),
        ({**CUDA, "launch": "dp"}, with_gpus(1),
         "world_size: 2 replicas need a GPU each, but this machine has 1: lower world_size"),
        ({**CUDA, "gpus_per_rank": 2}, with_gpus(3),
         "gpus_per_rank: 4 GPUs are needed (gpus_per_rank × world_size = 2 × 2), but this machine has 3: lower one"),
        ({**CUDA, "share_gpu": True, "strategy": "ring"}, with_gpus(1),
         f"strategy: {ONLY_GLOO}'ring' sends from rank to rank, but {NO_SENDING}"),
        ({"share_gpu": True, "primitives": "see"}, with_gpus(1), f"operations: {ONLY_GLOO}{NO_SENDING}"),
        ({"backend": "gloo", "strategy": "ring"}, with_gpus(2),
         f"strategy: 'ring' sends from rank to rank, but {NO_SENDING}; choose another strategy"),
    ],
)  # fmt: skip
def test_what_a_machine_cannot_run_is_said_with_what_to_do(fields: dict[str, Any], machine: GpuInfo, says: str) -> None:
    found = problem(make_trial(fields), machine, OTHERWISE)
    assert found.startswith(says) or says in found
    assert "\n" not in found


@pytest.mark.parametrize(
    ("fields", "machine"),
    [
        ({}, NO_GPU),
        ({"gpus_per_rank": 2}, with_gpus(2, visible="")),
        ({"device": "cuda"}, with_gpus(2)),
        ({"device": "cuda"}, with_gpus(2, build=None)),
        ({"device": "cuda", "share_gpu": True}, with_gpus(1)),
        ({"device": "cuda", "share_gpu": True, "strategy": "ring"}, with_gpus(2)),
        ({"device": "cuda"}, UNKNOWN),  # only the ranks can tell
        ({"device": "cuda"}, UNKNOWN._replace(build=Build(None, "6.2"))),
        ({"gpus_per_rank": 2}, with_gpus(3)),  # threads on the CPU stand for them, and the ranks say why
        ({"share_gpu": True, "strategy": "ring"}, with_gpus(2)),  # one each, over NCCL
        ({"backend": "gloo", "strategy": "ring"}, with_gpus(1)),  # on the CPU
        ({"backend": "gloo", "share_gpu": True}, with_gpus(1)),
    ],
)
def test_what_it_can_run_or_only_the_ranks_can_tell_is_let_through(fields: dict[str, Any], machine: GpuInfo) -> None:
    assert problem(make_trial(fields), machine, OTHERWISE) is None


# What does without GPUs


@pytest.mark.parametrize(
    ("fields", "instead"),
    [
        ({"device": "cuda"}, "`--set device=cpu`"),
        ({"device": "cuda", "backend": "nccl"}, "`--set device=cpu --set backend=auto`"),
        ({"device": "cuda", "share_gpu": True}, "`--set device=cpu --set share_gpu=false`"),
        ({"device": "cuda", "pin_memory": True}, "`--set device=cpu --set pin_memory=false`"),
        ({"sync_batchnorm": True}, "`--set sync_batchnorm=false`"),
        ({"backend": "nccl"}, "`--set backend=auto`"),
    ],
)
def test_what_is_said_to_do_without_gpus_does(fields: dict[str, Any], instead: str) -> None:
    """It is laid over the preset as a command line would, and then nothing is wrong any more."""
    table = {"trial": [{"name": "a", **fields}, {"name": "b", "launch": "dp", "device": fields.get("device", "auto")}]}
    assert without_gpus(parse("made", table, {}).trials) == f", or {instead}"
    overrides = dict(word.split("=") for word in re.findall(r"\S+=\S+", instead.strip("`")))
    typed = dict(map(parse_assignment, map("=".join, overrides.items())))
    for trial in parse("made", table, typed).trials:
        assert problem(trial, NO_GPU, "") is None


@pytest.mark.parametrize(
    "matrix",
    [
        {"backend": ["nccl", "gloo"], "strategy": ["ddp", "flat"]},
        {"sync_batchnorm": [False, True]},
        {"device": ["cuda"], "share_gpu": [False, True]},
    ],
)
def test_what_takes_the_question_away_is_not_offered(matrix: dict[str, list[Any]]) -> None:
    trials = parse("made", {"matrix": matrix}, {}).trials
    assert without_gpus(trials) == ""
    why = next(found for trial in trials if (found := problem(trial, NO_GPU, without_gpus(trials))))
    assert why.endswith("what a machine has)")


def test_trials_that_are_alike_anyway_take_nothing_away_and_what_would_be_refused_next_is_not_offered() -> None:
    trials = parse("made", {"trial": [{"name": name, "device": "cuda"} for name in "ab"]}, {}).trials
    assert without_gpus(trials) == OTHERWISE
    found = problem(make_trial({"device": "cuda", "strategy": "ring"}), with_gpus(1), OTHERWISE)
    assert str(found).endswith("; NCCL refuses two ranks on one: lower world_size")


# As a run is prepared


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> list[GpuInfo]:
    """The machine that is found: the last entry."""
    found = [NO_GPU]
    monkeypatch.setattr(gpu_checks, "look_at_gpus", lambda: found[-1])
    return found


TWO = {"trial": [{"name": "cpu"}, {"name": "gpus", "device": "cuda"}]}


def test_a_later_trial_is_refused_before_the_first_one_starts(machine: list[GpuInfo]) -> None:
    with pytest.raises(PresetError, match=r"^made, trial gpus: device: 'cuda' needs an NVIDIA GPU"):
        checks.prepare(preset_of(TWO))
    machine.append(with_gpus(2))
    assert [trial.name for trial in checks.prepare(preset_of(TWO)).trials] == ["cpu", "gpus"]
    with pytest.raises(PresetError, match=r"^made, trial a: strategy: 'ring' sends from rank to rank"):
        settle(strategy="ring", backend="gloo")


@pytest.mark.usefixtures("machine")
def test_a_preset_about_gpus_is_not_sent_to_the_cpu() -> None:
    alone = {"trial": [{"name": "gpus", "device": "cuda"}]}
    with pytest.raises(PresetError, match=r", or `--set device=cpu`$"):
        checks.prepare(preset_of(alone))
    with pytest.raises(PresetError, match=r"what a machine has\)$"):
        checks.prepare(preset_of({**alone, "group": "GPUs"}))


@pytest.mark.usefixtures("machine")
def test_what_is_only_shown_need_not_run_here() -> None:
    checks.prepare(preset_of(TWO), to_be_started=False)
    checks.prepare(preset_of({**TWO, "engine": {"name": "join", "interface": "lo"}}), to_be_started=False)


def test_nobody_looks_at_gpus_for_trials_that_want_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(gpus.VISIBLE, "5")
    found = gpu_checks.look_at_gpus()
    assert (found.surely_none, found.build, found.visible) == (gpus.surely_none(), gpus.built_for(), "5")
    monkeypatch.setattr(gpu_checks, "look_at_gpus", lambda: pytest.fail("it looked"))
    over_gloo = {"strategy": "ring", "backend": "gloo"}
    wanting_none = [{}, {"launch": "dp"}, {"strategy": "ring"}, {"backend": "gloo"}, {**over_gloo, "device": "cpu"}]
    for fields in wanting_none:
        settle(**fields)


def test_a_node_that_joined_looks_at_its_own_ranks(machine: list[GpuInfo]) -> None:
    trial = make_trial({"name": "a", "device": "cuda", "world_size": 4})
    machine.append(with_gpus(2))
    assert checks.prepare_trial(trial, local_ranks=2).world_size == 4
    with pytest.raises(PresetError, match="3 ranks need 3 GPUs, but this machine has 2"):
        checks.prepare_trial(trial, local_ranks=3)
    machine.append(NO_GPU)
    with pytest.raises(PresetError, match=r"this machine has none: .*what a machine has\)$"):
        checks.prepare_trial(trial, local_ranks=2)

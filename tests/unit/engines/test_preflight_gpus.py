"""What is refused before anything starts for want of GPUs; and what each refusal says to do."""

import re
from typing import Any

import pytest

from ddptui.config.checks import NO_SENDING
from ddptui.config.parser import PresetError, parse
from ddptui.config.trial_text import parse_assignment
from ddptui.config.values import make_trial
from ddptui.engines import preflight, preflight_gpus
from ddptui.engines.preflight_gpus import GpuInfo, problem, wants_to_know, without_gpus
from ddptui.host import gpus
from ddptui.host.gpus import Build, Driver, Gpu
from tests.support.builders import preset_of

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
    every = tuple(Gpu("H100", f"GPU-{index}") for index in range(number))
    return GpuInfo(surely_none=False, driver=Driver("580.65", cuda, every), build=build, visible=visible)


UNKNOWN = GpuInfo(surely_none=False, driver=None, build=TORCH, visible=None)


CUDA = {"device": "cuda"}
NONE = "device: 'cuda' needs an NVIDIA GPU, but this machine has none"
HIDDEN = "CUDA_VISIBLE_DEVICES is '{}', which hides every GPU: `unset CUDA_VISIBLE_DEVICES`, or `--set"
NO_TWO = "NCCL refuses two ranks on one: `--set share_gpu=true{}` lets them share it over gloo, or lower world_size"
ONLY_GLOO = "the ranks share a GPU, which only gloo allows; "
NOT_BUILT = "this torch is built without CUDA: `pip install --force-reinstall torch torchvision` (on Linux: with CUDA)"
TOO_OLD = (
    "the driver 580.65 (CUDA 12.4) is too old for this torch, which is built for CUDA 13.2: update the driver, or install "
    "a torch for an older CUDA (pytorch.org/get-started)"
)


@pytest.mark.parametrize(
    ("fields", "machine", "says"),
    [
        (CUDA, NO_GPU, f"{NONE}: {DOCTOR}{OTHERWISE}"),
        (CUDA, NO_GPU._replace(visible=""), f"{NONE} (besides, {HIDDEN.format('')[:46]}): {DOCTOR}{OTHERWISE}"),
        ({"backend": "nccl"}, NO_GPU, "backend: 'nccl' needs NVIDIA GPUs, but this machine has none"),
        ({"sync_batchnorm": True}, NO_GPU, "sync_batchnorm: torch's SyncBatchNorm runs on GPUs only, but this machine"),
        (CUDA, with_gpus(0), NONE),
        (CUDA, with_gpus(2, build=Build(None, None)), f"needs an NVIDIA GPU, but {NOT_BUILT}{OTHERWISE}"),
        (CUDA, with_gpus(2, visible=""), HIDDEN.format("")),
        (CUDA, with_gpus(2, visible="-1"), HIDDEN.format("-1")),
        (CUDA, UNKNOWN._replace(visible=""), HIDDEN.format("")),
        (CUDA, with_gpus(2, visible="7"), "is '7', which names none (this machine has GPUs 0 to 1): `unset CUDA_VIS"),
        (CUDA, with_gpus(2, cuda=(12, 4)), f"{TOO_OLD}{OTHERWISE}"),
        (CUDA, with_gpus(1), f"world_size: 2 ranks need 2 GPUs, but this machine has 1; {NO_TWO.format('')}"),
        ({**CUDA, "backend": "nccl", "world_size": 4}, with_gpus(4, visible="0,1"),
         "world_size: 4 ranks need 4 GPUs, but CUDA_VISIBLE_DEVICES='0,1' leaves 2 of 4; "
         + NO_TWO.format(" --set backend=auto")),
        ({"backend": "nccl"}, with_gpus(1), "2 ranks need 2 GPUs, but this machine has 1; NCCL refuses two ranks on"),
        ({"sync_batchnorm": True}, with_gpus(1), "2 ranks need 2 GPUs, but this machine has 1"),
        ({**CUDA, "launch": "dp"}, with_gpus(1),
         "world_size: 2 replicas need a GPU each, but this machine has 1: lower world_size"),
        ({**CUDA, "gpus_per_rank": 2}, with_gpus(3),
         "gpus_per_rank: 2 ranks with 2 GPUs each need 4, but this machine has 3: lower gpus_per_rank or world_size"),
        ({**CUDA, "gpus_per_rank": 2, "world_size": 1}, with_gpus(1),
         "gpus_per_rank: 1 rank needs 2 GPUs, but this machine has 1: lower gpus_per_rank"),
        ({**CUDA, "share_gpu": True, "strategy": "ring"}, with_gpus(1),
         f"strategy: {ONLY_GLOO}'ring' sends from rank to rank, but {NO_SENDING}"),
        ({"share_gpu": True, "primitives": "see"}, with_gpus(1), f"operations: {ONLY_GLOO}{NO_SENDING}"),
        ({"backend": "gloo", "strategy": "ring"}, with_gpus(2),
         f"strategy: 'ring' sends from rank to rank, but {NO_SENDING}; choose another strategy"),
    ],
)  # fmt: skip
def test_what_a_machine_cannot_run_is_said_with_what_to_do(fields: dict[str, Any], machine: GpuInfo, says: str) -> None:
    found = problem(make_trial(fields), machine, OTHERWISE)
    assert found is not None
    assert found.startswith(says) or says in found
    assert "\n" not in found


@pytest.mark.parametrize(
    ("fields", "machine"),
    [
        ({}, NO_GPU),
        ({"gpus_per_rank": 2}, NO_GPU),  # replicas are threads on the CPU
        ({"gpus_per_rank": 2}, with_gpus(2, visible="")),
        ({"launch": "dp"}, with_gpus(1)),
        ({"device": "cuda"}, with_gpus(2)),
        ({"device": "cuda"}, with_gpus(4, visible="3,1")),
        ({"device": "cuda"}, with_gpus(2, build=None)),
        ({"device": "cuda", "share_gpu": True}, with_gpus(1)),
        ({"device": "cuda", "share_gpu": True, "strategy": "ring"}, with_gpus(2)),
        ({"device": "cuda"}, UNKNOWN),  # only the ranks can tell
        ({"device": "cuda"}, UNKNOWN._replace(build=Build(None, "6.2"))),
        ({"gpus_per_rank": 2}, with_gpus(3)),  # threads on the CPU stand for them, and the ranks say why
        ({"share_gpu": True, "strategy": "ring"}, with_gpus(2)),  # one each, over NCCL
        ({"backend": "gloo", "strategy": "ring"}, with_gpus(1)),  # on the CPU
        ({"backend": "gloo", "strategy": "ring"}, NO_GPU),
        ({"backend": "gloo", "share_gpu": True}, with_gpus(1)),
        ({"device": "cuda", "launch": "single"}, with_gpus(1)),
    ],
)
def test_what_it_can_run_or_only_the_ranks_can_tell_is_let_through(fields: dict[str, Any], machine: GpuInfo) -> None:
    assert problem(make_trial(fields), machine, OTHERWISE) is None


def test_what_would_be_refused_next_is_not_offered() -> None:
    found = problem(make_trial({"device": "cuda", "strategy": "ring"}), with_gpus(1), OTHERWISE)
    assert str(found).endswith("; NCCL refuses two ranks on one: lower world_size")


@pytest.mark.parametrize(
    ("fields", "wants"),
    [
        ({}, False),
        ({"gpus_per_rank": 2}, False),
        ({"strategy": "ring"}, False),
        ({"backend": "gloo"}, False),
        ({"strategy": "ring", "share_gpu": True}, True),
        ({"strategy": "ring", "backend": "gloo"}, True),
        ({"strategy": "ring", "backend": "gloo", "device": "cpu"}, False),
        ({"primitives": "see", "share_gpu": True}, True),
    ],
)
def test_gpus_are_looked_for_where_they_matter(fields: dict[str, Any], wants: bool) -> None:
    assert wants_to_know(make_trial(fields)) is wants


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
        {"device": ["cpu", "cuda"]},
        {"sync_batchnorm": [False, True]},
        {"device": ["cuda"], "share_gpu": [False, True]},
    ],
)
def test_what_takes_the_question_away_is_not_offered(matrix: dict[str, list[Any]]) -> None:
    trials = parse("made", {"matrix": matrix}, {}).trials
    assert without_gpus(trials) == ""
    why = next(found for trial in trials if (found := problem(trial, NO_GPU, without_gpus(trials))))
    assert why.endswith("what a machine has)")


def test_trials_that_are_alike_anyway_take_nothing_away() -> None:
    trials = parse("made", {"trial": [{"name": name, "device": "cuda"} for name in "ab"]}, {}).trials
    assert without_gpus(trials) == OTHERWISE


# As a run is prepared


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> list[GpuInfo]:
    """The machine that is found: the last entry."""
    found = [NO_GPU]
    monkeypatch.setattr(preflight_gpus, "look_at_gpus", lambda: found[-1])
    return found


TWO = {"trial": [{"name": "cpu"}, {"name": "gpus", "device": "cuda"}]}


def test_a_later_trial_is_refused_before_the_first_one_starts(machine: list[GpuInfo]) -> None:
    with pytest.raises(PresetError, match=r"^made, trial gpus: device: 'cuda' needs an NVIDIA GPU"):
        preflight.prepare(preset_of(TWO))
    machine.append(with_gpus(2))
    assert [trial.name for trial in preflight.prepare(preset_of(TWO)).trials] == ["cpu", "gpus"]


@pytest.mark.usefixtures("machine")
def test_a_preset_about_gpus_is_not_sent_to_the_cpu() -> None:
    alone = {"trial": [{"name": "gpus", "device": "cuda"}]}
    with pytest.raises(PresetError, match=r", or `--set device=cpu`$"):
        preflight.prepare(preset_of(alone))
    with pytest.raises(PresetError, match=r"what a machine has\)$"):
        preflight.prepare(preset_of({**alone, "group": "GPUs"}))


@pytest.mark.usefixtures("machine")
def test_what_is_only_shown_need_not_run_here() -> None:
    preflight.prepare(preset_of(TWO), to_be_started=False)
    preflight.prepare(preset_of({**TWO, "engine": {"name": "join", "interface": "lo"}}), to_be_started=False)


def test_nobody_looks_at_gpus_for_trials_that_want_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preflight_gpus, "look_at_gpus", lambda: pytest.fail("it looked"))
    preflight.prepare(preset_of({"trial": [{"name": "a"}, {"name": "b", "launch": "dp"}]}))


def test_a_node_that_joined_looks_at_its_own_ranks(machine: list[GpuInfo]) -> None:
    trial = make_trial({"name": "a", "device": "cuda", "world_size": 4})
    machine.append(with_gpus(2))
    assert preflight.prepare_trial(trial, local_ranks=2).world_size == 4
    with pytest.raises(PresetError, match="3 ranks need 3 GPUs, but this machine has 2"):
        preflight.prepare_trial(trial, local_ranks=3)
    machine.append(NO_GPU)
    with pytest.raises(PresetError, match=r"this machine has none: .*what a machine has\)$"):
        preflight.prepare_trial(trial, local_ranks=2)


def test_this_machine_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(gpus.VISIBLE, "5")
    found = preflight_gpus.look_at_gpus()
    assert (found.surely_none, found.build, found.visible) == (gpus.surely_none(), gpus.built_for(), "5")

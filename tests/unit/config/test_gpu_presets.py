"""The presets of the group GPUs: what they say they need is what they need, and what was published is in them."""

import pytest

from ddptui.engines.preflight_gpus import GpuInfo, problem
from ddptui.host.folders import lab_root
from ddptui.host.gpus import Build, Driver, Gpu
from ddptui.report.notes import notes
from ddptui.store.presets import load
from tests.support.builders import journal, results_for

NEEDED = {"gpu-quickstart": 1, "gpu-amp": 1, "dp-vs-ddp": 2, "gpu-backends": 2}


def with_gpus(number: int) -> GpuInfo:
    every = tuple(Gpu("P100", f"GPU-{index}") for index in range(number))
    return GpuInfo(surely_none=False, driver=Driver("580.65", (13, 0), every), build=Build("13.0", None), visible=None)


def refused(name: str, gpus: int) -> list[str]:
    """The trials that a machine with so many GPUs cannot run."""
    return [trial.name for trial in load(name).trials if problem(trial, with_gpus(gpus), "")]


def test_every_one_of_them_is_held_to_what_it_says() -> None:
    in_group = {path.stem for path in (lab_root() / "presets").glob("*.toml") if load(path.stem).group == "GPUs"}
    assert in_group == {*NEEDED}


@pytest.mark.parametrize(("name", "gpus"), NEEDED.items())
def test_with_as_many_gpus_as_it_says_it_runs_and_with_fewer_it_does_not(name: str, gpus: int) -> None:
    assert f"Needs {'one NVIDIA GPU' if gpus == 1 else 'two NVIDIA GPUs'}" in load(name).about
    assert refused(name, gpus) == []
    assert refused(name, gpus - 1)


def test_the_trials_of_one_gpu_share_it_only_where_they_say_so() -> None:
    assert [trial.name for trial in load("gpu-quickstart").trials if trial.share_gpu] == ["two-share-it"]
    told_not_to = load("gpu-quickstart", {"share_gpu": False}).trials
    assert [trial.name for trial in told_not_to if problem(trial, with_gpus(1), "")] == ["two-share-it"]


def test_the_published_figures_of_the_demos_stand_beside_ours() -> None:
    preset = load("dp-vs-ddp")
    told = {each.trial: (each.train_time_s, each.step_ms) for each in preset.references}
    assert told == {"single": (2 * 60 + 34, 1040), "v1-dp": (2 * 60 + 17, 700), "v2-ddp": (2 * 60 + 9, 600)}
    of_run = notes(results_for(preset, *(journal(trial.name) for trial in preset.trials)), preset)
    source, *lines = [note.text for note in of_run if note.kind == "published"]
    assert [line.split("; ")[1] for line in lines] == [
        "ratio 1.00 here, 1.00 published",
        "ratio 1.00 here, 0.89 published",
        "ratio 1.00 here, 0.84 published",
    ]
    assert source.startswith("published: pytorch distributed training demos v1, v2, v3 (README)")


def test_the_global_batch_is_the_same_in_all_trials() -> None:
    """But for what is asked, they do the same work."""
    for name in NEEDED:
        assert len({(trial.batch_size, trial.model, trial.dataset) for trial in load(name).trials}) == 1

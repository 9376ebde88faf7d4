"""Shipped presets of GPUs and of primitives: what they need and show before they are run."""

import pytest

from ddptui.config.fields import FIELDS
from ddptui.config.parser import PresetError
from ddptui.config.preset import Preset
from ddptui.config.values import make_trial, parse_assignment
from ddptui.engines.gpu_checks import GpuInfo, problem
from ddptui.host.folders import lab_root
from ddptui.host.gpus import Build, Driver, HostGpu
from ddptui.report.preset_columns import differs, facts
from ddptui.run.by_hand import one
from ddptui.store.presets import load
from ddptui.tui import draft as drafts
from ddptui.tui.draft import Draft, common, others

NEEDED = {"gpu-quickstart": 1, "gpu-amp": 1, "dp-vs-ddp": 2, "gpu-backends": 2}


def with_gpus(number: int) -> GpuInfo:
    every = tuple(HostGpu("P100", f"GPU-{index}") for index in range(number))
    return GpuInfo(surely_none=False, driver=Driver("580.65", (13, 0), every), build=Build("13.0", None), visible=None)


def refused(name: str, gpus: int) -> list[str]:
    """The trials that a machine with so many GPUs cannot run."""
    return [trial.name for trial in load(name).trials if problem(trial, with_gpus(gpus), "")]


def test_every_preset_of_the_group_says_what_it_needs_and_its_trials_do_the_same_work() -> None:
    in_group = {path.stem for path in (lab_root() / "presets").glob("*.toml") if load(path.stem).group == "GPUs"}
    assert in_group == {*NEEDED}
    for name in NEEDED:
        assert len({(trial.batch_size, trial.model, trial.dataset) for trial in load(name).trials}) == 1


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


SEE, MEASURE, ALGORITHMS = "primitives-see", "primitives-measure", "algorithms"
NOT_OF_IT = {"strategy", "average", "model", "dataset", "batch_size"}


def cells_by_header(preset: Preset) -> dict[str, tuple[str, ...]]:
    return {fact.header: tuple(fact.cells) for fact in facts(preset)}


def test_the_table_has_columns_of_what_is_tried_and_none_of_training() -> None:
    seen, measured = cells_by_header(load(SEE)), cells_by_header(load(MEASURE))
    assert [*seen] == ["trial", "launch", "ranks", "primitives", "are", "by", "root"]
    assert (seen["are"], seen["by"]) == (("shown",), ("all",))
    assert [*measured] == ["trial", "ranks", "launch", "primitives", "are", "by", "sizes", "calls", "cadence", "root"]
    assert measured["sizes"] == ("1 KB to 64 MB",) * 2
    assert measured["calls"] == ("≤ 100 in 1 s",) * 2
    assert not {*seen, *measured} & {"model", "data", "batch", "length", "strategy"}


def test_a_field_of_primitives_that_differs_sets_trials_apart() -> None:
    shared = {"primitives": "measure", "operations": ["all_reduce", "reduce", "broadcast"]}
    trials = [
        make_trial(shared | {"name": "a", "step_factor": 2}),
        make_trial(shared | {"name": "b", "cadence": "barrier", "operations": ["reduce"]}),
    ]
    preset = Preset(
        name="x", title="", group="", about="", baseline="a", repeats=1, trials=tuple(trials), kind="primitives"
    )
    apart = {fact.header: tuple(fact.cells) for fact in facts(preset)[1:] if differs(fact)}
    assert apart == {"primitives": ("3", "reduce"), "cadence": ("back to back", "barrier"), "step_factor": ("2", "4")}


@pytest.mark.parametrize(
    ("name", "words"),
    [(SEE, ["are shown", "primitives all"]), (MEASURE, ["are measured", "sizes 1 KB to 64 MB", "back to back"])],
)
def test_the_listing_says_what_is_tried_and_neither_model_nor_data(name: str, words: list[str]) -> None:
    [first, *_] = [line for line in one(load(name)).splitlines() if "mp.spawn; " in line]
    assert all(word in first for word in words)
    assert "net" not in first
    assert "digits" not in first


@pytest.mark.parametrize("name", [SEE, MEASURE])
def test_a_form_asks_for_what_means_something(name: str) -> None:
    asked = {*common(load(name)), *others(load(name).trials)}
    assert {"launch", "world_size", "operations", "repeats", "bottleneck"} <= common(load(name))
    assert "root" in asked
    assert not asked & ({field for field, facts in FIELDS.items() if facts.work == ("train",)} | NOT_OF_IT)


@pytest.mark.parametrize("words", [" reduce ,, gather ", '["reduce", "gather"]'])
def test_words_with_commas_between_them_are_a_list(words: str) -> None:
    overrides = dict([parse_assignment(f"operations={words}")])
    assert {trial.operations for trial in load(SEE, overrides).trials} == {("reduce", "gather")}


def test_an_unknown_primitive_is_refused_in_the_forms_words() -> None:
    draft = Draft(SEE, {"operations": "reduce, shout"})
    with pytest.raises(PresetError, match="shout"):
        drafts.preset(draft)
    assert drafts.at_fault(draft, drafts.validate(draft).reason) == "operations"

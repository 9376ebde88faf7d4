"""Presets: found, expanded, and refused in one line that names the file, the key and the nearest spelling."""

from pathlib import Path
from typing import Any

import pytest

from ddptui.config.fields import MEANINGS
from ddptui.config.parser import PresetError, parse
from ddptui.config.preset import Preset
from ddptui.config.trial import Trial, TrialError
from ddptui.config.values import read_toml
from ddptui.host.folders import lab_root
from ddptui.store.presets import all_presets, as_toml, find, load, preset_paths
from tests.support.builders import preset_of, write_preset

MINE = '[[trial]]\nname = "mine"\n'

# What some strategies and launch modes have a use for, and others have at its default.
FOR_SOME: dict[str, Any] = {
    "reduction": "avg",
    "bucket_mb": 5,
    "gradient_as_bucket_view": True,
    "static_graph": True,
    "powersgd_rank": 4,
    "sync_batchnorm": True,
    "hash_every": 9,
}
FOR_NONE = {field: getattr(Trial(), field) for field in FOR_SOME}
KEPT = [
    ({"launch": "dp"}, []),
    ({"strategy": "bucketed"}, ["reduction", "bucket_mb", "sync_batchnorm", "hash_every"]),
    ({"strategy": "ddp_powersgd"}, [field for field in FOR_SOME if field not in ("reduction", "bucket_mb")]),
]


def names(preset: Preset) -> list[str]:
    return [trial.name for trial in preset.trials]


def test_the_matrix_is_a_product_and_names_its_trials() -> None:
    preset = preset_of({"matrix": {"strategy": ["all_reduce", "ddp"], "world_size": [1, 2], "save": [True]}})
    assert names(preset) == ["all_reduce-1-true", "all_reduce-2-true", "ddp-1-true", "ddp-2-true"]
    assert [(trial.strategy, trial.world_size) for trial in preset.trials] == [
        ("all_reduce", 1), ("all_reduce", 2), ("ddp", 1), ("ddp", 2),
    ]  # fmt: skip
    preset = preset_of({"matrix": {"epochs": [5, 6]}, "trial": [{"name": "own"}, {"epochs": 7}]})
    assert names(preset) == ["epochs-5", "epochs-6", "own", "2"]
    late = {"at": "aggregate", "ranks": [0, 1], "sleep_ms": 2.5}
    assert names(preset_of({"matrix": {"bottleneck": [[], [late]]}})) == ["none", "aggregate_0+1_2.5"]
    preset = preset_of({"matrix": {"compile": [False, True], "num_workers": [0, 1], "world_size": [2]}})
    assert names(preset) == [
        "compile-false-num_workers-0-world_size-2", "compile-false-num_workers-1-world_size-2",
        "compile-true-num_workers-0-world_size-2", "compile-true-num_workers-1-world_size-2",
    ]  # fmt: skip
    assert names(preset_of({"matrix": {"strategy": ["flat"], "world_size": [2]}})) == ["flat-2"]
    assert names(preset_of({"matrix": {"seed": [1, 2]}})) == ["seed-1", "seed-2"]


def test_a_trial_has_a_name_its_own_fields_over_the_defaults_and_a_preset_its_defaults() -> None:
    preset = preset_of({"defaults": {"epochs": 5, "seed": 1}, "trial": [{"name": "a", "epochs": 2}, {"name": "b"}]})
    assert [(trial.epochs, trial.seed) for trial in preset.trials] == [(2, 1), (5, 1)]
    assert names(preset_of({"trial": [{}, {"name": "b"}, {}]})) == ["1", "b", "3"]
    preset = preset_of({"trial": [{"name": "a"}, {"name": "b"}]})
    assert (preset.title, preset.group, preset.about) == ("made", "other", "")
    assert (preset.baseline, preset.repeats, preset.references) == ("a", 1, ())
    reference = {"trial": "a", "train_time_s": 12, "source": "a book"}
    [kept] = preset_of({"trial": [{"name": "a"}], "reference": [reference]}).references
    assert (kept.trial, kept.train_time_s, kept.source) == ("a", 12.0, "a book")


def test_defaults_that_mean_nothing_in_a_launch_mode_are_passed_over() -> None:
    defaults = {"strategy": "ddp", "world_size": 3, "start_method": "fork", "backend": "gloo"}
    launches = ("single", "dp", "launch", "spawn")
    preset = preset_of({"defaults": defaults, "trial": [{"name": mode, "launch": mode} for mode in launches]})
    single, dp, launch, spawn = preset.trials
    assert (single.strategy, single.world_size, single.start_method, single.backend) == (None, 1, "spawn", "auto")
    assert (dp.strategy, dp.world_size, dp.start_method, dp.backend) == (None, 3, "spawn", "auto")
    assert (launch.strategy, launch.world_size, launch.start_method, launch.backend) == ("ddp", 3, "spawn", "gloo")
    assert (spawn.strategy, spawn.world_size, spawn.start_method, spawn.backend) == ("ddp", 3, "fork", "gloo")


@pytest.mark.parametrize(("trial", "kept"), KEPT)
def test_defaults_that_mean_nothing_with_a_strategy_are_passed_over(trial: dict[str, Any], kept: list[str]) -> None:
    [made] = preset_of({"defaults": FOR_SOME, "trial": [trial]}).trials
    assert {key: getattr(made, key) for key in FOR_SOME} == FOR_NONE | {key: FOR_SOME[key] for key in kept}


def test_a_default_is_passed_over_by_strategy_and_parameters_are_averaged_where_there_is_a_group() -> None:
    matrix = preset_of({"defaults": {"reduction": "avg"}, "matrix": {"strategy": ["ddp", "flat"]}})
    assert [trial.reduction for trial in matrix.trials] == ["sum", "avg"]
    defaults = preset_of({"defaults": {"strategy": "ddp", "reduction": "avg"}, "trial": [{}, {"strategy": "flat"}]})
    assert [trial.reduction for trial in defaults.trials] == ["sum", "avg"]
    trials = [{}, {"launch": "single"}, {"launch": "dp"}]
    preset = preset_of({"defaults": {"average": "parameters"}, "trial": trials})
    assert [trial.average for trial in preset.trials] == ["parameters", "gradients", "gradients"]


def test_an_override_is_laid_over_every_trial_and_the_matrix() -> None:
    table = {"defaults": {"epochs": 5}, "trial": [{"name": "a", "epochs": 2}, {"name": "b"}, {"name": "c", "seed": 1}]}
    assert [trial.epochs for trial in preset_of(table, epochs=1).trials] == [1, 1, 1]
    preset = preset_of({"matrix": {"world_size": [1, 2, 4], "strategy": ["ddp", "flat"]}}, world_size=3)
    assert names(preset) == ["3-ddp", "3-flat"]
    preset = preset_of(
        {"trial": [{"name": "a", "launch": "single"}, {"name": "b", "strategy": "flat"}]}, strategy="ddp", world_size=3
    )
    assert [(trial.strategy, trial.world_size) for trial in preset.trials] == [(None, 1), ("ddp", 3)]
    preset = preset_of({"defaults": {"save": True, "warmup_steps": 3}, "trial": [{}]}, save=False, warmup_steps=0)
    assert (preset.trials[0].save, preset.trials[0].warmup_steps) == (False, 0)


@pytest.mark.parametrize(("trial", "kept"), KEPT)
def test_an_override_that_means_nothing_with_a_strategy_is_passed_over(trial: dict[str, Any], kept: list[str]) -> None:
    [made] = preset_of({"trial": [trial]}, **FOR_SOME).trials
    assert {key: getattr(made, key) for key in FOR_SOME} == FOR_NONE | {key: FOR_SOME[key] for key in kept}


def test_an_override_may_rename_the_baseline_and_drop_published_figures() -> None:
    table = {"baseline": "2", "matrix": {"world_size": [1, 2]}, "reference": [{"trial": "2", "train_time_s": 1}]}
    preset = preset_of(table, world_size=3)
    assert (names(preset), preset.baseline, preset.references) == (["world_size-3"], "world_size-3", ())


@pytest.mark.parametrize(
    ("text", "overrides"),
    [
        ('title = "Mine"\nrepeats = 3\nabout = """\nTwo\nlines"""\n' + MINE, {"epochs": 1, "save": True}),
        (
            'baseline = "2"\n[matrix]\nworld_size = [1, 2]\n[[reference]]\ntrial = "2"\ntrain_time_s = 1',
            {"world_size": 1},
        ),
    ],
    ids=["overridden", "baseline and reference renamed"],
)
def test_the_kept_text_makes_the_same_preset_again(tmp_path: Path, text: str, overrides: dict[str, object]) -> None:
    preset = load(str(write_preset(tmp_path, text)), overrides)
    again = load(str(write_preset(tmp_path / "again", as_toml(preset))))
    assert again == preset


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to stand in, with a configuration folder that is one's own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return tmp_path


def test_a_preset_is_looked_for_here_then_in_the_configuration_then_among_those_shipped(elsewhere: Path) -> None:
    assert find("quickstart") == lab_root() / "presets" / "quickstart.toml"
    own = write_preset(elsewhere / "config" / "ddptui" / "presets", MINE, "quickstart.toml")
    assert find("quickstart") == own
    here = write_preset(elsewhere / "presets", MINE, "quickstart.toml")
    assert find("quickstart").absolute() == here
    assert preset_paths()["quickstart"].absolute() == here


def test_a_path_is_taken_as_it_is_and_a_preset_named_after_its_file(elsewhere: Path, tmp_path: Path) -> None:
    write_preset(elsewhere / "presets", "not = 'this'", "mine.toml")
    path = write_preset(elsewhere, MINE)
    assert find("mine.toml") == Path("mine.toml")
    assert find(str(path)) == path
    assert names(load("mine.toml")) == ["mine"]
    assert load(str(write_preset(tmp_path, MINE, "my-own.toml"))).name == "my-own"


@pytest.mark.usefixtures("elsewhere")
def test_a_preset_that_is_not_there_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(PresetError) as refusal:
        load("quickstrat")
    assert str(refusal.value) == "no preset 'quickstrat'; did you mean 'quickstart'? `ddptui presets` lists them"


SHIPPED = sorted((lab_root() / "presets").glob("*.toml"))


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_every_shipped_preset_loads_and_tells_its_question(path: Path) -> None:
    preset = load(str(path))
    assert preset.title.endswith("?")
    assert preset.about
    assert preset.group != "other"
    assert preset.baseline in names(preset)


LATE = 'at = "aggregate"\nranks = [1]\nsleep_ms = 10\n'
T, DELAY, REFERENCE = "[[trial]]\n", "[[trial.bottleneck]]\n", "[[reference]]\ntrial = 'mine'\n"
COMMAND = "kind = 'command'\n[[trial]]\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "has no trial; add a [matrix] or a [[trial]]"),
        ("title = \n", "is not valid TOML: Invalid value (at line 1"),
        (b'title = "\xff"', "is not UTF-8 text (byte 9)"),
        ("title = " + "[" * 5000, "is not valid TOML"),
        ("titel = 'x'", "titel: unknown key; did you mean 'title'?"),
        ("title = 3", "title: expected text, got 3"),
        ("repeats = 0\n" + MINE, "repeats: expected an integer of 1 or more, got 0"),
        ("repeats = 1001\n" + MINE, "repeats: expected an integer of 1000 at most, got 1001"),
        ("defaults = 1", "defaults: expected a table, got 1"),
        ("[trial]", "trial: expected a list, got {}"),
        ("trial = [1]", "trial[0]: expected a table, got 1"),
        ("[defaults]\nworld_sise = 2\n" + T, "defaults.world_sise: unknown key; did you mean 'world_size'?"),
        (T + "ranks = 2", "trial[0].ranks: no such field; write world_size"),
        ("[matrix]\nstrategie = ['ddp']", "matrix.strategie: unknown key; did you mean 'strategy'?"),
        ("[matrix]\nepochs = 1", "matrix.epochs: expected a list of values to try"),
        (T + "epochs = '3'", 'trial[0].epochs: expected an integer, got "3"'),
        ("[matrix]\nepochs = ['3']", 'matrix.epochs: expected an integer, got "3"'),
        (T + "launch = 'spwan'", "did you mean 'spawn'?"),
        (T + "launch = 'single'\nstrategy = 'ddp'", "trial[0].strategy: has no effect with launch = 'single'"),
        ("[matrix]\nlaunch = ['spawn', 'single']\nstrategy = ['ddp']", "matrix.strategy: has no effect with launch ="),
        (f"[defaults]\nstrategy = 'ring'\n{T}bucket_mb = 5", "trial[0].bucket_mb: has no effect with strategy ="),
        ("[matrix]\nstatic_graph = [true]", "matrix.static_graph: has no effect"),
        (f"[defaults]\naverage = 'parameters'\n{T}strategy = 'bucketed'", "defaults.average: strategy = 'bucketed'"),
        (f"{T}name = 'a'\n{T}name = 'A'", "2 trials are named 'a'"),
        (f"[matrix]\nseed = {[*range(100)]}\nepochs = {[*range(1, 90)]}", "makes 8900 trials"),
        (T + "model = 'linears'", "trial[0].model: linears has 3 inputs and 3 outputs"),
        (T + "dataset = 'random'\nshape = [1, 5, 5]", "trial[0].shape: the model net does not accept samples of shape"),
        (T + "name = '../a'", "trial[0].name: '../a' cannot be the name of a folder; use"),
        (f"{T}name = '-{'a' * 63}'", "64 at most, and begin with a letter or a digit"),
        ("[matrix]\ndata_dir = ['/a']", "matrix.name: '/a' cannot be the name of a folder"),
        ("baseline = 'mime'\n" + MINE, "baseline: no trial 'mime'; did you mean 'mine'?"),
        (f"{T}{DELAY}at = 'start'\nranks = [5]\nsleep_ms = 1", "bottleneck[0].ranks: no rank 5: trial 1 has ranks 0"),
        (f"{T}{DELAY}{LATE}{DELAY}{LATE}sleep = 1", "trial[0].bottleneck[1].sleep: unknown key; did you mean"),
        ("[matrix]\nbottleneck = [[{at = 'start', ranks = [0], sleep = 1}]]", "sleep: unknown key; did you mean"),
        (T + "bottleneck = ['late']", "trial[0].bottleneck[0]: expected a table, e.g. { at = "),
        (T + "bottleneck = 'late'", 'trial[0].bottleneck: "late" is not understood; write it like "backward 20 ms on'),
        (MINE + REFERENCE.replace("mine", "mime") + "train_time_s = 1", "reference[0].trial: no trial 'mime'; did you"),
        (MINE + REFERENCE + "train_time_s = 1\nsorce = 'x'", "sorce: unknown key; did you mean 'source'?"),
        (MINE + REFERENCE, "train_time_s"),
        (MINE + REFERENCE + "train_time_s = -1", "train_time_s: expected a number above 0"),
        ("columns = 'sync'\n" + MINE, 'columns: expected a list, got "sync"'),
        ("columns = [['sync']]\n" + MINE, 'columns[0]: expected text, got ["sync"]'),
        ("columns = ['sync', 'startpu']\n" + MINE, "columns[1]: no column 'startpu'; did you mean 'startup'?"),
        (T + "world_size = 'all'", 'got "all"; "cores" means one rank for each core of this host'),
        ("[matrix]\nworld_size = [[2]]", "matrix.world_size: expected an integer, got [2]"),
        ("[matrix]\nworld_size = [2, 2]", "2 trials are named"),
        ("[engine]\nname = 'slrum'\n" + MINE, "engine.name: unknown value 'slrum'; one of local, join, slurm; did you"),
        ("[engine]\ntasks = 'node'\n" + MINE, "engine.tasks: unknown key; the keys are name, nodes, interface, port"),
        (COMMAND, "trial[0].command: names no program"),
        (COMMAND + 'command = ["a\\u0000"]', "trial[0].command: contains a NUL"),
        (COMMAND + "command = ['a']\nenv = ['B']", "trial[0].env: expected NAME=VALUE, got 'B'"),
        (COMMAND + "command = ['a']\nstrategy = 'ddp'", "trial[0].strategy: has no effect with a command"),
        (T + "command = ['a']\nlaunch = 'spawn'", "command: has no effect with training: it is for a command"),
        ("kind = 'primitive'\n" + MINE, "kind: unknown value 'primitive'; one of training, primitives, command"),
        ("kind = 'primitives'\n" + MINE, "kind: 'primitives', but trial mine is of kind 'training'; set primitives ="),
        ("[defaults]\nprimitives = 'see'\n" + MINE, "but trial mine is of kind 'primitives'; set kind = 'primitives'"),
    ],
)
def test_a_bad_preset_is_refused_in_one_line(tmp_path: Path, text: str | bytes, said: str) -> None:
    path = write_preset(tmp_path, text)
    with pytest.raises(PresetError) as refusal:
        load(str(path))
    message = str(refusal.value)
    assert message.startswith(f"{path}: ")
    assert "\n" not in message
    assert said in message


@pytest.mark.parametrize(("cores", "ranks"), [(1, 2), (5, 5)])
def test_as_many_ranks_as_the_host_has_cores_but_two_at_least(cores: int, ranks: int) -> None:
    table = {
        "defaults": {"world_size": "cores"},
        "matrix": {"world_size": [2, "cores"], "seed": [1]},
        "trial": [{"name": "a"}, {"name": "b", "world_size": 3}, {"name": "c", "world_size": "cores"}],
    }
    sizes = [trial.world_size for trial in parse("made", table, {}, cores).trials]
    assert sizes == [*dict.fromkeys([2, ranks]), ranks, 3, ranks]
    assert parse("made", {"trial": [{"name": "a"}]}, {"world_size": "cores"}, cores).trials[0].world_size == ranks


ONE_TRIAL = {"trial": [{"name": "a"}]}


def test_columns_are_read_kept_and_wanted_where_presets_speak_of_them() -> None:
    preset = preset_of({"columns": ["startup", "sync"], **ONE_TRIAL})
    assert preset.columns == ("startup", "sync")
    assert parse("made", read_toml(as_toml(preset)), {}) == preset
    assert preset_of(ONE_TRIAL).columns == ()
    wanted = {preset.name: preset.columns for presets in all_presets()[0].values() for preset in presets}
    assert wanted["launch-modes"] == ("startup",)
    assert wanted["mistakes"] == ("sync", "mean", "order")
    assert {key for keys in wanted.values() for key in keys} <= {*MEANINGS}
    trials = {"kind": "primitives", "trial": [{"name": "a", "primitives": "see"}]}
    with pytest.raises(TrialError, match="columns: has no effect with kind = 'primitives'"):
        preset_of({"columns": ["sync"], **trials})
    assert preset_of(trials).columns == ()

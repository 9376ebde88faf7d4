"""What the form makes of a preset is what is saved, whatever the preset and the field."""

from pathlib import Path

import msgspec
import pytest

from ddptui.config.preset import Preset
from ddptui.engines.preflight import prepare
from ddptui.store import own_presets
from ddptui.store.presets import load, preset_paths
from ddptui.tui import draft as drafts
from ddptui.tui.draft import Draft

SHIPPED = [*preset_paths()]
# One of each kind of answer: a number, a list of choices, a boolean, words, a text, nothing where something was.
CHANGES = {
    "repeats": "4",
    "world_size": "4",
    "launch": "process",
    "strategy": "ring",
    "model": "mlp",
    "steps": "40",
    "lr": "1e-05",
    "channels_last": "true",
    "data_dir": 'a "folder" of data',
    "seed": str(2**62),
    "reduce_ops": "sum, max",
    "min_bytes": "2048",
    "bottleneck": '[{at = "data", ranks = [0, 1], sleep_ms = 2.5, every = 2, jitter = "uniform"}]',
    "fault": "raise on 0, step 3",
}


def saved(preset: Preset) -> Preset:
    """Return the preset as it is loaded after it was saved, under the name that it had."""
    own_presets.save(preset, "kept")
    return msgspec.structs.replace(load(str(own_presets.path_of("kept"))), name=preset.name)


@pytest.mark.parametrize("name", SHIPPED)
def test_what_was_chosen_is_what_is_loaded(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert saved(load(name)) == load(name)
    possible = 0
    for key, text in {**CHANGES, "no bottleneck": "none"}.items():
        made = drafts.validate(Draft(name, {key if key in CHANGES else "bottleneck": text})).preset
        if made is not None:
            possible += made != load(name)
            assert saved(made) == made, key
    assert possible >= 3, "hardly any change was possible"


def test_a_preset_with_all_that_a_file_can_have_comes_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    file = tmp_path / "all.toml"
    file.write_text(
        'title = "All"\ngroup = "Mine"\nabout = """\nTwo\n\nlines\\\\n"""\nbaseline = "ring-2"\nrepeats = 2\n'
        'columns = ["train", "step"]\n[engine]\nname = "slurm"\nnodes = 2\n'
        '[matrix]\nstrategy = ["flat", "ring"]\nworld_size = [2, 4]\n'
        '[[reference]]\ntrial = "flat-2"\ntrain_time_s = 1.5\nsource = "a paper"\n'
        '[[defaults.bottleneck]]\nat = "backward"\nranks = [1]\nsleep_ms = 20\n'
        '[[defaults.bottleneck]]\nat = "data"\nranks = [0]\nsleep_ms = 5\njitter = "exponential"\n',
        encoding="utf-8",
    )
    made = drafts.preset(Draft(str(file), {"lr": "0.5"}))
    assert (len(made.trials), len(made.references), made.columns, made.engine.nodes) == (4, 1, ("train", "step"), 2)
    assert saved(made) == made
    assert {len(trial.bottleneck) for trial in made.trials} == {2}


PUBLISHED = (
    '[[trial]]\nname = "a"\nlr = 0.5\n[[trial]]\nname = "b"\n'
    '[[reference]]\ntrial = "a"\ntrain_time_s = 1\n[[reference]]\ntrial = "b"\ntrain_time_s = 2\n'
)


def test_published_figures_stay_with_the_trials_that_they_are_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    own_presets.path_of("kept").parent.mkdir(parents=True)
    own_presets.path_of("kept").write_text(PUBLISHED, encoding="utf-8")
    before = load("kept")
    assert drafts.without_old_figures(drafts.preset(Draft("kept", {"repeats": "5"})), before).references
    changed = drafts.preset(Draft("kept", {"lr": "0.5"}))
    assert [each.trial for each in drafts.without_old_figures(changed, before).references] == ["a"]
    # a run of that draft, in which nothing more was changed
    assert [each.trial for each in drafts.without_old_figures(prepare(changed), prepare(changed)).references] == ["a"]
    own_presets.path_of("kept").unlink()
    assert [each.trial for each in drafts.without_old_figures(changed, before).references] == ["a"]

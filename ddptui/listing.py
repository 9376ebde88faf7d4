"""What `ddptui presets` and `ddptui runs` print."""

import shlex
from collections.abc import Sequence
from itertools import groupby
from typing import NamedTuple

from ddptui import launch
from ddptui.columns import count, describe_bottleneck, describe_fault, how_often
from ddptui.preset import Preset, Trial, available_cores
from ddptui.preset_file import PresetError, folders, load, shipped_and_own
from ddptui.record import Run
from ddptui.trial_facts import tried

FIRST_GROUPS = ("start here", "primitives", "launch modes", "collectives", "strategies", "bottlenecks", "mistakes")


class Broken(NamedTuple):
    """A preset that cannot be read."""

    name: str
    why: str


def all_presets() -> tuple[list[Preset], list[Broken]]:
    """The presets as they are listed, one's own last in their group, and those that cannot be read."""
    presets: list[Preset] = []
    broken: list[Broken] = []
    found = shipped_and_own()
    own = {name for name, path in found.items() if path.parent == folders()[1]}
    for name, path in found.items():
        try:
            presets.append(load(str(path)))
        except PresetError as error:
            broken.append(Broken(name, str(error)))
    return sorted(presets, key=lambda preset: _order(preset, preset.name in own)), broken


def every_preset() -> str:
    """Name, question and size of each preset, group by group; one that cannot be read says why."""
    presets, broken = all_presets()
    width = max((len(preset.name) for preset in presets), default=0)
    lines: list[str] = []
    for group, members in groupby(presets, key=lambda preset: preset.group):
        lines += ["", group]
        lines += [f"  {preset.name:{width}}  {preset.title}  ({size(preset)})" for preset in members]
    return "\n".join([*lines[1:], *(one.why for one in broken)]) + "\n"


def one(preset: Preset) -> str:
    """A preset's text, its trials, and for each the command that starts it."""
    lines = [preset.title, "", *preset.about.strip().splitlines(), ""]
    for trial in preset.trials:
        mark = "  (baseline)" if trial.name == preset.baseline and len(preset.trials) > 1 else ""
        what = [
            launch.LABELS[trial.launch],
            count(trial.world_size, "rank"),
            *(tried(trial) if trial.primitives else _trained(trial)),
        ]
        lines += [f"{trial.name}{mark}", "  " + ", ".join(word for word in what if word)]
        if trial.bottleneck:
            lines.append(f"  bottleneck: {describe_bottleneck(trial.bottleneck)}")
        if trial.fault:
            lines.append(f"  fault: {describe_fault(trial.fault)}")
        variables = launch.environment(trial, available_cores()).items()
        lines += [f"  {name}={shlex.quote(value)} \\" for name, value in variables]
        lines += [f"  {shlex.join(launch.command(trial))}", f"  ranks meet at: {_rendezvous(trial.launch)}", ""]
    return "\n".join([*lines, f"{size(preset)} of each, in turn"]) + "\n"


def every_run(runs: Sequence[Run]) -> str:
    """Name and outcome of each run."""
    if not runs:
        return "no runs yet: `ddptui --preset quickstart --no-ui`\n"
    width = max(len(run.name) for run in runs)
    return "".join(f"{run.name:{width}}  {run.status()}\n" for run in runs)


def _trained(trial: Trial) -> list[str | None]:
    mistake = trial.mistake and f"mistake: {trial.mistake}"
    return [trial.strategy, how_often(trial), mistake, trial.model, trial.dataset]


def _rendezvous(mode: str) -> str:
    if mode in ("single", "dp"):
        return "nowhere, there is only one process"
    if mode == "launch":
        return "127.0.0.1, at a free port that the launcher takes; MASTER_ADDR and MASTER_PORT tell the ranks"
    return "127.0.0.1, at a free port that the first process takes and hands to the ranks"


def _order(preset: Preset, is_own: bool) -> tuple[int, str, bool, str]:
    group = preset.group.lower()
    return (FIRST_GROUPS.index(group) if group in FIRST_GROUPS else len(FIRST_GROUPS), group, is_own, preset.name)


def size(preset: Preset) -> str:
    return f"{count(len(preset.trials), 'trial')}, {count(preset.repeats, 'repeat')}"

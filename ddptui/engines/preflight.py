"""Checks before a run starts: torch, the model and the data are installed, and the machine is large enough."""

import os

import msgspec

from ddptui.config.parser import PresetError
from ddptui.config.preset import Preset, fit_to_engine
from ddptui.config.trial import Trial, TrialError, own_codes
from ddptui.engines.checks import CHECKS, FILES, check_temporary_folder, check_trial, data_folder, torch_problem
from ddptui.engines.preflight_gpus import ABOUT_GPUS, check_gpus
from ddptui.host.network import NetworkError, choose_interface

# Checks for engines whose ranks run elsewhere. Slurm's nodes see the same folders; models are known to the console.
ELSEWHERE = {"slurm": ("model", "own code", "data"), "join": ("model", "own code")}
ONLY_TO_START = "slow links"  # this check creates a link, so it is made only before a start


def prepare(preset: Preset, *, to_be_started: bool = True) -> Preset:
    """Check a preset. Returns it with the absolute data folder of each trial. to_be_started: False: the preset is only
    shown, so engine and devices need not be available. Raises PresetError if it cannot run here."""
    if problem := torch_problem():
        raise PresetError(": ".join(problem))
    check_temporary_folder()
    try:
        preset = fit_to_engine(preset)
    except TrialError as error:
        raise PresetError(f"{preset.name}: {error}") from None
    if to_be_started:
        _check_engine(preset)
        _check_devices(preset)
    names = ELSEWHERE.get(preset.engine.name, [*CHECKS])
    for trial in preset.trials:
        check_trial(preset.name, trial, [name for name in names if to_be_started or name != ONLY_TO_START])
    trials = map(_with_data, preset.trials) if "data" in names else preset.trials
    return msgspec.structs.replace(preset, trials=tuple(trials))


def why_not_here(preset: Preset) -> str:
    """Why a preset can never run on this machine; empty if it can, once the user's own code is there. Starts
    nothing."""
    trials = tuple(trial for trial in preset.trials if not own_codes(trial))
    try:
        if trials:
            _check_devices(prepare(msgspec.structs.replace(preset, trials=trials), to_be_started=False))
    except PresetError as error:
        return str(error)
    return ""


def prepare_trial(trial: Trial, local_ranks: int) -> Trial:
    """Check a trial from a console on another host, of which this node runs local_ranks ranks. Returns the trial with
    this host's data folder. Raises PresetError."""
    if trial.data_dir is not None and not os.path.isdir(trial.data_dir):  # a folder of the console's host
        trial = msgspec.structs.replace(trial, data_dir=None)
    local_part = msgspec.structs.replace(trial, world_size=local_ranks)
    check_gpus("here", [local_part], or_cpu=False)  # only the console knows the other trials and ranks
    check_trial("here", local_part, CHECKS)
    return _with_data(trial)


def _with_data(trial: Trial) -> Trial:
    """The trial with the absolute folder of its dataset, if that consists of files."""
    return msgspec.structs.replace(trial, data_dir=str(data_folder(trial))) if trial.dataset in FILES else trial


def _check_devices(preset: Preset) -> None:
    """Raises PresetError if this host lacks the GPUs that ranks here need."""
    if preset.engine.name == "local":
        check_gpus(preset.name, preset.trials, or_cpu=preset.group != ABOUT_GPUS)


def _check_engine(preset: Preset) -> None:
    """Raises PresetError if the run's engine cannot start launches from this host."""
    engine = preset.engine
    if engine.name == "local":
        return
    try:
        choose_interface(engine.interface)  # the interface by which the ranks reach the console
    except NetworkError as error:
        raise PresetError(f"--engine {engine.name}: {error}") from None
    if engine.name == "slurm":
        from ddptui.engines.slurm.job import refusal  # imported late: most runs are local

        if why := refusal(engine):
            raise PresetError(f"--engine slurm: {why}")
        return
    in_a_file = [trial.name for trial in preset.trials if trial.init_method == "file"]
    if engine.shared is None and in_a_file:
        where = f"{preset.name}, trial {in_a_file[0]}: init_method"
        raise PresetError(f"{where}: 'file' needs a folder that all nodes see: name it with --shared DIR")
    if engine.shared is not None and not os.path.isdir(engine.shared):
        raise PresetError(f"--shared {engine.shared}: no such folder here: name one that all nodes see")

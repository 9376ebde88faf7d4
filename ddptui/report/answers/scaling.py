"""How training speeds up with more ranks: with the same batch (strong), and with one that grows with them (weak)."""

from collections.abc import Iterator

from ddptui.analysis.effect import beside_baseline
from ddptui.analysis.results import Results
from ddptui.config.preset import Preset
from ddptui.config.trial import Trial
from ddptui.report.answers.words import because
from ddptui.text.words import count, listed

SHARES = {"strong": "the same global batch", "weak": "the same batch per rank"}


def alike(preset: Preset) -> list[Trial]:
    """The trials that scale the baseline: by the number of ranks alone, or with a batch that grows with it."""
    base = preset.base
    same = [trial for trial in preset.trials if (trial.launch, trial.strategy) == (base.launch, base.strategy)]
    return [trial for trial in same if trial.batch_size == base.batch_size or _share(trial) == _share(base)]


def _share(trial: Trial) -> float:
    """The batch of a rank."""
    return trial.batch_size / trial.world_size


def scaling(results: Results, preset: Preset) -> Iterator[str]:
    """The speed-ups of trials that share the baseline's batch, then of those whose batch grows; what holds back the
    most ranks; and how to predict them from the baseline."""
    trials = {trial.name: trial for trial in preset.trials}
    base = trials[preset.baseline]
    speedups: dict[str, dict[int, float]] = {"strong": {}, "weak": {}}  # by number of ranks
    scaled = {trial.name for trial in alike(preset)}
    for result in results.trials:
        trial = trials[result.name]
        if result.name in scaled and result.summary and result.summary.speedup and trial.world_size != base.world_size:
            kind = "strong" if trial.batch_size == base.batch_size else "weak"
            speedups[kind].setdefault(trial.world_size, result.summary.speedup)
    yield from (_speedups(kind, by_size, base.world_size) for kind, by_size in speedups.items() if by_size)
    compared = beside_baseline(results)
    slower = [effect for effect in compared if effect.outcome == "slower" and effect.name in scaled]
    most = max(slower, key=lambda effect: trials[effect.name].world_size, default=None)
    if most and (reason := because(most)):
        yield f"what holds {most.name} back: {reason}{_crowded(results, trials[most.name].world_size)}"
    if base.world_size > 1:  # a single rank sends nothing from which a network could be known
        sizes = sorted({base.world_size}.union(*speedups.values()))
        ranks = ",".join(map(str, sizes))
        cores = f" --cores {results.environment['cores']}" if _crowded(results, sizes[-1]) else ""
        project = f"`ddptui project {results.run} --trial {base.name} --ranks {ranks}{cores}`"
        yield f"what {base.name} alone predicts for {listed([str(size) for size in sizes[1:]])} ranks: {project}"


def _speedups(kind: str, by_size: dict[int, float], base: int) -> str:
    (first, speedup), *others = sorted(by_size.items())
    made = listed([f"{first} ranks made {speedup:.2f}", *(f"{size} ranks {speedup:.2f}" for size, speedup in others)])
    ideal = listed([f"{size / base:g}" for size in sorted(by_size)])
    return f"with {SHARES[kind]}, {made} times as many samples a second as {count(base, 'rank')} (ideal: {ideal})"


def _crowded(results: Results, ranks: int) -> str:
    """More ranks than the cores of the host on which all of them were, if that is known."""
    cores = results.environment.get("cores")
    hosts = {rank.host for trial in results.trials for repeat in trial.repeats for rank in repeat.ranks}
    if isinstance(cores, int) and len(hosts) == 1 and ranks > cores:
        return f"; {ranks} ranks shared {count(cores, 'core')}"
    return ""

"""`ddptui project`: checks its options, reads a run, predicts a trial on other numbers of ranks, and prints the
result."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

from ddptui.analysis.launch_data import LaunchData
from ddptui.config.catalog import STRATEGIES
from ddptui.config.trial import Trial
from ddptui.projection import NetworkUsed, Point, Projection, ProjectionError, Scaling, measured, model, report
from ddptui.projection.model import Costs
from ddptui.run import listing
from ddptui.store.overview import UNDER_WAY, overview
from ddptui.store.runs import Run, RunError, find_run
from ddptui.text.words import US_IN_S, count, did_you_mean

GIGABIT = 1e9 / 8  # bytes
MOST_RANKS = 2**20  # more than any cluster has: a larger number is a typing error
PROJECTED = tuple(name for name, facts in STRATEGIES.items() if facts.sends)


class ProjectOptions(NamedTuple):
    """The options of `ddptui project`, as typed."""

    trial: str | None = None
    ranks: str = "2..4096"
    network: str | None = None  # a run of primitives
    alpha: float | None = None  # latency, µs per message
    gbps: float | None = None  # bandwidth, 1e9 bit/s
    scaling: Scaling = "weak"
    cores: int | None = None
    strategies: tuple[str, ...] = ()  # empty: all strategies that can be projected


def run(runs: Path, name: str, options: ProjectOptions, form: str = "table") -> int:
    """Print the projection of a run in the given format. Returns the exit code. Raises ProjectionError."""
    result = projection(runs, name, options)
    listing.show_result(
        report.text(result, listing.output_width()) if form == "table" else report.FORMATS[form](result)
    )
    return 0


def projection(runs: Path, name: str, options: ProjectOptions) -> Projection:
    """The projection of a run in the folder `runs`. name: see find_run. Raises ProjectionError."""
    check(options)  # before journals are read, which may take seconds
    stated, numbers = stated_network(options.alpha, options.gbps), rank_counts(options.ranks)
    strong = options.scaling == "strong"
    try:
        run = find_run(runs, name)
        preset = run.preset()
        costs = measured.network_of_primitives(find_run(runs, options.network)) if options.network else stated
        trial, logs = measured.choose_trial(run, preset, options.trial)
        own = measured.measured_trial(trial, logs)
        related = measured.predicted_trials(trial, preset.trials, strong=strong)
        costs = (costs or measured.own_network(run, preset, trial, own, related))._replace(cores=options.cores)
        # Measurements on this network cannot validate a stated one.
        launches = {other: measured.completed_launches(run, preset, other) for other in related if not stated}
    except RunError as error:
        raise ProjectionError(str(error)) from None
    beside = {(str(t.strategy), t.world_size): logs for t, logs in launches.items() if logs}
    ranks = sorted({*numbers, own.ranks})  # with the measured number, which shows how well the model fits
    strategies = list(dict.fromkeys((str(trial.strategy), *(options.strategies or PROJECTED))))
    by_ranks = [model.points(own, costs, strategies, number, strong) for number in ranks]
    points = [_beside(point, beside) for by_strategy in zip(*by_ranks, strict=True) for point in by_strategy]
    alpha_us, gb_s = costs.alpha / US_IN_S or None, 1e-9 / costs.beta if costs.beta else None
    return Projection(
        run=run.name,
        trial=trial.name,
        strategy=str(trial.strategy),
        measured_ranks=own.ranks,
        scaling=options.scaling,
        cores=options.cores,
        network=NetworkUsed(source=costs.source, alpha_us=alpha_us, gb_s=gb_s, worst=costs.worst),
        points=points,
        said=[*_reservations(run, trial, logs, preset.repeats), *report.findings(points, own.ranks, costs)],
        notes=report.notes(costs, own, ranks[-1], strong),
    )


def _beside(point: Point, launches: Mapping[tuple[str, int], Sequence[LaunchData]]) -> Point:
    """The point with the measured step added, if there is one. launches: logs of measured launches, keyed by strategy
    and number of ranks."""
    if not (logs := launches.get((point.strategy, point.ranks))):
        return point
    ms, disturbed = measured.step_ms(logs), any(map(measured.is_disturbed, logs))
    return replace(point, measured_ms=ms, error=point.step_ms / ms - 1, disturbed=disturbed)


def _reservations(run: Run, trial: Trial, logs: Sequence[LaunchData], repeats: int) -> list[str]:
    """Warnings to show before the results: launches are missing in the run, or were disturbed."""
    sentences = []
    part = f"{len(logs)} of {count(repeats, 'repeat')} of {trial.name}"
    status = overview(run).status
    if verb := {UNDER_WAY: "is", "interrupted": "was"}.get(status):
        sentences.append(f"run {run.name} {verb} {status}: only what it had measured counts, {part}")
    elif len(logs) < repeats:
        sentences.append(f"the projection rests on {part}: the others did not end well, or were changed by hand")
    if disturbed := sum(map(measured.is_disturbed, logs)):
        sentences.append(
            f"do not rely on these figures: other programs disturbed {disturbed} of {count(len(logs), 'repeat')}"
        )
    return sentences


def check(options: ProjectOptions) -> None:
    """Raises ProjectionError for options that are invalid for any run."""
    for name in options.strategies:
        if name not in STRATEGIES:
            hint = did_you_mean(name, PROJECTED, f"it is one of {', '.join(PROJECTED)}")
            raise ProjectionError(f"--strategy {name}: no such strategy; {hint}")
        if name not in PROJECTED:
            raise ProjectionError(f"--strategy {name}: {STRATEGIES[name].unprojected}")
    if options.network and (options.alpha is not None or options.gbps is not None):
        raise ProjectionError("--network RUN cannot be combined with --alpha and --gbps: leave one or the others out")


def stated_network(alpha: float | None, gbps: float | None) -> Costs | None:
    """The network that --alpha and --gbps describe; None if neither is given. Raises ProjectionError."""
    if alpha is None and gbps is None:
        return None
    if alpha is None or gbps is None:
        raise ProjectionError("--alpha (µs per message) and --gbps (1e9 bit/s) go together: one of them is missing")
    if not (0 < alpha < math.inf and 0 < gbps < math.inf):
        raise ProjectionError(f"--alpha {alpha:g} --gbps {gbps:g}: expected finite numbers above 0")
    return Costs(alpha * US_IN_S, 1 / (gbps * GIGABIT), f"stated: α {alpha:g} µs, {gbps:g} Gbit/s")


def rank_counts(text: str) -> list[int]:
    """Parse numbers of ranks, in ascending order: `2..4096` doubles, `2,4,8` is a list, `64` a single number. Raises
    ProjectionError."""
    is_range = ".." in text
    try:
        numbers = [int(number) for number in (text.split("..", 1) if is_range else text.split(","))]
    except ValueError:
        wrong = f"--ranks {text}: neither a range (2..4096), nor a list (2,4,8), nor a number (64)"
        raise ProjectionError(wrong) from None
    if not 1 <= min(numbers) <= max(numbers) <= MOST_RANKS:
        raise ProjectionError(f"--ranks {text}: expected numbers from 1 to {MOST_RANKS:,}")
    if is_range and numbers[0] > numbers[1]:
        raise ProjectionError(f"--ranks {text}: a range begins with its smaller number: {numbers[1]}..{numbers[0]}")
    if is_range:  # doubling, but the range always ends with the number that was typed
        numbers += [numbers[0] << power for power in range(MOST_RANKS.bit_length()) if numbers[0] << power < numbers[1]]
    return sorted(set(numbers))

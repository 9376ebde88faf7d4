"""Who waits for whom under different strategies, while the same rank is late in all of them."""

from collections.abc import Iterator

from ddptui.analysis.policy import MATTERS
from ddptui.analysis.results import Results, TrialResult
from ddptui.analysis.wait_matrix import wait_matrix
from ddptui.config.preset import Preset
from ddptui.report.answers.delays import described, slept
from ddptui.text.units import time_range
from ddptui.text.words import count, listed

CHAIN = 0.5  # of a rank's waiting is for a rank that is not the culprit: it waits along a chain


def blame(results: Results, preset: Preset) -> Iterator[str]:
    """Whether the late rank was found in each trial, then the trials in which ranks waited for it by way of others."""
    delay = preset.trials[0].bottleneck
    late = {rank for bottleneck in delay for rank in bottleneck.ranks}
    culprits = [(trial, trial.summary.culprit) for trial in results.trials if trial.summary]
    right = [(trial, culprit) for trial, culprit in culprits if culprit and culprit.rank in late]
    missed = [trial.name for trial, culprit in culprits if culprit is None or culprit.rank not in late]
    if not right:
        parts = [slept(trial) / trial.summary.train_time_s.median for trial in results.trials if trial.summary]
        why = f": it is at most {max(parts):.0%} of a train time" if parts and max(parts) < MATTERS else ""
        yield f"{described(delay)} was not found{'' if len(culprits) == 1 else ' in any trial'}{why}"
        return
    every = {1: "", 2: " in both trials"}.get(len(culprits), f" in all {len(culprits)} trials")
    where = f" in {len(right)} of {len(culprits)} trials" if missed else every
    who = listed([f"rank {rank}" for rank in sorted(late)])
    cause = f"{who}, which has {described(delay, with_ranks=False)}"
    a_step = [culprit.excess_s.estimate / trial.repeats[-1].steps for trial, culprit in right]
    others = "the other rank waits" if preset.trials[0].world_size - len(late) == 1 else "the others wait"
    yield f"{others} for {cause}: ddptui measured {time_range(min(a_step), max(a_step))} a step{where}"
    chains = {trial.name: _chain(trial, culprit.rank) for trial, culprit in right}
    yield from (f"under {name}, {chain}" for name, chain in chains.items() if chain)
    direct = [name for name, chain in chains.items() if not chain]
    if direct and len(culprits) > 1:
        yield f"under {listed(direct)}, {others} for it directly"
    if missed:
        yield f"not found in {listed(missed)}"


def _chain(trial: TrialResult, culprit: int) -> str:
    """Rank 1 waits for rank 0, which waits for rank 2; empty if all wait for the culprit itself."""
    matrix = wait_matrix(trial)
    rows = matrix.waited_s if matrix else ()
    most = max(map(sum, rows), default=0.0)
    words = []
    for rank, row in enumerate(rows):
        mostly = max(range(len(row)), key=lambda late: row[late])
        if rank != culprit and mostly != culprit and row[mostly] > CHAIN * sum(row) and sum(row) > CHAIN * most:
            words.append((rank, mostly))
    if not words:
        return ""
    rank, late = words[0]
    then = max(range(len(rows[late])), key=lambda other: rows[late][other])
    more = f" ({count(len(words) - 1, 'other rank')} likewise)" if len(words) > 1 else ""
    return f"rank {rank} waits for rank {late}, which waits for rank {then}{more}"

"""The matrix of which rank waited for which, in seconds; many ranks are grouped into blocks. Pure."""

from typing import NamedTuple

from ddptui.analysis.breakdown import middle
from ddptui.analysis.counted import counted
from ddptui.analysis.results import RepeatResult, TrialResult


class WaitMatrix(NamedTuple):
    """How long the ranks of each row waited for those of each column, in s, summed over the row's ranks."""

    ranks: tuple[range, ...]  # the ranks of each row and column
    waited_s: tuple[tuple[float, ...], ...]

    @property
    def most_s(self) -> float:
        """The largest cell."""
        return max(max(row) for row in self.waited_s)

    @property
    def per_pair_s(self) -> tuple[tuple[float, ...], ...]:
        """The means over pairs of a waiting and a late rank, since the last block may have fewer ranks."""
        return tuple(
            tuple(s / max(1, _pairs(waiting, late)) for late, s in zip(self.ranks, row, strict=True))
            for waiting, row in zip(self.ranks, self.waited_s, strict=True)
        )

    @property
    def most_per_pair_s(self) -> float:
        """The largest of these means."""
        return max(map(max, self.per_pair_s))


def _pairs(waiting: range, late: range) -> int:
    """The number of pairs of different ranks: no rank waits for itself."""
    return len(waiting) * len(late) - (len(waiting) if waiting == late else 0)


def wait_matrix(trial: TrialResult, most: int | None = None) -> WaitMatrix | None:
    """The matrix of the repeat with the median train time, with at most `most` rows. None: the trial has one rank, or
    its waits are unknown."""
    repeats = middle(counted(trial.repeats))
    if not repeats or len(repeats[0].ranks) < 2 or all(rank.wait_s is None for rank in repeats[0].ranks):
        return None
    return _of_repeat(repeats[0], most)


def _of_repeat(repeat: RepeatResult, most: int | None) -> WaitMatrix:
    size = max(rank.rank for rank in repeat.ranks) + 1
    block = -(-size // most) if most else 1  # ranks per row, rounded up
    blocks = [range(first, min(first + block, size)) for first in range(0, size, block)]
    waited = [[0.0] * len(blocks) for _ in blocks]
    for rank in repeat.ranks:
        for late_rank, s in rank.waited_for_s.items():
            waited[rank.rank // block][late_rank // block] += s
    return WaitMatrix(tuple(blocks), tuple(map(tuple, waited)))

"""One process without a process group: the baseline for all comparisons.

python -m workers.single epochs=3
"""

import sys

from workers.aggregate import strategy_of
from workers.rank.process import rank_process, read_trial
from workers.train import train


def main() -> None:
    """Train in this process alone. The command line describes the trial."""
    trial = read_trial(["launch=single", *sys.argv[1:]])
    with rank_process(trial, 0, range(1), has_parent=False) as me:
        train(me, strategy_of(trial))


if __name__ == "__main__":
    main()

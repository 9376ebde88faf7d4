"""One rank's training inside a test, the real loop; what it learned and what it said at the end."""

import msgspec
from torch import Tensor

from ddptui.config.trial import Trial
from ddptui.wire.messages import Audit, Done, Fingerprint
from tests.support.worlds import one_rank
from workers.aggregate.strategy import Strategy
from workers.instruments.progress import Progress
from workers.instruments.reporter import Reporter
from workers.train import train


class Said(msgspec.Struct):
    """Of all that a rank says: whether it is right."""

    audit: Audit | None
    orders: tuple[str, ...]
    fingerprints: list[Fingerprint]


class Listener(Progress):
    """Keeps what the console would have got."""

    def __init__(self, rank: int, reporter: Reporter) -> None:
        super().__init__(rank, 0, reporter)
        self.fingerprints: list[Fingerprint] = []

    def fingerprint(self, fingerprint: Fingerprint) -> None:
        self.fingerprints.append(fingerprint)

    def done(self, done: Done) -> None:
        self.said = Said(done.audit, done.orders, self.fingerprints)


def learn(rank: int, trial: Trial, strategy: Strategy) -> tuple[dict[str, Tensor], Said]:
    """The model's tensors after one rank's training, and what the rank said of them."""
    reporter = Reporter(rank)
    listener = Listener(rank, reporter)
    model = train(one_rank(trial, rank, reporter=reporter), strategy, listener)
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}, listener.said

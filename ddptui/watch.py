"""What somebody who watches a run sees of it: its state right now, and what is worked out from that, no more often than
it is worth. Pure: the caller has the clock."""

from collections import deque
from collections.abc import Iterable

from ddptui.live import Live, fold
from ddptui.verdict import Judgement
from ddptui.waits import Joined, join
from ddptui.wire import Launched, Message

LAST_STEPS = 24  # kept side by side, and
MOST_AT_ONCE = 12  # as many are put there in one look: where steps are short, some are left out
JUDGE_EVERY_NS = 1e9


class Watch:
    """`joined`: the last steps of all ranks side by side; `judgement`: of the last two seconds."""

    def __init__(self) -> None:
        self.live = Live()
        self.joined: deque[Joined] = deque(maxlen=LAST_STEPS)
        self.judgement: Judgement | None = None
        self._judged_ns = 0

    @property
    def culprit(self) -> int | None:
        culprit = self.judgement.culprit if self.judgement else None
        return culprit.rank if culprit else None

    def hear(self, messages: Iterable[Message]) -> None:
        for message in messages:
            fold(self.live, [message])
            if isinstance(message, Launched):
                self.joined.clear()
                self.judgement, self._judged_ns = None, 0

    def look(self, now_ns: int) -> None:
        """Work out what a pane may want."""
        self._join()
        if self.live.status == "running" and now_ns - self._judged_ns >= JUDGE_EVERY_NS:
            self._judged_ns = now_ns
            self.judgement = self.live.judgement()

    def _join(self) -> None:
        """Put the steps side by side that have come since the last look. (The step before goes along: what a rank did
        between two steps belongs to the second.)"""
        newest = self.live.step - 1
        first = max(self.joined[-1].number + 1 if self.joined else 0, newest - MOST_AT_ONCE + 1)
        if first > newest:
            return
        ranks = self.live.ranks.values()
        steps = {rank.rank: [step for step in rank.recent if first - 1 <= step.step <= newest] for rank in ranks}
        found = join(steps, self.live.pauses)
        self.joined.extend(step for step in found.steps if step.number >= first)

"""Which steps of a watched training came before a restart of its ranks, and why they had ended."""

import pytest

from ddptui.analysis.launch_data import LaunchData
from ddptui.wire.records import Message, Restarted
from tests.support.builders import CAUSE, hello, step

RESTARTED = Restarted(at_ns=1, failure=CAUSE)
FIRST = [hello(0), hello(1), *(step(rank, number) for number in range(4) for rank in (0, 1))]


@pytest.mark.parametrize(
    "again",
    [
        [RESTARTED, hello(0), step(0, 6), hello(1)],  # the launcher's environment has said so first
        [hello(0), step(0, 6), RESTARTED, hello(1)],  # a rank that connected again has shown it
        [RESTARTED, hello(1), step(1, 6), step(1, 7), hello(0)],
    ],
)
def test_ranks_that_connect_one_after_the_other_were_restarted_once(again: list[Message]) -> None:
    log = LaunchData()
    for message in [*FIRST, *again]:
        log.add(message)
    assert log.restarts == {3: CAUSE.summary}


def test_each_restart_counts() -> None:
    log = LaunchData()
    for message in [*FIRST, RESTARTED, hello(0), hello(1), step(0, 6), step(1, 6), hello(1), RESTARTED, hello(0)]:
        log.add(message)
    assert log.restarts == {3: CAUSE.summary, 6: CAUSE.summary}

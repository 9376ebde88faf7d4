"""Asking ranks elsewhere for the time: what counts as an answer, and whom to ask."""

import msgspec
import pytest

from ddptui.analysis.clocks import A_ROUND, AT_FIRST, PATIENCE_NS, ROUND_EVERY_NS, Probes
from ddptui.wire.messages import Echo
from ddptui.wire.records import Offset, Probe
from tests.support.builders import done, failed, hello

S = 1_000_000_000  # ns
AHEAD = 1000 * S
THERE, BACK = 300, 100  # ns


def probes_of(*ranks: tuple[int, str]) -> Probes:
    probes = Probes("near")
    for rank, clock in ranks:
        assert probes.add(hello(rank, clock=clock), 0) == []
    return probes


def echo(rank: int, probe: Probe, sent_ns: int) -> Echo:
    heard = sent_ns + THERE + AHEAD
    return Echo(rank=rank, number=probe.number, heard_ns=heard, said_ns=heard + 50)


def answered(probes: Probes, now_ns: int) -> list[Offset]:
    """All that is due is asked and answered, each at once."""
    found: list[Offset] = []
    while due := probes.due(now_ns):
        for rank, probe in due:
            found += probes.add(echo(rank, probe, now_ns), now_ns + THERE + 50 + BACK)
        now_ns += 1000
    return found


def test_what_comes_of_it_is_the_offset_within_its_error() -> None:
    probes = probes_of((0, "near"), (1, "far"))
    [(rank, probe)] = probes.due(7 * S)
    [found] = probes.add(echo(rank, probe, 7 * S), 7 * S + THERE + 50 + BACK)
    assert (found.rank, found.clock, found.at_ns) == (1, "far", 7 * S + 225)
    assert found.offset_ns == AHEAD + (THERE - BACK) // 2
    assert found.error_ns == (THERE + BACK) // 2 + 1


def test_several_at_first_and_then_some_every_second() -> None:
    probes = probes_of((1, "far"))
    assert len(answered(probes, 0)) == AT_FIRST
    assert answered(probes, ROUND_EVERY_NS // 2) == []
    assert len(answered(probes, 2 * ROUND_EVERY_NS)) == A_ROUND
    assert len(answered(probes, 4 * ROUND_EVERY_NS)) == A_ROUND


def test_one_rank_of_each_clock_but_the_consoles_is_asked() -> None:
    probes = probes_of((0, "near"), (1, "far"), (2, "far"), (3, "third"), (4, ""))
    assert [rank for rank, _ in probes.due(0)] == [1, 3]
    assert probes.due(1000) == []  # until they have answered
    assert probes_of((0, "near"), (1, "")).due(100 * S) == []


@pytest.mark.parametrize("last_words", [done(1), failed(1)])
def test_when_it_has_ended_another_one_of_its_host_is_asked(last_words: object) -> None:
    probes = probes_of((1, "far"), (2, "far"))
    assert [rank for rank, _ in probes.due(0)] == [1]
    probes.add(last_words, 10)  # type: ignore[arg-type]
    assert [rank for rank, _ in probes.due(20)] == [2]
    probes.add(done(2), 30)
    assert probes.due(100 * S) == []


def test_when_it_does_not_answer_another_one_is_asked_and_later_it_again() -> None:
    probes = probes_of((1, "far"), (2, "far"))
    asked = [probes.due(number * PATIENCE_NS) for number in range(3)]
    assert [rank for [(rank, _)] in asked] == [1, 2, 1]


def test_what_nobody_has_asked_for_is_no_answer() -> None:
    probes = probes_of((0, "near"), (1, "far"), (2, "far"), (3, "third"))
    assert probes.add(echo(1, Probe(number=1), 0), 500) == []  # not yet
    (_, probe), (_, to_third) = probes.due(0)
    for forged in (
        echo(1, Probe(number=probe.number + 5), 0),
        echo(2, probe, 0),  # of the same host, but another one was asked
        echo(3, probe, 0),  # what somebody else was asked
        echo(0, probe, 0),
        echo(1, to_third, 0),
    ):
        assert probes.add(forged, 500) == []
    assert len(probes.add(echo(1, probe, 0), 500)) == 1
    assert probes.add(echo(1, probe, 0), 600) == []  # it was answered


def test_what_cannot_be_is_no_answer_nor_is_what_comes_after_the_patience_but_the_true_one_still_is() -> None:
    probes = probes_of((1, "far"))
    [(_, old)] = probes.due(0)
    true = echo(1, old, 0)
    backwards = msgspec.structs.replace(true, said_ns=true.heard_ns - 1)
    longer_than_away = msgspec.structs.replace(true, said_ns=true.heard_ns + 501)
    assert probes.add(backwards, 500) == probes.add(longer_than_away, 500) == []
    [(_, new)] = probes.due(PATIENCE_NS)
    assert probes.add(true, PATIENCE_NS + 500) == []
    assert len(probes.add(echo(1, new, PATIENCE_NS), PATIENCE_NS + 500)) == 1

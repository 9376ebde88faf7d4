"""The console's headline and the result never contradict each other: of the same steps, both show the same findings."""

from collections.abc import Iterator
from itertools import count

import pytest
from msgspec.structs import replace

from ddptui.analysis.finding import Kind
from ddptui.analysis.results import RepeatResult
from ddptui.config.preset import Preset
from ddptui.findings.repeat import outcome_of_messages
from ddptui.findings.words import short
from ddptui.live import headline
from ddptui.live.monitor import RunMonitor
from ddptui.store.runs import Run
from ddptui.wire.messages import Step
from ddptui.wire.records import Ended, Load, Message
from tests.recorded.net import NAMES, RUNS

EVERY = 25  # messages from one look to the next
LATE = (Kind.LATE_RANK, Kind.NO_CORE)  # a rank holds everyone up


def looks(messages: list[Message]) -> Iterator[RunMonitor]:
    """A launch as the console saw it, after every so many messages, where it had something to judge."""
    for end in count(EVERY, EVERY):
        monitor = RunMonitor()
        monitor.add(messages[:end])
        monitor.look(0, at_once=True)
        if monitor.judgement is not None:
            yield monitor
        if end >= len(messages):
            return


def result_of(monitor: RunMonitor, messages: list[Message]) -> RepeatResult:
    """The result of the steps that the headline is about, beside the load that it knew of."""
    numbers = {aligned.number for aligned in monitor.judgement.steps}
    load, end_ns = monitor.live.load, monitor.judgement.steps[-1].ranks[0].step.end_ns
    of_steps = [each for each in messages if not isinstance(each, Step) or each.step in numbers]
    others = [each for each in of_steps if not isinstance(each, Load | Ended)]
    loads: list[Message] = [replace(load, at_ns=end_ns)] if load else []
    outcome = outcome_of_messages([*others, *loads, Ended(at_ns=end_ns, status="ok")])
    assert outcome.result is not None, outcome.error
    return outcome.result


def pairs(name: str) -> Iterator[tuple[RunMonitor, RepeatResult, Preset]]:
    run = Run(RUNS / name)
    preset = run.preset()
    for trial, repeat in run.repeats(preset):
        messages = [*run.messages(trial, repeat)]
        if any(isinstance(each, Ended) and each.status == "ok" for each in messages):
            for monitor in looks([each for each in messages if not isinstance(each, Ended)]):
                yield monitor, result_of(monitor, messages), preset


@pytest.mark.parametrize("name", [name for name in NAMES if not name.startswith("primitives")])
def test_the_headline_says_what_the_result_of_the_same_steps_does(name: str) -> None:
    looked = 0
    for monitor, result, preset in pairs(name):
        said = headline.headline_text(monitor, {}, preset, 0)
        found = {finding.kind: short(finding) for finding in result.findings}
        late = {words for kind, words in found.items() if kind in LATE}
        assert {words for words in late if words in said} == late, said
        assert monitor.culprit is None or late or "The trial delays" in said, said
        if "holds everyone up" in said or "not certain" in said:
            assert any(said.startswith(words) for words in found.values()), (said, found)
        if "Ranks idle" in said:
            assert f"Ranks idle {result.wait_share:.0%} of the time for a late rank" in said
            assert f"{result.transfer_share:.0%} in transfers" in said
        looked += 1
    assert looked > 5

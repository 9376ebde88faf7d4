"""A run in a thread of its own, with real ranks: delays are put in while it runs, and taken out."""

import re
from typing import Any, NamedTuple

import pytest

from ddptui.analysis.results import RepeatResult
from ddptui.analysis.waits import AlignedStep, align_steps
from ddptui.config.trial import Bottleneck
from ddptui.engines.local.warm import WarmParent
from ddptui.live.headline import wait_ms
from ddptui.live.state import Live
from ddptui.report import table
from ddptui.report.notes import note_lines
from ddptui.run.runner import Session
from ddptui.store.overview import results_of
from ddptui.wire.messages import Pause, Step
from ddptui.wire.records import Injection, Message
from tests.support.sessions import ends, follow, session_of, trial

STEPS = 200
LATE_MS = 15
LATE = Bottleneck(at="forward", ranks=(1,), sleep_ms=LATE_MS)
ENOUGH_STEPS = 20  # before the delay, and with it
ON_THEIR_WAY = 2  # steps that may begin before a delay that was sent has come

MODES: dict[str, dict[str, Any]] = {
    "spawn": {"launch": "spawn", "strategy": "all_reduce"},
    "dp": {"launch": "dp"},
}


class Delayed(NamedTuple):
    """A run in which rank 1 was delayed for a while. put_in, taken_out: steps that the console had seen by then;
    delayed: those with the delay."""

    session: Session
    heard: list[Message]
    put_in: int
    taken_out: int
    delayed: list[int]

    @property
    def repeat(self) -> RepeatResult:
        [repeat] = self.session.results.trials[0].repeats
        return repeat

    def waits_ms(self, steps: range) -> float:
        """What rank 0 waited in these steps, the median."""
        joined = [step for step in _joined(self.heard) if step.number in steps]
        waited = wait_ms(joined, 0)
        assert waited is not None
        return waited


def _joined(heard: list[Message]) -> list[AlignedStep]:
    told = [message for message in heard if isinstance(message, Step) and not message.warmup]
    pauses = [message for message in heard if isinstance(message, Pause)]
    return align_steps({rank: [step for step in told if step.rank == rank] for rank in (0, 1)}, pauses).steps


def with_the_delay(live: Live) -> list[int]:
    """Of the last steps of rank 1, those in which it slept in forward."""
    recent = live.ranks[1].recent if 1 in live.ranks else ()
    return [step.step for step in recent if any(slept.at == LATE.at for slept in step.slept)]


@pytest.fixture(scope="module", params=MODES)
def run(warm: WarmParent, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Delayed:
    """Rank 1 is delayed when some steps were seen, and no longer when some steps with the delay were."""
    done: list[int] = []  # at which step the console did it

    def by_hand(live: Live) -> None:
        if not done and live.step >= ENOUGH_STEPS:
            session.controls.inject((LATE,), live.launched_ns)
            done.append(live.step)
        elif len(done) == 1 and len(with_the_delay(live)) >= ENOUGH_STEPS:
            session.controls.inject((), live.launched_ns)
            done.append(live.step)

    mode = MODES[request.param]
    with session_of(warm, tmp_path_factory.mktemp(request.param), trial("a", STEPS, (0, 1), **mode)) as session:
        heard = follow(session, by_hand)
    assert (session.error, ends(heard), len(done)) == (None, ["ok"], 2), heard[-1]
    delayed = [
        message.step
        for message in heard
        if isinstance(message, Step) and message.rank == 1 and any(slept.at == LATE.at for slept in message.slept)
    ]
    return Delayed(session, heard, done[0], done[1], delayed)


def test_a_run_to_its_end_gives_what_its_folder_holds(run: Delayed) -> None:
    session, folder = run.session, run.session.run
    assert list(folder.messages("a", 1)) == run.heard
    assert session.results == results_of(folder, session.preset)
    assert (folder.folder / "results.json").read_text() == table.as_json(session.results, session.preset)
    assert session.results.status == "ok"
    assert session.drain() == []


def test_what_was_done_by_hand_is_in_the_journal_where_it_happened(run: Delayed) -> None:
    injections = [message for message in run.heard if isinstance(message, Injection)]
    assert [injection.bottleneck for injection in injections] == [(LATE,), ()]
    seen = {step.step for step in run.heard[: run.heard.index(injections[0])] if isinstance(step, Step)}
    assert max(seen) + 1 >= run.put_in
    assert max(seen) < min(run.delayed)


def test_the_delay_is_in_every_step_from_a_later_one_on_until_it_is_taken_out(run: Delayed) -> None:
    first, last = run.delayed[0], run.delayed[-1]
    assert run.put_in <= first
    assert run.taken_out - 1 <= last < STEPS - 1
    assert run.delayed == list(range(first, last + 1))
    slept = [each for step in run.heard if isinstance(step, Step) for each in step.slept if each.at == LATE.at]
    assert min(each.end_ns - each.begin_ns for each in slept) >= LATE_MS * 1_000_000


def test_only_the_rank_that_was_meant_is_delayed(run: Delayed) -> None:
    injected = [each for each in run.repeat.injected if each.at == LATE.at]
    assert [(each.rank, each.fired) for each in injected] == [(1, len(run.delayed))]


def test_it_comes_in_place_of_the_trials_own_delays(run: Delayed) -> None:
    own = [step.step for step in run.heard if isinstance(step, Step) and any(each.at == "data" for each in step.slept)]
    assert sorted(set(own)) == list(range(len(set(own))))
    assert abs(len(set(own)) - run.delayed[0]) <= 1  # each rank takes the new ones up at its own next step


def test_the_results_say_what_was_changed_and_from_which_step_on(run: Delayed) -> None:
    put_in, taken_out = run.repeat.changes
    assert put_in.step is not None
    assert taken_out.step is not None
    assert abs(put_in.step - run.delayed[0]) <= ON_THEIR_WAY
    assert abs(taken_out.step - (run.delayed[-1] + 1)) <= ON_THEIR_WAY
    assert 0 < put_in.s < taken_out.s < run.repeat.startup_s + run.repeat.train_time_s
    said = note_lines(run.session.results, run.session.preset)
    [changed] = [line for line in said if f": changed by hand from step {put_in.step} on: " in line]
    assert f"forward {LATE_MS} ms on 1" in changed
    assert f"; from step {taken_out.step} on: no delay; the figures include it" in changed


def test_the_rank_is_named_for_the_steps_in_which_it_was_delayed(run: Delayed) -> None:
    put_in, _ = run.repeat.changes
    assert run.repeat.culprit is not None
    assert run.repeat.culprit == put_in.culprit
    assert (run.repeat.culprit.rank, run.repeat.culprit.phase) == (1, "forward")
    [changed] = [line for line in note_lines(run.session.results, run.session.preset) if "changed by hand" in line]
    assert re.search(r"\(measured: 1\d(\.\d)? ms a step on rank 1, in forward\)", changed)


def test_the_other_rank_waits_for_it_as_long_as_it_is_delayed(run: Delayed) -> None:
    first, last = run.delayed[0], run.delayed[-1]
    assert run.waits_ms(range(first)) < LATE_MS / 2
    assert run.waits_ms(range(first, last + 1)) > LATE_MS / 2
    assert run.waits_ms(range(last + 1, STEPS)) < LATE_MS / 2

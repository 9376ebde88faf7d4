"""A run in a thread of its own, with real ranks: to its end, with delays put in and taken out, skipped, stopped, and
where its folder is gone."""

import errno
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import psutil
import pytest

from ddptui.analysis.results import RepeatResult
from ddptui.analysis.waits import AlignedStep, align_steps
from ddptui.config.trial import Bottleneck
from ddptui.engines.local.warm import WarmParent
from ddptui.live.fold import fold
from ddptui.live.rank_states import wait_ms
from ddptui.live.state import Live
from ddptui.report import sentences, table
from ddptui.run import lab
from ddptui.run.lab import Controls
from ddptui.run.session import ERROR_LOG, Session
from ddptui.store.journal import RepeatJournal, run_lost
from ddptui.store.outcomes import results_of
from ddptui.store.runs import Run
from ddptui.wire.messages import Pause, Step
from ddptui.wire.records import Ended, Injection, Launched, Message
from tests.support.builders import launched, preset_of
from tests.support.runner import ENOUGH_S, family, survivors

STEPS = 200
LATE_MS = 15
LATE = Bottleneck(at="forward", ranks=(1,), sleep_ms=LATE_MS)
ENOUGH_STEPS = 20  # before the delay, and with it
ON_THEIR_WAY = 2  # steps that may begin before a delay that was sent has come

TINY: dict[str, Any] = {"model": "mlp", "width": 16, "depth": 1, "warmup_steps": 2, "threads": 1}
MODES: dict[str, dict[str, Any]] = {
    "spawn": {"launch": "spawn", "strategy": "all_reduce"},
    "launch": {"launch": "launch", "strategy": "all_reduce"},
    "dp": {"launch": "dp"},
}


def trial(name: str, steps: int, ranks: tuple[int, ...] = (0,), **fields: Any) -> dict[str, Any]:
    """Its steps take 8 ms at least: a console has time to see them."""
    pace = {"at": "data", "ranks": list(ranks), "sleep_ms": 8}
    return {"name": name, "launch": "single", "steps": steps, "bottleneck": [pace], **TINY, **fields}


@contextmanager
def session_of(warm: WarmParent, runs: Path, *trials: dict[str, Any], repeats: int = 1) -> Iterator[Session]:
    preset = preset_of({"repeats": repeats, "trial": list(trials)})
    with ThreadPoolExecutor(1) as threads:
        session = Session(preset, Run.create(runs, preset, {"cores": 2}), threads, warm=warm)
        try:
            yield session
        finally:
            session.close()


def follow(session: Session, act: Callable[[Live], object] = lambda live: None) -> list[Message]:
    """All that is heard, to the end; `act` is what somebody does who sees it."""
    live, heard = Live(), []
    deadline = time.monotonic() + ENOUGH_S
    while not session.is_over:
        assert time.monotonic() < deadline, live
        new = session.drain()
        fold(live, new)
        heard += new
        act(live)
        time.sleep(0.01)  # a session is looked at from time to time: it calls nobody
    return heard + session.drain()


def once(act: Callable[[], object]) -> Callable[[], object]:
    acts = iter([act])
    return lambda: next(acts, lambda: None)()


def launches(heard: list[Message]) -> list[tuple[str, int]]:
    return [(message.trial, message.repeat) for message in heard if isinstance(message, Launched)]


@pytest.fixture
def started() -> Callable[[], list[psutil.Process]]:
    """Those of the processes that the test has started that are still there."""
    before = set(family(os.getpid()))
    return lambda: [process for process in family(os.getpid()) if process not in before]


def ends(heard: list[Message]) -> list[str]:
    return [message.status for message in heard if isinstance(message, Ended)]


# Delays put in by hand


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
            session.controls.inject((LATE,))
            done.append(live.step)
        elif len(done) == 1 and len(with_the_delay(live)) >= ENOUGH_STEPS:
            session.controls.inject(())
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
    said = sentences.of_trial(run.session.results.trials[0], run.session.preset.trials[0])
    changed = f"from step {put_in.step} on, forward {LATE_MS} ms on 1; from step {taken_out.step} on, no delay"
    assert f"changed while it ran: {changed}" in said


def test_the_other_rank_waits_for_it_as_long_as_it_is_delayed(run: Delayed) -> None:
    first, last = run.delayed[0], run.delayed[-1]
    assert run.waits_ms(range(first)) < LATE_MS / 2
    assert run.waits_ms(range(first, last + 1)) > LATE_MS / 2
    assert run.waits_ms(range(last + 1, STEPS)) < LATE_MS / 2


# Skipped and stopped


def test_skip_goes_on_with_the_next_trial_and_stop_keeps_what_is_finished(
    warm: WarmParent, tmp_path: Path, started: Callable[[], list[psutil.Process]]
) -> None:
    """The first trial is skipped, and spared its second repeat; in that of the other one all is stopped."""

    def by_hand(live: Live) -> None:
        known.update(started())
        if live.trial == "endless" and live.step > 5:
            skip()
        elif (live.trial, live.repeat) == ("short", 2) and live.step > 5:
            stop()

    known: set[psutil.Process] = set()
    with session_of(warm, tmp_path, trial("endless", 1_000_000), trial("short", 120), repeats=2) as session:
        skip, stop = once(session.controls.skip), once(session.controls.stop)
        heard = follow(session, by_hand)
        assert not survivors(list(known), 0)
    assert len(known) >= 3
    assert launches(heard) == [("endless", 1), ("short", 1), ("short", 2)]
    assert ends(heard) == ["skipped", "ok", "interrupted"]
    assert session.error is None
    assert session.results.status == "interrupted"
    assert [(each.status, len(each.repeats)) for each in session.results.trials] == [("skipped", 0), ("ok", 1)]
    assert session.results == results_of(session.run, session.preset)
    kept = (session.run.folder / "results.json").read_text()
    assert kept == table.as_json(session.results, session.preset)


def test_a_run_that_is_closed_while_its_ranks_start_leaves_nobody(
    warm: WarmParent, tmp_path: Path, started: Callable[[], list[psutil.Process]]
) -> None:
    with session_of(warm, tmp_path, trial("a", 8, launch="spawn", strategy="all_reduce")) as session:
        heard: list[Message] = []
        deadline = time.monotonic() + ENOUGH_S
        while not (processes := started()):
            assert time.monotonic() < deadline
            heard += session.drain()
        session.close()
        assert session.is_over
        assert not survivors(processes, 0)
        heard += session.drain()
    assert (launches(heard), ends(heard)) == ([("a", 1)], ["interrupted"])
    assert (session.error, session.results.status) == (None, "interrupted")


def test_what_was_wanted_of_the_launch_before_is_void_but_a_stop_is_not() -> None:
    controls = Controls()
    controls.inject((LATE,))
    controls.skip()
    assert controls.end() == "skipped"
    controls.begin()
    assert (list(controls.injections()), controls.end()) == ([], None)
    controls.stop()
    controls.begin()
    assert controls.end() == "interrupted"


def test_what_is_to_be_sent_is_sent_once() -> None:
    controls = Controls()
    controls.inject((LATE,))
    controls.inject(())
    assert [list(controls.injections()) for _ in range(2)] == [[(LATE,), ()], []]


# What goes wrong


def test_a_run_whose_folder_is_gone_says_so_and_goes_no_further(
    warm: WarmParent, tmp_path: Path, started: Callable[[], list[psutil.Process]]
) -> None:
    with session_of(warm, tmp_path, trial("a", 30), trial("b", 8)) as session:
        folder = session.run.folder
        gone = once(lambda: shutil.rmtree(folder))
        heard = follow(session, lambda live: live.step and gone())
        assert not started()
    assert session.error is not None
    assert session.error.startswith(f"the run can no longer be kept in {folder}")
    assert session.error.endswith(": it has been deleted")
    assert launches(heard) == [("a", 1)]
    assert not folder.exists()


def test_a_disk_that_is_full_ends_the_ranks_at_once(
    warm: WarmParent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, started: Callable[[], list[psutil.Process]]
) -> None:
    write = RepeatJournal.write

    def full(repeat: RepeatJournal, message: Message) -> None:
        if isinstance(message, Step):
            raise run_lost(repeat.folder, OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
        write(repeat, message)

    monkeypatch.setattr(RepeatJournal, "write", full)
    with session_of(warm, tmp_path, trial("a", 1_000_000), trial("b", 8)) as session:
        heard = follow(session)
        assert not started()
    assert session.error is not None
    assert session.error.startswith(f"the run can no longer be kept in {session.run.folder}")
    assert session.error.endswith(os.strerror(errno.ENOSPC))
    assert launches(heard) == [("a", 1)]
    assert session.results.status == "interrupted"


@pytest.mark.parametrize("writable", [True, False])
def test_an_internal_error_names_its_kind_and_keeps_its_traceback(
    warm: WarmParent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, writable: bool
) -> None:
    prepared = threading.Event()

    def broken(*_: object, **__: object) -> Iterator[Message]:
        yield launched("a")
        prepared.wait(10)  # else the log may be written before the folder stands in its place
        raise ValueError("no such thing")

    monkeypatch.setattr(lab, "run_preset", broken)
    with session_of(warm, tmp_path, trial("a", 8)) as session:
        path = session.run.folder / ERROR_LOG
        if not writable:
            path.mkdir()
        prepared.set()
        assert follow(session) == [launched("a")]
    assert session.error is not None
    assert session.error.startswith("ValueError: no such thing; ")
    if writable:
        assert session.error.endswith(f"the traceback is in {path}")
        kept = path.read_text(encoding="utf-8")
        assert kept.startswith("Traceback (most recent call last):")
        assert 'raise ValueError("no such thing")' in kept
    else:
        assert session.error.endswith(f"cannot be written to {path}: {os.strerror(errno.EISDIR)}")

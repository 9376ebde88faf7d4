"""A run in a thread of its own, with real ranks: skipped, stopped, closed, and where its folder is gone."""

import errno
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from ddptui.config.trial import Bottleneck
from ddptui.engines.local.warm import WarmParent
from ddptui.live.state import Live
from ddptui.report import table
from ddptui.run import runner
from ddptui.run.runner import ERROR_LOG
from ddptui.store.journal import RepeatJournal, RunLost
from ddptui.store.overview import results_of
from ddptui.wire.messages import Step
from ddptui.wire.records import Message
from tests.support.builders import launched
from tests.support.runner import ENOUGH_S, family, survivors
from tests.support.sessions import TINY, ends, follow, launches, session_of, trial


@pytest.fixture
def started() -> Callable[[], list[psutil.Process]]:
    """Those of the processes that the test has started that are still there."""
    before = set(family(os.getpid()))
    return lambda: [process for process in family(os.getpid()) if process not in before]


def once(act: Callable[..., object]) -> Callable[..., object]:
    acts = iter([act])
    return lambda *words: next(acts, lambda *_: None)(*words)


def test_skip_goes_on_with_the_next_trial_and_stop_keeps_what_is_finished(
    warm: WarmParent, tmp_path: Path, started: Callable[[], list[psutil.Process]]
) -> None:
    """The first trial is skipped, and spared its second repeat; in that of the other one all is stopped."""

    def by_hand(live: Live) -> None:
        known.update(started())
        if live.trial == "endless" and live.step > 5:
            skip(live.launched_ns)
        elif (live.trial, live.repeat) == ("short", 2) and live.step > 5:
            stop()

    known: set[psutil.Process] = set()
    with session_of(warm, tmp_path, trial("endless", 1_000_000), trial("short", 200), repeats=2) as session:
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


# What goes wrong


def test_a_run_whose_folder_is_gone_says_so_and_goes_no_further(
    warm: WarmParent, tmp_path: Path, started: Callable[[], list[psutil.Process]]
) -> None:
    with session_of(warm, tmp_path, trial("a", 30), trial("b", 8)) as session:
        folder = session.run.folder
        gone = once(lambda: shutil.rmtree(folder))
        heard = follow(session, lambda live: live.step and gone())
        assert not survivors(started(), 0)
    assert session.error is not None
    assert session.error.startswith(f"the run can no longer be saved in {folder}")
    assert session.error.endswith(": it has been deleted")
    assert launches(heard) == [("a", 1)]
    assert not folder.exists()


def test_a_disk_that_is_full_ends_the_ranks_at_once(
    warm: WarmParent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, started: Callable[[], list[psutil.Process]]
) -> None:
    write = RepeatJournal.write

    def full(repeat: RepeatJournal, message: Message) -> None:
        if isinstance(message, Step):
            raise RunLost(repeat.folder, OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
        write(repeat, message)

    monkeypatch.setattr(RepeatJournal, "write", full)
    with session_of(warm, tmp_path, trial("a", 1_000_000), trial("b", 8)) as session:
        heard = follow(session)
        assert not survivors(started(), 0)
    assert session.error is not None
    assert session.error.startswith(f"the run can no longer be saved in {session.run.folder}")
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
        prepared.wait(60)  # else the log may be written before the folder stands in its place
        raise ValueError("no such thing")

    monkeypatch.setattr(runner, "run_preset", broken)
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


UNTIL_STOPPED = {"epochs": 0, "launch": "spawn", "batch_size": 128}


@pytest.mark.parametrize(
    ("end", "fields"),
    [
        pytest.param("stop", {"strategy": "all_reduce"}, id="all_reduce"),
        pytest.param("skip", {"strategy": "ddp", "every": 3}, id="gradients that add up"),
        pytest.param("stop", {"strategy": "all_reduce", "every": 60, "batch_size": 8}, id="windows of a second"),
        pytest.param("skip", {"strategy": "none"}, id="no aggregation"),
    ],
)
def test_a_training_until_it_is_stopped_ends_well_and_all_ranks_with_the_same_step(
    end: str, fields: dict[str, Any], warm: WarmParent, tmp_path: Path
) -> None:
    def by_hand(live: Live) -> None:
        if live.step > 20 and live.injected is None:
            session.controls.inject((delay,), live.launched_ns)
        # Ranks that average nothing do not wait for each other.
        if len(live.ranks) == 2 and min(rank.step for rank in live.ranks.values()) > 41:
            end_once(live.launched_ns)

    delay = Bottleneck(at="data", ranks=(0,), sleep_ms=5)
    with session_of(warm, tmp_path, trial("p", None, ranks=(1,), **UNTIL_STOPPED | fields)) as session:
        controls = session.controls
        end_once = once(lambda launched_ns: controls.skip(launched_ns) if end == "skip" else controls.stop())
        heard = follow(session, by_hand)
    assert ends(heard) == ["ok"]
    assert session.results.status == "ok"
    last = {rank: max(m.step for m in heard if isinstance(m, Step) and m.rank == rank) for rank in (0, 1)}
    assert min(last.values()) > 40
    assert last[0] == last[1] or fields["strategy"] == "none"
    [repeat] = session.results.trials[0].repeats
    assert repeat.steps + TINY["warmup_steps"] == max(last.values()) + 1
    assert fields["strategy"] == "none" or repeat.in_sync


def test_a_long_delay_that_no_step_shows_yet_costs_no_results(warm: WarmParent, tmp_path: Path) -> None:
    delay = Bottleneck(at="forward", ranks=(1,), sleep_ms=1500)

    def by_hand(live: Live) -> None:
        if live.step > 20 and live.injected is None:
            session.controls.inject((delay,), live.launched_ns)
        if live.injected is not None:
            stop()

    with session_of(warm, tmp_path, trial("p", None, **UNTIL_STOPPED)) as session:
        stop = once(session.controls.stop)
        heard = follow(session, by_hand)
    assert ends(heard) == ["ok"]
    assert max(message.end_ns - message.begin_ns for message in heard if isinstance(message, Step)) > 1_500_000_000


def test_a_training_until_it_is_skipped_is_not_repeated(warm: WarmParent, tmp_path: Path) -> None:
    def by_hand(live: Live) -> None:
        if live.step > 10:
            skip(live.launched_ns) if live.trial == "u" else stop()

    trials = [trial(name, None, epochs=0) for name in ("u", "v")]
    with session_of(warm, tmp_path, *trials, repeats=2) as session:
        skip, stop = once(session.controls.skip), once(session.controls.stop)
        heard = follow(session, by_hand)
    assert launches(heard) == [("u", 1), ("v", 1)]
    assert ends(heard) == ["ok", "ok"]


def test_closing_does_not_wait_for_a_long_delay(warm: WarmParent, tmp_path: Path) -> None:
    delay = {"at": "forward", "ranks": [1], "sleep_ms": 60_000, "from_step": 10}
    fields = UNTIL_STOPPED | {"bottleneck": [delay]}
    with session_of(warm, tmp_path, trial("p", None, **fields)) as session:
        heard: list[Message] = []
        deadline = time.monotonic() + ENOUGH_S
        while sum(isinstance(message, Step) for message in heard) < 20:
            assert time.monotonic() < deadline
            heard += session.drain()
            time.sleep(0.01)
        began = time.monotonic()
        session.close()
        assert time.monotonic() - began < 30  # and not a minute
        heard += session.drain()
    assert ends(heard) == ["interrupted"]

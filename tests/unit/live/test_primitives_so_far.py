"""What a run of primitives has shown so far: as much as all ranks have told, and in the end what results.json says."""

from collections import Counter
from pathlib import Path

import pytest

from ddptui.analysis.results import TrialResult
from ddptui.live.fold import fold
from ddptui.live.state import Live, PrimitivesProgress
from ddptui.report.primitive_tables import view_title
from ddptui.store.overview import outcomes_of, results_of
from ddptui.store.runs import Run
from ddptui.wire.messages import Hello, Shown, Timed
from ddptui.wire.records import Launched, Message
from tests.support.builders import replayed

RUN = Run(Path(__file__).parents[2] / "tui" / "recorded_primitives" / "run")
PRESET = RUN.preset()
TRIALS = {trial.name: trial for trial in PRESET.trials}


def messages() -> list[Message]:
    return replayed(RUN, PRESET)


def result(name: str) -> TrialResult:
    return next(trial for trial in results_of(RUN, PRESET).trials if trial.name == name)


@pytest.mark.parametrize("name", TRIALS)
def test_at_the_end_it_is_what_the_results_have(name: str) -> None:
    found = PrimitivesProgress()
    found.add(messages())
    told, [launch] = found.result(name), result(name).primitives
    assert told is not None
    assert (told.ranks, told.cadence, told.backend) == (launch.ranks, launch.cadence, launch.backend)
    assert told.views == launch.views
    assert told.cells == launch.cells
    of_results = PrimitivesProgress.of(results_of(RUN, PRESET)).result(name)
    assert of_results is not None
    assert (of_results.views, of_results.cells) == (told.views, told.cells)
    resumed = PrimitivesProgress(outcomes_of(RUN, PRESET)).result(name)
    assert resumed is not None
    assert resumed.cells == told.cells


def test_two_launches_of_a_trial_are_seen_as_one_and_until_there_is_more_it_is_the_same_object() -> None:
    found = PrimitivesProgress()
    found.add([*messages(), *messages()])
    told, [launch] = found.result("ranks-2"), result("ranks-2").primitives
    assert told is not None
    assert [cell.calls for cell in told.cells] == [2 * cell.calls for cell in launch.cells]
    found.add([Launched(trial="ranks-2", repeat=3, at_ns=0, command=())])
    assert found.result("ranks-2") is told
    assert found.result("nobody") is None


def test_a_primitive_is_there_once_all_ranks_have_told_of_it() -> None:
    found, told = PrimitivesProgress(), Counter[int]()
    for message in messages():
        found.add([message])
        if isinstance(message, Shown):
            told[message.place] += 1
            seen = found.result("see")
            assert seen is not None
            assert len(seen.views) == sum(ranks == 4 for ranks in told.values())
    assert len(told) == 23
    assert found.trial == "ranks-4"


def test_the_primitive_that_was_called_last_is_named_with_its_size() -> None:
    live, said = Live(), list[str]()
    for message in messages():
        fold(live, [message])
        if isinstance(message, Shown | Timed) and live.called not in said:
            said.append(live.called)
    assert said[:3] == ["send_recv", "isend_irecv", "broadcast"]
    assert "all_reduce MAX" in said
    assert "all_reduce, 4 KB" in said


def test_what_ranks_of_another_launch_have_told_does_not_count() -> None:
    told = messages()
    hellos = [message for message in told if isinstance(message, Hello)][:4]
    first = [message for message in told if isinstance(message, Shown) and message.place == 0]
    found = PrimitivesProgress()
    found.add([Launched(trial="stopped", repeat=1, at_ns=0, command=()), *hellos, first[0]])
    found.add([Launched(trial="see", repeat=1, at_ns=1, command=()), *hellos, *first[1:]])
    assert found.result("see") == found.result("stopped")
    found.add(first[:1])
    seen = found.result("see")
    assert seen is not None
    assert [view_title(view) for view in seen.views] == ["send/recv"]

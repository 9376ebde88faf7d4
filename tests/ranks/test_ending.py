"""What a process of a watched training says of the exceptions that end it or one of its threads."""

import json
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from workers.watch import patches
from workers.watch.ending import END, failure_of


def raises_while_handling() -> None:
    try:
        {}["lr"]
    except KeyError:
        raise RuntimeError("no schedule")  # noqa: B904


def raises_from() -> None:
    raise RuntimeError("no schedule") from OSError("no file")


def hides_what_it_handled() -> None:
    try:
        {}["lr"]
    except KeyError:
        raise RuntimeError("no schedule") from None


@pytest.mark.parametrize(
    ("fails", "origin"), [(raises_while_handling, "KeyError: 'lr'"), (raises_from, ""), (hides_what_it_handled, "")]
)
def test_an_exception_names_the_one_that_was_handled_when_it_was_raised(fails: Callable[[], None], origin: str) -> None:
    with pytest.raises(RuntimeError) as raised:
        fails()
    first, *rest = failure_of(raised.value).error.splitlines()
    assert first == "RuntimeError: no schedule"
    assert [line.partition("py:")[2].partition(": ")[2] for line in rest] == ([origin] if origin else [])
    assert all(line.startswith("origin: ") and "test_ending.py:" in line for line in rest)


def test_an_exception_that_ends_a_thread_is_an_event_and_goes_to_the_trainings_own_hook(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hooked: list[str] = []
    monkeypatch.setattr(threading, "excepthook", lambda arguments: hooked.append(str(arguments.exc_value)))
    monkeypatch.setattr(END, "events", str(tmp_path / "events"))
    patches._patch_threads()
    for error in (OSError("cut off"), SystemExit(1)):
        thread = threading.Thread(target=fail_with, args=(error,))
        thread.start()
        thread.join()
    [event] = map(json.loads, (tmp_path / "events").read_text().splitlines())
    assert (event["what"], event["error"], event["stack"][0][2]) == ("thread", "OSError: cut off", "fail_with")
    assert hooked == ["cut off", "1"]


def fail_with(error: BaseException) -> None:
    raise error

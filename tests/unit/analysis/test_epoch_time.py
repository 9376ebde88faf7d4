"""How long an epoch and a batch took, and when the first is only an estimate."""

import msgspec
import pytest

from ddptui.report.columns import columns_of
from ddptui.report.rows import rows_of
from ddptui.wire.messages import Ready, Step
from ddptui.wire.records import Message
from tests.support.builders import MS, journal, preset_of, result_of, results_for

BATCHES = 4  # in an epoch


def epochs(steps: int, known: int | None = BATCHES, every: int = 1) -> list[Message]:
    """A warm-up step of 100 ms, then steps of 10 ms; before each epoch after the first, 5 ms pass. Rank 1's last step
    takes 2 ms more. known: what the ranks say of the batches in an epoch; every: which steps are reported."""

    def changed(message: Message) -> Message:
        if isinstance(message, Ready):
            return msgspec.structs.replace(message, batches=known)
        if isinstance(message, Step):
            epoch = message.step // BATCHES
            longer = 2 * MS * (message.rank == 1 and message.step % BATCHES == BATCHES - 1)
            begin_ns, end_ns = (moment + 5 * MS * epoch for moment in (message.begin_ns, message.end_ns))
            return msgspec.structs.replace(message, epoch=epoch, begin_ns=begin_ns, end_ns=end_ns + longer)
        return message

    reported = [each for each in journal(steps=steps) if not isinstance(each, Step) or each.step % every == 0]
    return [*map(changed, reported)]


def told(messages: list[Message]) -> tuple[float | None, bool]:
    result = result_of(messages)
    return result.epoch_s, result.epoch_is_estimate


@pytest.mark.parametrize(
    ("messages", "epoch_ms", "is_estimate"),
    [
        (epochs(steps=11), 42, False),  # the second and the third: the first one has the warm-up
        (epochs(steps=6), 4 * 65 / 6, True),  # the second one is cut: 6 steps and 5 ms between the epochs
        (epochs(steps=3), 4 * 32 / 3, True),
        (epochs(steps=11, known=None), 42, False),
        (epochs(steps=6, known=None), None, False),
        (epochs(steps=11, known=None, every=2), 40, True),  # three of the four batches are seen, in 30 ms
    ],
)
def test_the_slowest_ranks_median_epoch_counts(
    messages: list[Message], epoch_ms: float | None, is_estimate: bool
) -> None:
    assert told(messages) == (pytest.approx(epoch_ms and epoch_ms / 1000, rel=1e-9), is_estimate)


def test_an_epoch_that_a_restart_cut_does_not_count() -> None:
    *before, _, _, end = epochs(steps=9, known=None)
    again = [each for each in epochs(steps=11, known=None) if isinstance(each, Step)]
    later = [
        msgspec.structs.replace(each, step=each.step + 10, begin_ns=each.begin_ns + 10**9, end_ns=each.end_ns + 10**9)
        for each in again
    ]
    assert told([*before, *later, *journal()[-3:-1], end]) == (pytest.approx(0.042), False)


def test_the_table_shows_both_times() -> None:
    preset = preset_of({"title": "?", "repeats": 1, "trial": [{"name": "a"}, {"name": "b"}, {"name": "c"}]})
    named = [
        [msgspec.structs.replace(messages[0], trial=trial), *messages[1:]]
        for trial, messages in {"a": epochs(11), "b": epochs(3), "c": epochs(3, known=None)}.items()
    ]
    columns = {column.key: column.cells for column in columns_of(rows_of(results_for(preset, *named), preset))}
    assert columns["epoch"] == ["0.0420 s", "~0.0427 s", "–"]
    assert columns["batch_time"] == ["11.1 ms", "10.7 ms", "10.7 ms"]

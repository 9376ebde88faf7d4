"""What NCCL writes into a log is in the journal before the launch's end, so that results made from it again have it.

There is no GPU here: the ranks speak over gloo, and the lines are put into a rank's log while it trains.
"""

from contextlib import closing
from pathlib import Path

import pytest

from ddptui.run import lab
from ddptui.store.runs import Run
from ddptui.wire.messages import Step
from ddptui.wire.records import Ended, Message, NcclLog
from tests.support.builders import preset_of

LINES = """
h:1:2 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM
h:1:2 [0] NCCL INFO 24 coll channels, 24 collnet channels, 0 nvls channels, 32 p2p channels, 32 p2p channels per peer
"""
QUICK = {
    "name": "a",
    "launch": "spawn",
    "world_size": 2,
    "model": "mlp",
    "width": 16,
    "depth": 1,
    "steps": 8,
    "warmup_steps": 2,
    "threads": 1,
}


def messages_of(folder: Path) -> list[Message]:
    """The messages of a run whose rank 0 finds these lines in its log."""
    preset = preset_of({"repeats": 1, "trial": [QUICK]})
    run = Run.create(folder, preset, {"cores": 2})
    log = run.repeat_folder("a", 1) / "rank-0.log"
    messages = []
    with closing(lab.run_preset(preset, run)) as stream:
        for message in stream:
            messages.append(message)
            if isinstance(message, Step) and message.rank == message.step == 0:
                with log.open("a") as appended:
                    appended.write(LINES)
    assert [*run.replay(preset)] == messages
    return messages


def test_what_nccl_wrote_is_kept_before_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lab, "NCCL", "gloo")
    *_, said, end = messages_of(tmp_path)
    assert isinstance(said, NcclLog)
    assert isinstance(end, Ended)
    assert said.at_ns == end.at_ns  # reading the logs is no part of the launch
    assert (said.channels, said.transports, said.algorithms) == (24, ("P2P/CUMEM",), ())


def test_what_another_backend_has_in_its_logs_is_not_read(tmp_path: Path) -> None:
    assert not any(isinstance(message, NcclLog) for message in messages_of(tmp_path))

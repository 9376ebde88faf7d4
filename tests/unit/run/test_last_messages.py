"""What ranks said last counts, even where a busy console reads it only after they have ended."""

import io
import threading
from pathlib import Path

import msgspec
import pytest
import zmq

from ddptui.config.trial import Trial
from ddptui.engines.base import Launch
from ddptui.engines.hub import Hub
from ddptui.run import supervisor
from ddptui.run.supervisor import LaunchSupervisor
from ddptui.store.journal import RepeatJournal
from tests.support.builders import done, hello

AFTER_S = 0.05  # the first look of the console
PATIENT_MS = 10_000  # both waits end with the message: on a busy machine it may take long


class Over(Launch):
    """A launch that has ended well."""

    exit_code = 0


def test_results_that_are_still_on_their_way_are_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "ON_THEIR_WAY_MS", PATIENT_MS)
    with Hub(1) as hub, zmq.Context() as context, context.socket(zmq.DEALER) as rank:
        rank.connect(hub.endpoint)
        rank.send(msgspec.msgpack.encode([hello(0, world_size=1, token=hub.token)]))
        launch = LaunchSupervisor(Trial(world_size=1), hub, Over(), RepeatJournal(tmp_path, 1, io.BytesIO()))
        launch.add(hub.receive(PATIENT_MS))
        assert launch.is_over()
        late = threading.Timer(AFTER_S, rank.send, [msgspec.msgpack.encode([done(0)])])
        late.start()
        last = list(launch.last_messages())
        late.join()
    assert last == [done(0)]
    assert launch.ended().status == "ok"

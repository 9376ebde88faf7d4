"""What ranks said last counts, even where a busy console reads it only after they have ended."""

import io
import threading
from pathlib import Path

import msgspec
import zmq

from ddptui.config.trial import Trial
from ddptui.engines.base import Launch
from ddptui.engines.hub import Hub
from ddptui.run.supervisor import LaunchSupervisor
from ddptui.store.journal import RepeatJournal
from tests.support.builders import done, hello

AFTER_S = 0.05  # the first look of the console


class Over(Launch):
    """A launch that has ended well."""

    exit_code = 0


def test_results_that_are_still_on_their_way_are_waited_for(tmp_path: Path) -> None:
    with Hub(1) as hub, zmq.Context() as context, context.socket(zmq.DEALER) as rank:
        rank.connect(hub.endpoint)
        rank.send(msgspec.msgpack.encode([hello(0, world_size=1, token=hub.token)]))
        supervisor = LaunchSupervisor(Trial(world_size=1), hub, Over(), RepeatJournal(tmp_path, 1, io.BytesIO()))
        supervisor.add(hub.receive(1000))
        assert supervisor.is_over()
        late = threading.Timer(AFTER_S, rank.send, [msgspec.msgpack.encode([done(0)])])
        late.start()
        last = list(supervisor.last_messages())
        late.join()
    assert last == [done(0)]
    assert supervisor.ended().status == "ok"

"""Connections that the hub rejects are reported: the first one at once, the number of all at the end."""

import io
from pathlib import Path

import msgspec
import pytest
import zmq

from ddptui.config.trial import Trial
from ddptui.engines.base import Launch
from ddptui.engines.hub import Hub
from ddptui.run import lab
from ddptui.run.lab import Controls
from ddptui.run.supervisor import LaunchSupervisor
from ddptui.store.journal import RepeatJournal
from ddptui.wire.records import Refused
from tests.support.builders import hello, launched


class UnderWay(Launch):
    """A launch that ends once so many connections were rejected."""

    def __init__(self, hub: Hub, strangers: int) -> None:
        self._hub, self._strangers = hub, strangers

    @property
    def exit_code(self) -> int | None:
        return 0 if self._hub.refused >= self._strangers else None


def test_the_first_stranger_is_reported_at_once_and_the_others_are_left_for_the_end(tmp_path: Path) -> None:
    with Hub(1) as hub, zmq.Context() as context, context.socket(zmq.DEALER) as stranger:
        launch = UnderWay(hub, 4)
        supervisor = LaunchSupervisor(Trial(world_size=1), hub, launch, RepeatJournal(tmp_path, 1, io.BytesIO()))
        stranger.connect(hub.endpoint)
        knock = msgspec.msgpack.encode([hello(0, world_size=1, token="wrong")])
        stranger.send(knock)
        follow = lab._follow(launched(), supervisor, None, Controls())
        first = next(follow)
        assert isinstance(first, Refused)
        assert first.count == 1
        for _ in range(3):
            stranger.send(knock)
        with pytest.raises(StopIteration) as over:
            next(follow)
        assert not over.value.value  # the user has not ended it
        [last] = supervisor.last_messages()
    assert isinstance(last, Refused)
    assert last.count == 4

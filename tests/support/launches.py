"""Launches whose ranks live in the small world of traces.py: their messages, with delays told of."""

import msgspec

from ddptui.run.playback import Recording
from ddptui.wire.messages import Slept
from ddptui.wire.records import Message
from tests.support.builders import done, ended, hello, launched, ready
from tests.support.traces import MS, Shape, Told, all_reduce, delayed, trace, works_of


def launch_of(told: Told, trial: str = "a", repeat: int = 1, host: str = "here") -> list[Message]:
    """The messages of a launch that ended well, whose ranks made these steps."""
    return [
        launched(trial, repeat, at_ms=0),
        *(hello(rank, world_size=len(told), host=host) for rank in told),
        *(ready(rank) for rank in told),
        *(step for steps in told.values() for step in steps),
        *(done(rank) for rank in told),
        ended(),
    ]


def late_launch(
    trial: str = "a",
    *,
    ms: float = 0.0,
    seed: int = 1,
    rank: int = 1,
    ranks: int = 2,
    shape: Shape = all_reduce,
    steps: int = 40,
) -> list[Message]:
    """A launch in which a rank sleeps so long in each backward, and reports it as an injected delay."""
    works, _ = delayed(works_of(seed, ranks=ranks, steps=steps), rank, "backward", lambda _: ms)
    made = trace(works, shape)
    if ms:
        made[rank] = [
            msgspec.structs.replace(step, slept=(Slept("backward", step.begin_ns, step.begin_ns + round(ms * MS)),))
            for step in made[rank]
        ]
    return launch_of(made, trial)


def told_by(recording: Recording) -> list[tuple[int, Message]]:
    """Each message of a run in memory, with its moment."""
    return list(zip(recording.moments, recording.messages, strict=True))

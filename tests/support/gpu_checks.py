"""The checks of `make test-gpu` where there is no GPU: on runs that are made up, or of real ranks on the CPU."""

from collections.abc import Callable
from typing import Any

import msgspec

from tests.gpu.judging import Observed
from tests.gpu.plans import Plan


def missed(check: Callable[..., None], given: object, *more: object) -> list[str]:
    """What a check finds not as expected. given: what it is given instead of a GPU; more: what else it asks for."""
    found: list[Observed] = []
    check(given, lambda *observed: found.extend(observed), *more)
    assert found
    return [text for ok, text in found if not ok]


def on_the_cpu(plan: Plan, trials: tuple[str, ...] = (), **changes: Any) -> Plan:
    """The plan as it runs without GPUs, with other fields (None: as the preset has it), and only these trials."""
    fields = plan.set | {"device": "cpu", "share_gpu": False} | changes
    given = {key: value for key, value in fields.items() if value is not None}
    return msgspec.structs.replace(plan, set=given, trials=trials or plan.trials)

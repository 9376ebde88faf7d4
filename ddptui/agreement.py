"""Do the ranks agree: the same tensors, the right mean, orders of their own? Pure: their last words in."""

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from ddptui.results import Averaging, Check, InSync
from ddptui.wire import Audit, Done, Fingerprint


def in_sync(done: Sequence[Done]) -> InSync:
    """Compare the hashes of all copies of the model at the end."""
    copies = [words for words in done if words.parameters]
    if len(copies) < 2:
        return InSync(parameters=None, buffers=None, differing=[])
    parameters, buffers = _differing(copies)
    return InSync(parameters=not parameters, buffers=not buffers, differing=parameters + buffers)


def sync_checks(prints: Mapping[int, Mapping[int, Fingerprint]], ranks: int) -> list[Check]:
    """The same at the steps for which it was asked, and of which every rank has told."""
    told = {step: list(prints[step].values()) for step in sorted(prints) if len(prints[step]) == ranks}
    found = {step: _differing(copies) for step, copies in told.items()}
    return [
        Check(step=step, parameters=not parameters, buffers=not buffers, differing=parameters + buffers)
        for step, (parameters, buffers) in found.items()
    ]


def _differing(copies: Sequence[Done | Fingerprint]) -> tuple[list[str], list[str]]:
    """The names of the parameters, and of the buffers, that are not the same in all copies."""
    return (
        unequal([copy.parameters for copy in copies]),
        unequal([copy.buffers for copy in copies]),
    )


def unequal(copies: Sequence[Mapping[str, str]]) -> list[str]:
    """The names under which the copies hold different hashes."""
    names = dict.fromkeys(name for copy in copies for name in copy)
    return [name for name in names if len({copy.get(name) for copy in copies}) > 1]


def averaging(done: Iterable[Done]) -> Averaging | None:
    """The audits of all ranks as one. Only what is true of every rank is true: each error is the largest there is."""
    audits = [words.audit for words in done if words.audit]
    if not audits:
        return None

    def worst_by(error: str) -> Audit:
        return max(audits, key=lambda audit: math.inf if getattr(audit, error) is None else getattr(audit, error))

    farthest, multiple, own = worst_by("worst_error"), worst_by("scaled_error"), worst_by("own_error")
    return Averaging(
        of=farthest.of,
        error=worst_by("error").error,
        worst=farthest.worst,
        worst_error=farthest.worst_error,
        scale=multiple.scale,
        scaled_error=multiple.scaled_error,
        own_scale=own.own_scale,
        own_error=own.own_error,
    )


def reshuffled(done: Iterable[Done]) -> bool | None:
    """Whether no epoch had the order of the one before it, on any rank. None if there was one epoch."""
    orders = [words.orders for words in done if len(words.orders) > 1]
    return all(a != b for order in orders for a, b in pairwise(order)) if orders else None

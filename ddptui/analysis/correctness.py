"""Checks what a repeat shows of its strategy: whether ranks agree, whether the mean is right, and why it is not."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

import msgspec

from ddptui.analysis.results import Averaging, Check, InSync, RepeatResult
from ddptui.config import strategies
from ddptui.config.trial import Trial
from ddptui.wire.messages import Audit, Done, Fingerprint

# What rounding alone may leave between an exact mean and the true one, in the units of wire.Audit.
EXACT = {"float32": 1e-5, "float64": 1e-12}
NEAR = 1e-3  # as near must a factor be to be called by its name
EXPLAINED = 1e-2  # of the error may be left, where a multiple explains it
MOST_NAMES = 3


def error_bound(trial: Trial) -> float | None:
    """How far from the true mean a strategy may leave its tensors, in the units of wire.Audit. None: no bound is known.

    A lossy type with unit roundoff u rounds a number when it is cast, when it is divided, and in each of the n - 1
    additions over n ranks; every rounding is at most u times the sum of the absolute values so far, divided by n. The
    root mean square over the ranks bounds the mean of absolute values, hence (n + 1) u. PowerSGD has no such bound:
    what a matrix of low rank leaves out depends on the gradient.
    """
    facts = strategies.STRATEGIES[trial.strategy or "none"]
    if facts.low_rank:
        return None
    return (trial.world_size + 1) * facts.rounding or EXACT[trial.dtype]


def with_verdict(averaging: Averaging, trial: Trial) -> Averaging:
    """With the verdict: right, wrong and why, or neither where no bound is known or nothing can be compared."""
    why = why_wrong(averaging, trial)
    undecided = averaging.error is None or (why is None and error_bound(trial) is None)
    return msgspec.structs.replace(averaging, right=None if undecided else why is None, why=why)


def why_wrong(found: Averaging, trial: Trial) -> str | None:
    """What the strategy has left in place of the mean; None if it is the mean, or as near as it can be.

    What is exact must be exact in every tensor, however small a part of the whole it is; what rounds may round the
    small ones away.
    """
    if found.error is None or found.worst_error is None or found.scale is None or found.own_scale is None:
        return f"{found.of} are not finite: there is nothing to compare"
    facts, limit = strategies.STRATEGIES[trial.strategy or "none"], error_bound(trial)
    if max(found.error, 0.0 if facts.rounding else found.worst_error) <= (limit or EXACT[trial.dtype]):
        return None
    if found.scale == found.own_scale == 0:
        return f"{found.of} are all zero"
    if is_own(found):
        multiple = "" if _is_near(found.own_scale, 1) else f", times {found.own_scale:.3g}"
        return f"each rank kept its own {found.of}{multiple}: nothing was averaged"
    if is_multiple(found):
        return f"{found.of} are {found.scale:.4g} times the mean{_hint(found.scale, trial.world_size)}"
    if limit is None:
        return None
    return f"{found.of} are not the mean: {found.worst} is {found.worst_error:.2%} of its length away from it"


def is_own(found: Averaging) -> bool:
    """Whether the strategy has left nothing but a multiple of the rank's own tensors."""
    return _explains(found.own_error, found)


def is_multiple(found: Averaging) -> bool:
    """Whether the strategy has left nothing but a multiple of the mean, and not just about the mean itself."""
    return _explains(found.scaled_error, found) and not _is_near(found.scale or 0.0, 1)


def _explains(rest: float | None, found: Averaging) -> bool:
    """Whether next to nothing of the error is left when a multiple is taken for the mean."""
    return rest is not None and found.error is not None and rest <= EXPLAINED * found.error


def _hint(scale: float, ranks: int) -> str:
    if _is_near(scale, ranks):
        return ": it is the sum, the division is missing"
    return ": it was divided once too often" if _is_near(scale, 1 / ranks) else ""


def problems(trial: Trial, repeat: RepeatResult) -> Iterator[str]:
    """Every light that is red after a repeat, and why, a sentence each."""
    in_sync = repeat.in_sync
    if in_sync.parameters is False:
        first = next((check.step for check in repeat.sync_checks if not check.parameters), None)
        since = f", first seen after step {first}" if first is not None else ""
        yield f"the ranks differ in {names_text(in_sync.differing)}{since}"
    elif in_sync.buffers is False:
        yield f"parameters agree, but the ranks differ in their buffers: {names_text(in_sync.differing)}"
    if repeat.averaging and repeat.averaging.why:
        yield repeat.averaging.why
    if repeat.reshuffled is False:
        yield "the samples came in the same order in every epoch: set_epoch was not called"


def names_text(names: list[str]) -> str:
    more = len(names) - MOST_NAMES
    return ", ".join(names[:MOST_NAMES]) + (f" and {more} more tensor{'s' if more > 1 else ''}" if more > 0 else "")


def _is_near(number: float, wanted: float) -> bool:
    return abs(number - wanted) <= NEAR * wanted


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
        differing_names([copy.parameters for copy in copies]),
        differing_names([copy.buffers for copy in copies]),
    )


def differing_names(copies: Sequence[Mapping[str, str]]) -> list[str]:
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

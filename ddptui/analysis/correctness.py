"""Checks the strategy of a repeat: whether the ranks agree, whether the mean is right, and why not. Pure."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

import msgspec

from ddptui.analysis.results import Averaging, Check, InSync, RepeatResult, TrialResult
from ddptui.config import strategies
from ddptui.config.trial import Trial
from ddptui.wire.messages import Audit, Done, Fingerprint

# What rounding alone may leave between an exact mean and the true one, in the units of wire.Audit.
EXACT = {"float32": 1e-5, "float64": 1e-12}
NEAR = 1e-3  # relative: a factor this near to 1, n or 1/n is named as such
EXPLAINED = 1e-2  # a multiple of the mean explains an error if no larger part of it is left
MOST_NAMES = 3  # of tensors in a message


def error_bound(trial: Trial) -> float | None:
    """How far a strategy may leave its tensors from the true mean, in the units of wire.Audit. None: no known bound."""
    facts = strategies.STRATEGIES[trial.strategy or "none"]
    if facts.low_rank:  # PowerSGD: what a matrix of low rank leaves out depends on the gradient
        return None
    # A lossy type with unit roundoff u rounds a number when it is cast, when it is divided, and in each of the n - 1
    # additions over n ranks; every rounding is at most u times the sum of the absolute values so far, divided by n. The
    # root mean square over the ranks bounds the mean of absolute values, hence (n + 1) u.
    return (trial.world_size + 1) * facts.rounding or EXACT[trial.dtype]


def with_verdict(averaging: Averaging, trial: Trial) -> Averaging:
    """The averaging with its verdict: right, or wrong and why; neither if no bound is known or a value not finite."""
    why = why_wrong(averaging, trial)
    undecided = averaging.error is None or (why is None and error_bound(trial) is None)
    return msgspec.structs.replace(averaging, right=None if undecided else why is None, why=why)


def why_wrong(averaging: Averaging, trial: Trial) -> str | None:
    """What the strategy left in place of the mean, in words. None: it is the mean, within the bound of the strategy."""
    if (
        averaging.error is None
        or averaging.worst_error is None
        or averaging.scale is None
        or averaging.own_scale is None
    ):
        return f"{averaging.of} are not finite: there is nothing to compare"
    facts, limit = strategies.STRATEGIES[trial.strategy or "none"], error_bound(trial)
    # An exact strategy must be exact in every tensor, however small; one that rounds may round small tensors away.
    if max(averaging.error, 0.0 if facts.rounding else averaging.worst_error) <= (limit or EXACT[trial.dtype]):
        return None
    if averaging.scale == averaging.own_scale == 0:
        return f"{averaging.of} are all zero"
    if is_own(averaging):
        multiple = "" if _is_near(averaging.own_scale, 1) else f", times {averaging.own_scale:.3g}"
        return f"each rank kept its own {averaging.of}{multiple}: nothing was averaged"
    if is_multiple(averaging):
        hint = ": it was divided once too often" if _is_near(averaging.scale, 1 / trial.world_size) else ""
        hint = ": it is the sum, the division is missing" if _is_near(averaging.scale, trial.world_size) else hint
        return f"{averaging.of} are {averaging.scale:.4g} times the mean{hint}"
    if limit is None:  # an error that no multiple explains may be what the strategy left out
        return None
    where = f"{averaging.worst} is {averaging.worst_error:.2%} of its length away from it"
    return f"{averaging.of} are not the mean: {where}"


def is_own(averaging: Averaging) -> bool:
    """Whether each rank kept its own tensors, or a multiple of them."""
    return _explains(averaging.own_error, averaging)


def is_multiple(averaging: Averaging) -> bool:
    """Whether the result is a multiple of the mean, other than the mean itself."""
    return _explains(averaging.scaled_error, averaging) and not _is_near(averaging.scale or 0.0, 1)


def _explains(rest: float | None, averaging: Averaging) -> bool:
    """Whether the multiple leaves next to nothing of the error. rest: what it leaves."""
    return rest is not None and averaging.error is not None and rest <= EXPLAINED * averaging.error


def problems(trial: Trial, repeat: RepeatResult) -> Iterator[str]:
    """What is wrong with a repeat's results, a sentence for each problem."""
    in_sync = repeat.in_sync
    if in_sync.parameters is False:
        first = next((check.step for check in repeat.sync_checks if not check.parameters), None)
        since = f", first seen after step {first}" if first is not None else ""
        yield f"the ranks differ in {names_text(in_sync.differing)}{since}"
    elif in_sync.buffers is False:
        yield f"parameters agree, but the ranks differ in their buffers: {names_text(in_sync.differing)}"
    if why := averaged_wrong(repeat):
        yield why
    if repeat.reshuffled is False:
        yield "the samples came in the same order in every epoch: set_epoch was not called"


def is_not_finite(repeat: RepeatResult) -> bool:
    """Whether the loss ended as no finite number; False without instruments, which look at each step."""
    return repeat.step_ms is not None and repeat.loss.last is None


def diverged(trial: TrialResult) -> bool:
    """Whether the loss of any repeat ended as NaN or infinity. A watched command counts only if its loss was finite at
    first: the tensor that backward is called on may be no number, or may not be readable."""
    is_known = trial.kind != "command"
    return any(is_not_finite(repeat) and (is_known or repeat.loss.first is not None) for repeat in trial.repeats)


def averaged_wrong(repeat: RepeatResult) -> str | None:
    """What the strategy left in place of the mean; None: the mean, or the training diverged, and there is none."""
    return repeat.averaging.why if repeat.averaging and not is_not_finite(repeat) else None


def names_text(names: list[str]) -> str:
    """The names of tensors in a sentence, of many only the first."""
    more = len(names) - MOST_NAMES
    return ", ".join(names[:MOST_NAMES]) + (f" and {more} more tensor{'s' if more > 1 else ''}" if more > 0 else "")


def _is_near(number: float, wanted: float) -> bool:
    return abs(number - wanted) <= NEAR * wanted


def in_sync(done: Sequence[Done]) -> InSync:
    """The comparison of the hashes of all copies of the model at the end."""
    copies = [message for message in done if message.parameters]  # in `dp` only rank 0 has the model
    if len(copies) < 2:
        return InSync(parameters=None, buffers=None, differing=[])
    parameters, buffers = _differing(copies)
    return InSync(parameters=not parameters, buffers=not buffers, differing=parameters + buffers)


def sync_checks(prints: Mapping[int, Mapping[int, Fingerprint]], ranks: int) -> list[Check]:
    """The same for the steps that all ranks sent a fingerprint of. prints: by step and rank; ranks: how many."""
    complete = {step: list(prints[step].values()) for step in sorted(prints) if len(prints[step]) == ranks}
    differing = {step: _differing(copies) for step, copies in complete.items()}
    return [
        Check(step=step, parameters=not parameters, buffers=not buffers, differing=parameters + buffers)
        for step, (parameters, buffers) in differing.items()
    ]


def _differing(copies: Sequence[Done | Fingerprint]) -> tuple[list[str], list[str]]:
    """The names of the parameters and of the buffers that differ between copies."""
    parameters, buffers = [copy.parameters for copy in copies], [copy.buffers for copy in copies]
    return differing_names(parameters), differing_names(buffers)


def differing_names(copies: Sequence[Mapping[str, str]]) -> list[str]:
    """The names under which the copies have different hashes."""
    names = dict.fromkeys(name for copy in copies for name in copy)
    return [name for name in names if len({copy.get(name) for copy in copies}) > 1]


def averaging(done: Iterable[Done]) -> Averaging | None:
    """The audits of all ranks as one, each error as on the rank where it is largest. None: there is no audit."""
    audits = [message.audit for message in done if message.audit]
    if not audits:
        return None

    def worst_by(error: str) -> Audit:
        return max(audits, key=lambda audit: math.inf if getattr(audit, error) is None else getattr(audit, error))

    farthest, of_mean, of_own = worst_by("worst_error"), worst_by("scaled_error"), worst_by("own_error")
    return Averaging(
        of=farthest.of,
        error=worst_by("error").error,
        worst=farthest.worst,
        worst_error=farthest.worst_error,
        scale=of_mean.scale,
        scaled_error=of_mean.scaled_error,
        own_scale=of_own.own_scale,
        own_error=of_own.own_error,
    )


def reshuffled(done: Iterable[Done]) -> bool | None:
    """Whether every epoch had another order than the one before, on all ranks. None: there was one epoch."""
    orders = [message.orders for message in done if len(message.orders) > 1]
    return all(a != b for order in orders for a, b in pairwise(order)) if orders else None

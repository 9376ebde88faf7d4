"""Checks the results of a strategy: whether the ranks agree, whether the average is right, and if not, why. Pure."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

import msgspec

from ddptui.analysis.results import Averaging, Check, InSync, Light, RepeatResult, TrialResult
from ddptui.config import catalog
from ddptui.config.trial import Trial, is_own
from ddptui.text.words import listed
from ddptui.wire.messages import Audit, Done, Fingerprint

NEAR = 1e-3  # relative: a factor this close to 1, n or 1/n counts as equal to it
EXPLAINED = 1e-2  # a multiple of the mean explains an error if at most this part of the error remains
BUFFERS = "buffers"  # the check that does not put a comparison in doubt
MOST_NAMES = 3  # tensor names in a message
MOST_WEIGHTS = 4  # ranks whose weights a message names


def error_bound(trial: Trial) -> float | None:
    """The largest error of a correct strategy against the true mean, in the units of wire.Audit. None: no known
    bound."""
    facts = catalog.facts_of(trial.strategy)
    if facts.low_rank:  # PowerSGD: the error of a low-rank approximation depends on the gradient
        return None
    # A lossy type with unit roundoff u rounds a number when it is cast, when it is divided, and in each of the n - 1
    # additions over n ranks. Each rounding is at most u times the sum of the absolute values so far, divided by n. The
    # root mean square over the ranks bounds the mean of absolute values, hence (n + 1) u.
    return (trial.world_size + 1) * facts.rounding or catalog.EXACT[trial.dtype]


def with_verdict(averaging: Averaging, trial: Trial) -> Averaging:
    """The averaging with its verdict: right, or wrong with the reason. No verdict without a known bound, or if a value
    is not finite."""
    why = why_wrong(averaging, trial)
    undecided = averaging.error is None or (why is None and error_bound(trial) is None)
    return msgspec.structs.replace(averaging, right=None if undecided else why is None, why=why)


def why_wrong(averaging: Averaging, trial: Trial) -> str | None:
    """Says what the strategy computed instead of the mean. None: the mean, within the strategy's error bound."""
    if (
        averaging.error is None
        or averaging.worst_error is None
        or averaging.scale is None
        or averaging.own_scale is None
    ):
        return f"{averaging.of} are not finite: there is nothing to compare"
    facts, limit, ranks = catalog.facts_of(trial.strategy), error_bound(trial), trial.world_size
    # An exact strategy must be exact in every tensor, however small; a lossy one may round small tensors to 0.
    if max(averaging.error, 0.0 if facts.rounding else averaging.worst_error) <= (limit or catalog.EXACT[trial.dtype]):
        return None
    if averaging.scale == averaging.own_scale == 0:
        return f"{averaging.of} are all zero"
    if keeps_own(averaging):
        multiple = "" if is_near(averaging.own_scale, 1) else f", times {averaging.own_scale:.3g}"
        return f"each rank kept its own {averaging.of}{multiple}: nothing was averaged{_in_place(trial)}"
    if is_multiple(averaging):
        return f"{averaging.of} are {averaging.scale:.4g} times the mean{_division(averaging.scale, trial)}"
    if limit is None:  # the error may be the strategy's own approximation
        return None
    if is_on_some_ranks(averaging, trial):
        right = [str(rank) for rank in range(ranks) if rank not in averaging.wrong_ranks]
        who = f"ranks {listed(right)} have" if len(right) > 1 else f"rank {right[0]} has"
        return f"only {who} the mean: the other ranks must receive it, too"
    if is_weighted(averaging):
        return f"{averaging.of} are {_weighted(averaging.weights)}"
    if is_partly_right(averaging):
        wrong, names = averaging.wrong_tensors, names_text([*averaging.wrong], averaging.wrong_tensors)
        how = ", which each rank kept as its own" if averaging.kept_tensors == wrong else ""
        are = "are" if wrong > 1 else "is"
        return f"{wrong} of {averaging.tensors} tensors {are} not the mean: {names}{how}; the others are right"
    where = f"{averaging.worst} is {averaging.worst_error:.2%} of its length away from it"
    return f"{averaging.of} are not the mean: {where}"


def _weighted(weights: Sequence[float]) -> str:
    """What the result is if the ranks count with these weights."""
    [top, *rest] = sorted(weights, reverse=True)
    if is_near(top, 1) and all(abs(weight) < NEAR for weight in rest):
        return f"those of rank {weights.index(top)} alone: the other ranks' do not count"
    counts = listed([f"rank {rank} × {round(weight, 6):.4g}" for rank, weight in enumerate(weights)], MOST_WEIGHTS)
    text = f"a weighted sum over the ranks ({counts}), but each rank must count × {1 / len(weights):.4g}"
    if not is_near(sum(weights), 1):
        return text
    return f"{text}: divide by the number of ranks, as the loss already allows for uneven batches"


def _in_place(trial: Trial) -> str:
    """What else may be wrong in the user's own strategy, which must change the contents of the tensors."""
    return ", or not in place" if is_own(trial.strategy) else ""


def _division(scale: float, trial: Trial) -> str:
    """Why a sum over the ranks came out as this multiple of the mean."""
    ranks = trial.world_size
    if is_near(scale, ranks):
        return f": they are the sum, the division is missing{_in_place(trial)}"
    if is_near(scale, 1 / ranks):
        return ": the sum was divided once too often"
    return f": the sum was divided by {ranks / scale:.4g} instead of {ranks}" if 0 < scale < ranks else ""


def keeps_own(averaging: Averaging) -> bool:
    """Whether each rank kept its own tensors, or a multiple of them."""
    return _explains(averaging.own_error, averaging)


def is_multiple(averaging: Averaging) -> bool:
    """Whether the result is a multiple of the mean, other than the mean itself."""
    return _explains(averaging.scaled_error, averaging) and not is_near(averaging.scale or 0.0, 1)


def is_on_some_ranks(averaging: Averaging, trial: Trial) -> bool:
    """Whether some ranks have the mean, and others do not."""
    return 0 < len(averaging.wrong_ranks) < trial.world_size and not is_partly_right(averaging)


def is_weighted(averaging: Averaging) -> bool:
    """Whether the result is a sum over the ranks in which some count more than others."""
    return bool(averaging.weights) and _explains(averaging.weighted_error, averaging)


def is_partly_right(averaging: Averaging) -> bool:
    """Whether some tensors are right, and others are not."""
    return 0 < averaging.wrong_tensors < averaging.tensors


def _explains(rest: float | None, averaging: Averaging) -> bool:
    """Whether a multiple explains the error. rest: the error that remains."""
    return rest is not None and averaging.error is not None and rest <= EXPLAINED * averaging.error


def problems(trial: Trial, repeat: RepeatResult) -> Iterator[str]:
    """Yields one sentence for each problem with a repeat's results."""
    in_sync = repeat.in_sync
    if in_sync.parameters is False:
        first = next((check.step for check in repeat.sync_checks if not check.parameters), None)
        since = f", first seen after step {first}" if first is not None else ""
        is_rounded = is_own(trial.strategy) and repeat.averaging is not None and repeat.averaging.right
        order = "; each average is right but for rounding: do the ranks add in different orders?" * bool(is_rounded)
        yield f"the ranks differ in {names_text(in_sync.differing)}{since}{order}"
    elif in_sync.buffers is False:
        yield f"parameters agree, but the ranks differ in their buffers: {names_text(in_sync.differing)}"
    if why := averaged_wrong(repeat):
        yield why
    if repeat.reshuffled is False:
        yield "the samples came in the same order in every epoch: set_epoch was not called"


def lights(repeat: RepeatResult) -> list[Light]:
    """The checks of a trial of the lab that apply to it, by the names of their columns."""
    in_sync, found = repeat.in_sync, []
    if in_sync.parameters is not None:
        since = next((check.step for check in repeat.sync_checks if not check.parameters), None)
        found.append(_light("in sync", in_sync.parameters, [] if in_sync.parameters else in_sync.differing, since))
    if in_sync.parameters and in_sync.buffers is not None:
        found.append(_light(BUFFERS, in_sync.buffers, in_sync.differing))
    if repeat.averaging is not None and not is_not_finite(repeat):
        is_right = None if repeat.averaging.right is None else averaged_wrong(repeat) is None
        found.append(_light("average", is_right, [repeat.averaging.worst] if is_right is False else []))
    return found if repeat.reshuffled is None else [*found, _light("order", repeat.reshuffled)]


def _light(name: str, is_right: bool | None, differs: Sequence[str] = (), since: int | None = None) -> Light:
    return Light(
        name=name,
        state="unknown" if is_right is None else "right" if is_right else "wrong",
        differs=[*differs],
        since=since,
    )


def is_not_finite(repeat: RepeatResult) -> bool:
    """Whether the last loss is NaN or infinite; False without instruments, which record the loss."""
    return repeat.step_ms is not None and repeat.loss.last is None


def diverged(trial: TrialResult) -> bool:
    """Whether the loss of any repeat ended as NaN or infinity. For a watched command, its first loss must have been
    finite: backward may be called on a tensor that is not a scalar or cannot be read."""
    is_known = trial.kind != "command"
    return any(is_not_finite(repeat) and (is_known or repeat.loss.first is not None) for repeat in trial.repeats)


def averaged_wrong(repeat: RepeatResult) -> str | None:
    """Says what the strategy computed instead of the mean. None: the mean, or the training diverged."""
    return repeat.averaging.why if repeat.averaging and not is_not_finite(repeat) else None


def names_text(names: list[str], of: int = 0) -> str:
    """Lists the names of tensors in a sentence: the first MOST_NAMES, and the number of the others. of: the number of
    all, if names are only some of them."""
    more = max(of, len(names)) - min(MOST_NAMES, len(names))
    return ", ".join(names[:MOST_NAMES]) + (f" and {more} more tensor{'s' if more > 1 else ''}" if more > 0 else "")


def is_near(number: float, wanted: float) -> bool:
    """Whether a factor counts as equal to 1, to the number of ranks, or to one over it."""
    return abs(number - wanted) <= NEAR * wanted


def in_sync(done: Sequence[Done]) -> InSync:
    """Compares the final hashes of all copies of the model."""
    copies = [message for message in done if message.parameters]  # in `dp` only rank 0 has the model
    if len(copies) < 2:
        return InSync(parameters=None, buffers=None, differing=[])
    parameters, buffers = _differing(copies)
    return InSync(parameters=not parameters, buffers=not buffers, differing=parameters + buffers)


def sync_check(copies: Sequence[Fingerprint]) -> Check:
    """Compares the hashes of all ranks after a step."""
    parameters, buffers = _differing(copies)
    return Check(step=copies[0].step, parameters=not parameters, buffers=not buffers, differing=parameters + buffers)


def _differing(copies: Sequence[Done | Fingerprint]) -> tuple[list[str], list[str]]:
    """The names of the parameters and of the buffers that differ between copies of the model."""
    parameters, buffers = [copy.parameters for copy in copies], [copy.buffers for copy in copies]
    return differing_names(parameters), differing_names(buffers)


def differing_names(copies: Sequence[Mapping[str, str]]) -> list[str]:
    """The names of tensors whose hashes differ between the copies."""
    names = dict.fromkeys(name for copy in copies for name in copy)
    return [name for name in names if len({copy.get(name) for copy in copies}) > 1]


def averaging(done: Iterable[Done]) -> Averaging | None:
    """Combines the audits of all ranks, taking each error from the rank where it is largest. None without an audit."""
    by_rank = {message.rank: message.audit for message in done if message.audit}
    audits = [*by_rank.values()]
    if not audits:
        return None

    def worst_by(error: str) -> Audit:
        return max(audits, key=lambda audit: math.inf if getattr(audit, error) is None else getattr(audit, error))

    farthest, of_mean, of_own = worst_by("worst_error"), worst_by("scaled_error"), worst_by("own_error")
    weighted = worst_by("weighted_error") if all(audit.weights for audit in audits) else farthest
    return Averaging(
        **msgspec.structs.asdict(farthest)
        | {
            "error": worst_by("error").error,
            "scale": of_mean.scale,
            "scaled_error": of_mean.scaled_error,
            "own_scale": of_own.own_scale,
            "own_error": of_own.own_error,
            "weights": weighted.weights,
            "weighted_error": weighted.weighted_error,
            "wrong_ranks": tuple(rank for rank, audit in by_rank.items() if audit.wrong_tensors),
        }
    )


def reshuffled(done: Iterable[Done]) -> bool | None:
    """Whether every epoch had its samples in another order than the epoch before, on all ranks. None: only one
    epoch."""
    orders = [message.orders for message in done if len(message.orders) > 1]
    return all(a != b for order in orders for a, b in pairwise(order)) if orders else None

"""Makes the instruments that a trial requests, and the message that a rank sends before its first step."""

import os
import time
from types import CodeType

from torch import nn

from ddptui.config.catalog import facts_of
from ddptui.config.trial import is_own
from ddptui.wire.messages import Ready
from workers.instruments.clock import Clock
from workers.instruments.progress import Progress, SummaryProgress
from workers.instruments.sampler import Named
from workers.instruments.tap import Tap
from workers.rank.device import gpus_of, nccl_of
from workers.rank.process import Rank
from workers.rank.same_calls import SameCalls
from workers.training.flops import SampleWork
from workers.watch.ending import WORKERS, has_lock, is_ours, place_of
from workers.watch.sender import named_code


def ready(me: Rank, steps: int | None, batches: int, model: nn.Module, work: SampleWork) -> Ready:
    """The rank's Ready. steps: how many it makes; None if unknown. batches: in an epoch. model: without wrappers."""
    return Ready(
        rank=me.rank,
        at_ns=time.monotonic_ns(),
        steps=steps,
        batches=batches,
        parameters=sum(parameter.numel() for parameter in model.parameters()),
        start_ns=me.start_ns,
        flops=work.flops,
        precision=work.precision,
        nccl=nccl_of(me.device),
        gpus=gpus_of(me.device, me.trial.gpus_per_rank),
    )


LAB = os.path.dirname(WORKERS)
OF_LAB_ITSELF = os.path.join("workers", "instruments", ""), os.path.join("workers", "rank", "")


def make_progress(me: Rank) -> Progress:
    """The reporting of every step, or, without instruments, only of the training's begin and end."""
    kind = Progress if me.trial.instruments == "on" else SummaryProgress
    progress = kind(me.rank, me.trial.warmup_steps, me.reporter)
    if me.trial.instruments == "on" and me.reporter.is_heard and has_lock():
        progress.sample_lines(own_code, tells_stack=is_own(me.trial.strategy))
    return progress


def own_code(code: CodeType) -> Named:
    """File and function of some code, and whether it is the user's own. In a trial of the lab, the training loop and
    the strategies are the user's."""
    if not is_ours(code):
        return named_code(code)
    file = code.co_filename.removeprefix(LAB + os.sep)
    return None if file.startswith(OF_LAB_ITSELF) else (file, place_of(code, 0)[2], True)


def make_tap(me: Rank, network: nn.Module, clock: Clock) -> Tap:
    """The tap of a rank. Without instruments it is not attached, unless delays are injected before collectives."""
    delayed = any(delay.at == "aggregate" or is_own(delay.at) for delay in me.trial.bottleneck)
    facts = facts_of(me.trial.strategy)
    return Tap(
        clock,
        network,
        buckets=facts.buckets,
        overlaps=facts.overlaps,
        before_collective=me.delays.before_collective,
        is_asleep=lambda: me.delays.asleep,
        attached=me.trial.instruments == "on" or delayed,
        compiles=me.trial.compile or is_own(me.trial.model),
        check=SameCalls(me.rank, me.world_size, me.trial.every).check if is_own(me.trial.strategy) else None,
        fail=end_trial,
    )


def end_trial(error: Exception) -> None:
    """Raise an error of the tap: a trial that the tap does not observe to its end would have wrong figures."""
    raise error

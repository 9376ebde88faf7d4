"""The training loop of every rank: data, forward, backward, aggregate, optimizer."""

import sys
from contextlib import nullcontext

import msgspec
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ddptui.config.trial import Trial
from ddptui.wire.messages import Position
from ddptui.wire.phases import BETWEEN
from workers.aggregate.strategy import Strategy, gradients_of
from workers.instruments.clock import Clock
from workers.instruments.cuda_clock import clock_of
from workers.instruments.output import print_line
from workers.instruments.progress import Progress
from workers.instruments.records import PhaseTimer, StepRecord
from workers.rank.faults import Faults
from workers.rank.process import Rank
from workers.replicas import replicate_over_devices
from workers.training.audit import audit
from workers.training.data import Share, first_epoch, load, make_loader, on_device
from workers.training.evaluate import evaluate, fingerprint
from workers.training.flops import count_work
from workers.training.instruments import make_progress, make_tap, ready
from workers.training.models import compiled, input_shape, make_model, memory_format, set_dtype, with_sync_batchnorm
from workers.training.optimizer import autocast, make_optimizer, make_scaler, optimize

UNTIL_STOPPED = sys.maxsize  # steps


def train(me: Rank, strategy: Strategy, progress: Progress | None = None, clock: Clock | None = None) -> nn.Module:
    """Train one rank's replica of the model, and report its progress. Returns the model without wrappers.

    progress, clock: None to make them here; `dp` passes its own, which its replicas share.
    """
    trial, delays, device = me.trial, me.delays, me.device

    # The model. The strategy makes the ranks' copies equal, and may wrap the model: the loop calls `network`.
    set_dtype(trial)
    torch.manual_seed(trial.seed)  # the same on every rank, so that all start from the same parameters
    data = load(trial, input_shape(trial), device)
    model = make_model(trial, data.shape, data.classes).to(device).to(memory_format=memory_format(trial))
    work = count_work(me, model, data)
    if trial.sync_batchnorm:
        model = with_sync_batchnorm(model)
    network = strategy.prepare(replicate_over_devices(me, model))
    forward = compiled(trial, network)
    torch.manual_seed(trial.seed + 1 + me.rank)  # from here on different seeds, else all ranks drop the same units

    # The rank's share of the data, and the optimizer.
    share = Share(data.train, batch_size=trial.batch_size, rank=me.rank, world_size=me.world_size, seed=trial.seed)
    loader = make_loader(trial, data.train, share, device)
    optimizer = make_optimizer(trial, model)
    scaler = make_scaler(trial, device)
    steps = trial.steps or trial.epochs * len(share) or UNTIL_STOPPED

    # The instruments, which observe the loop, and the faults, which break it on purpose.
    clock = clock or clock_of(device)
    progress = progress or make_progress(me)
    tap = make_tap(me, network, clock)
    me.reporter.position = tap.position
    faults = Faults(trial.fault, me.rank)
    batches = first_epoch(loader)
    progress.ready(ready(me, None if steps == UNTIL_STOPPED else steps, len(share), model, work))

    for step in range(steps):
        epoch, batch = divmod(step, len(share))
        if batch == 0 and epoch > 0:  # the iterator of the first epoch was made above
            if trial.mistake != "no_set_epoch":
                share.set_epoch(epoch)  # a new order in each epoch, the same on all ranks
            batches = iter(loader)
        window = accumulation_window(step, trial.every, len(share), steps)
        averages = step == window[-1] and not faults.skips(step)
        updates = trial.average == "parameters" or step == window[-1]
        take_new_delays(me)
        delays.begin(step)
        timer = PhaseTimer(clock, step)
        tap.begin(timer)
        if faults.leaves(step):
            break

        inputs, labels = on_device(trial, next(batches), device)
        delays.at("data")
        timer.end("data")

        with nullcontext() if averages else strategy.no_sync():
            if step == window[0]:
                strategy.share_buffers(model)
            with autocast(trial, device):
                total = F.cross_entropy(forward(inputs), labels, reduction="sum")
            # Divide by the mean share of a rank, not by this rank's own share. The mean over ranks is then the mean
            # over the global batch, even if the shares differ by a sample.
            loss = total * me.world_size / samples_per_update(step, window, share, trial)
            own_loss = mean_loss(total, labels)  # here, so that it is computed before the record's last mark
            delays.at("forward")
            timer.end("forward")
            faults.strike(step, device)

            scaler.scale(loss).backward()
            tap.settle()  # torch DDP waits at the end of backward in C++, where the tap cannot see it
            delays.at("backward")
            timer.end("backward")

        if trial.average == "gradients" and averages:
            strategy.average(faults.averaged(step, gradients_of(model)))
            timer.end("aggregate")

        # If parameters are averaged, each rank makes its own optimizer step first, in every step. If gradients are
        # averaged, all ranks make the same optimizer step afterwards.
        if updates:
            optimize(scaler, optimizer, trial, model)
            timer.end("optimizer")

        if trial.average == "parameters" and averages:
            with torch.no_grad():
                strategy.average(faults.averaged(step, list(model.parameters())))
            timer.end("aggregate")

        record = StepRecord(step, epoch, timer, len(labels), own_loss, tap.end(), tap.buckets, delays.taken())
        progress.step(record, clock)
        if trial.hash_every and (step + 1) % trial.hash_every == 0:
            progress.fingerprint(fingerprint(model, me.rank, step))
        if step == window[-1] and is_stopped(me, step):
            break

    delays.end()
    tap.close()
    print_line(f"rank {me.rank}  left the training loop")
    me.reporter.position = lambda: after_loop(tap.position())
    done = evaluate(me, model, data.test)
    audited = audit(me, strategy, network, model, data.train)
    progress.done(msgspec.structs.replace(done, orders=tuple(share.orders), audit=audited))
    return model


def accumulation_window(step: int, every: int, batches: int, steps: int) -> range:
    """The steps that share one average with `step`: `every` steps, or fewer at the end of an epoch or of the training.
    batches: batches in an epoch. steps: steps of the whole training."""
    epoch, batch = divmod(step, batches)
    first = step - batch % every
    return range(first, min(first + every, (epoch + 1) * batches, steps))


def samples_per_update(step: int, window: range, share: Share, trial: Trial) -> int:
    """The number of samples, over all ranks, that the optimizer's next step averages over."""
    steps = window if trial.average == "gradients" else [step]  # gradients accumulate within a window
    return sum(share.samples_in(number % len(share)) for number in steps)


def mean_loss(total: Tensor, labels: Tensor) -> Tensor:
    """The mean loss of this rank's own samples; 0 if it has none."""
    return total.detach() / max(1, len(labels))


def is_stopped(me: Rank, step: int) -> bool:
    """Whether the console wants training to end with this step. It announces the last step early, so that all ranks end
    with the same one."""
    return me.reporter.last_step is not None and step >= me.reporter.last_step


def after_loop(position: Position) -> Position:
    """The position of a rank that has left the loop: that of its device, if it is still in a step."""
    return Position(phase=BETWEEN) if position.step is None else position


def take_new_delays(me: Rank) -> None:
    """Apply the delays that the console has sent since the last step."""
    if me.reporter.command is not None:
        me.delays.set(me.reporter.command.bottleneck)
        me.reporter.command = None

"""Hooks in the torch functions that an unmodified training calls. Each passes the call on and notifies the observer.

A hook never raises, and it changes neither arguments nor results. Hooks run several times a step, so they are short and
notify the observer directly, without helper functions. Nothing starts before a process computes a gradient or wraps a
model in torch DDP: launchers and data loader workers do neither.
"""

import atexit
import functools
import multiprocessing.util
import os
import re
import sys
import threading
import time
from collections.abc import Callable
from contextlib import nullcontext, suppress
from functools import partial
from threading import get_ident
from typing import TYPE_CHECKING, Any
from weakref import ref

import torch
import torch.distributed as dist
from torch.optim import optimizer as optimizers
from torch.utils.data.dataloader import _BaseDataLoaderIter

from ddptui.wire import phases
from ddptui.wire.connection import WATCHED

from ..instruments.shield import pass_on, suppressed
from .batches import ModuleCalls, samples_in
from .ending import END
from .link import Gone
from .process import (
    FRAMES,
    OwnThread,
    device_of,
    is_a_rank,
    is_autograds_thread,
    is_capturing,
    leave_untraced,
    no_signals,
    written,
)

if TYPE_CHECKING:
    from .observer import Observer


UNUSED = re.compile(r"did not receive grad for rank \d+: ([\d ]+)")  # as torch DDP lists parameters, by index
MOST_SHAPES = 100  # sent if a DDP cannot be made
CALLBACKS_S = 0.005  # gloo's thread then gets Python's lock, and drops what it has called
LOOK_EVERY_S = 1.0  # how often we check whether another console has started
Note = Callable[[BaseException], None]


class TorchPatches:
    """The hooks of this process, and the observer that they notify, once there is one."""

    def __init__(self, note: Note) -> None:
        self._note = note
        self._observer: Observer | None = None
        self._thread = 0  # the thread that trains; the calls of other threads are ignored
        self._settled_thread = 0  # the same thread; 0: something has changed, which its next call must handle
        self._console = os.environ[WATCHED]  # the file that names the relay; read early: a training may clear variables
        self._written: tuple[int, int] | None = None  # inode and time of that file when the observer was made
        # Observers of the processes that this one was forked from: kept, since CUDA's resources cannot be freed here.
        self._of_parents: list[Observer] = []
        self._untold: Callable[[], None] | None = None  # the end of a call, which an exception kept us from noting
        self._modules = ModuleCalls(self._module_is_called)
        self._is_over = False  # the observer has failed or ended, or waits for another console
        self._has_failed = False
        self.has_stepped_unseen = False  # an optimizer made a step in compiled code
        self.ddps: list[ref[Any]] = []  # the torch DDPs of the training
        self.signs = 0  # backward calls and marked step ends so far: equal on all ranks at the same place in training

    def observer(self, shows: Any = None) -> "Observer | None":
        """Return the observer if this thread's calls are observed, else None. shows: tensors or a module that prove
        that the process trains, and on which device; None if this call is no proof."""
        if get_ident() == self._settled_thread:
            return self._observer
        return self._look(shows)

    def changed(self) -> None:
        """Have the next hook call handle a change. Any thread may call this."""
        self._settled_thread = 0

    def _look(self, shows: Any) -> "Observer | None":
        observer = self._observer
        if observer is None:
            return None if shows is None or self._is_over else self._begin(shows)
        if get_ident() != self._thread:  # in backward, autograd's threads act for the loop's
            return observer if observer.backwards and is_autograds_thread() else None
        self._settled_thread = self._thread  # first, since another thread may call `changed` meanwhile
        if observer.is_over:
            self._let_go()
            return None
        try:
            if self._untold is not None:
                self._untold()
                self._untold = None
            if self.has_stepped_unseen:
                self.has_stepped_unseen = False
                observer.stepped_unseen()
        except Exception as error:
            self.changed()
            self.fail(error)
        return self._observer

    def _begin(self, shows: Any) -> "Observer | None":
        if not is_a_rank(self.signs) or is_autograds_thread():  # the latter: in a backward whose begin we have missed
            return None
        compiling = FRAMES.set_eval_frame(None)  # else torch.compile would trace the modules imported here
        try:
            with no_signals():  # Python may drop a handler's exception during an import; the sender must get no signals
                if not is_capturing():
                    self._make_observer(device_of(shows))
                    leave_untraced()
        except Gone:
            self._is_over = True
            OwnThread(self._await_console).start()
        except Exception as error:
            self.fail(error)
        finally:
            FRAMES.set_eval_frame(compiling)
        return self._observer

    def _make_observer(self, device: torch.device) -> None:
        from .observer import Observer  # late: most processes that import torch train nothing

        self._written = written(self._console)
        self._observer = Observer(
            self._console,
            self._modules,
            self.changed,
            self.fail,
            self.signs,
            device,
            [ddp for ddp in self.ddps if ddp() is not None],
        )
        self._thread = get_ident()
        atexit.register(self._end)
        # a process that multiprocessing has forked does not run atexit functions
        multiprocessing.util.Finalize(None, self._end, exitpriority=0)

    def _module_is_called(self, module: Any, arguments: Any) -> None:
        if observer := self.observer():
            try:
                observer.module_is_called(module, arguments)
            except Exception as error:
                self.fail(error)

    def fail(self, error: BaseException) -> None:
        """Report once that the instruments have failed, and stop observing. Raises the error again if it is the
        training's own: its signal handler may have raised it during one of our calls."""
        pass_on(error)
        if self._is_over:  # what the observer had begun cannot end
            return
        self._is_over = self._has_failed = True
        observer = self._take_observer()
        try:
            self._note(error)
            if observer is not None:
                observer.give_up()
        except Exception as another:
            pass_on(another)

    def fail_at_end(self, error: BaseException, end: Callable[[], None]) -> None:
        """Like `fail`, for an error that interrupted the observer while it noted the end of a call. The end is noted
        before the next call begins; otherwise the observer would count that call as nested in this one."""
        self._untold = end
        self.changed()
        self.fail(error)

    def _end(self) -> None:
        for _ in range(2):
            with suppress(Exception):  # a signal handler of the training has raised: nothing can catch that any more
                self.close(is_over=True)

    def close(self, *, is_over: bool = False) -> None:
        """Report that the process leaves its process group, and stop observing. is_over: the process ends."""
        if self.ddps and not hasattr(dist.ProcessGroup, "register_pre_hook"):
            # The tap's hook of a DDP (buckets.py) has callbacks in gloo's thread, for which the end of the group waits
            # with Python's lock held (seen with torch 2.11: the rank hung).
            time.sleep(CALLBACKS_S)
        observer = self._take_observer()
        if observer is not None:
            try:
                if self.has_stepped_unseen:
                    observer.stepped_unseen()
                failure = END.failure(is_over=is_over)
                observer.close(failure, [] if failure is None else END.dead_workers())
                END.is_reported = failure is not None and not observer.is_over
            except Exception as error:
                self._observer = observer
                self.fail(error)
            self._is_over = True

    def _let_go(self) -> None:
        """Stop observing: the console has gone or wants no more steps. Another console may come."""
        self.close()
        if not self._has_failed:
            OwnThread(self._await_console).start()

    def _await_console(self) -> None:
        while written(self._console) in (self._written, None):
            time.sleep(LOOK_EVERY_S)
        self._is_over = False

    def forget(self) -> None:
        """Drop the parent's observer after a fork."""
        if (observer := self._take_observer()) is not None:
            observer.forget()
            self._of_parents.append(observer)
        self._is_over = False

    def _take_observer(self) -> "Observer | None":
        observer, self._observer = self._observer, None
        self._untold = None
        self.changed()
        return observer


def install(note: Note) -> None:
    """Install the hooks in torch, which was just imported. note: reports an error of the instruments."""
    patches = TorchPatches(note)
    os.register_at_fork(after_in_child=patches.forget)
    _patch_data(patches)
    _patch_backward(patches)
    _patch_optimizers(patches)
    phases.listener = Marks(patches)
    if dist.is_available():
        _patch_ddp(patches)
        _patch_begin_of_group()
        _patch_end_of_group(patches)
    _patch_threads()
    leave_untraced()


def _patch_threads() -> None:
    hook = threading.excepthook

    @functools.wraps(hook)
    def hook_and_tell(arguments: Any) -> Any:
        try:
            return hook(arguments)
        finally:
            with suppress(Exception):
                if arguments.exc_value is not None and arguments.exc_type is not SystemExit:
                    END.thread_fails(arguments.exc_value)

    threading.excepthook = hook_and_tell


def _patch_data(patches: TorchPatches) -> None:
    iterators: Any = _BaseDataLoaderIter
    fetch = iterators.__next__

    @functools.wraps(fetch)
    def fetch_and_tell(iterator: Any) -> Any:
        observer = patches.observer()
        trains = torch.is_grad_enabled()
        batch = None
        try:  # notes the end even if a signal handler of the training raises while the begin is noted
            try:
                if observer is not None:
                    observer.data_begins(trains)
            except Exception as error:
                patches.fail(error)
            batch = fetch(iterator)
            return batch
        except StopIteration:
            raise
        except Exception:
            _note_workers(iterator)
            raise
        finally:
            if observer is not None:
                samples = None if batch is None else 0
                try:
                    samples = None if batch is None else samples_in(batch) or 0
                    observer.data_ends(batch, samples, trains, iterator)
                except BaseException as error:
                    patches.fail_at_end(error, partial(observer.data_ends, None, samples, trains, iterator))

    iterators.__next__ = fetch_and_tell


def _note_workers(iterator: Any) -> None:
    """Note the workers of a loader, since a fetch has just raised: one of them may have died."""
    with suppressed(Exception):
        workers = getattr(iterator, "_workers", ())
        END.loader = [(worker.pid, worker._popen.returncode) for worker in workers]  # `exitcode` would reap it


def _patch_backward(patches: TorchPatches) -> None:
    backward = torch.autograd.backward  # which Tensor.backward calls

    @functools.wraps(backward)
    def backward_and_tell(*arguments: Any, **options: Any) -> Any:
        tensors = arguments[0] if arguments else options.get("tensors", ())
        if (observer := patches.observer(tensors)) is None:
            patches.signs += 1
            return backward(*arguments, **options)
        is_whole = False
        try:
            try:
                observer.backward_begins(tensors)
            except Exception as error:
                patches.fail(error)
            result = backward(*arguments, **options)
            is_whole = True
            return result
        finally:
            patches.signs += 1
            try:
                observer.backward_ends(is_whole=is_whole)
            except BaseException as error:
                patches.fail_at_end(error, lambda: observer.backward_ends(is_whole=is_whole))

    torch.autograd.backward = backward_and_tell


class OptimizerHook:
    """A hook of all optimizers. If the user's script defines an optimizer class, cloudpickle pickles torch's dictionary
    of these hooks with it. Unpickling then yields a hook that does nothing."""

    def __init__(self, tell: Callable[[Any], None]) -> None:
        self._tell = tell

    def __call__(self, optimizer: Any, *_: Any) -> None:
        self._tell(optimizer)

    def __reduce__(self) -> Any:
        return getattr, (nullcontext(), "__exit__")  # accepts a hook's arguments


def _patch_optimizers(patches: TorchPatches) -> None:
    def begins(optimizer: Any) -> None:
        if not torch.compiler.is_compiling() and (observer := patches.observer()):
            try:
                observer.optimizer_begins(optimizer)
            except Exception as error:
                patches.fail(error)

    def ends(optimizer: Any) -> None:
        if torch.compiler.is_compiling():
            # torch.compile can trace and replay these two; anything else would break its graph.
            patches.has_stepped_unseen = True
            patches.changed()
        elif observer := patches.observer():
            try:
                observer.optimizer_ends(optimizer)
            except BaseException as error:
                patches.fail_at_end(error, partial(observer.optimizer_ends, optimizer))

    optimizers.register_optimizer_step_pre_hook(OptimizerHook(begins))
    optimizers.register_optimizer_step_post_hook(OptimizerHook(ends))

    # A GradScaler skips the optimizer's step if gradients overflow: it still counts as a step.
    scalers: Any = torch.amp.GradScaler
    step, scale = scalers.step, scalers.scale

    @functools.wraps(step)
    def step_and_tell(scaler: Any, optimizer: Any, *arguments: Any, **options: Any) -> Any:
        begins(optimizer)
        try:
            return step(scaler, optimizer, *arguments, **options)
        finally:
            ends(optimizer)

    @functools.wraps(scale)
    def scale_and_tell(scaler: Any, outputs: Any) -> Any:
        scaled = scale(scaler, outputs)
        if observer := patches.observer(outputs):
            try:
                observer.loss_is_scaled(outputs, scaled)
            except Exception as error:
                patches.fail(error)
        return scaled

    scalers.step, scalers.scale = step_and_tell, scale_and_tell


def _patch_ddp(patches: TorchPatches) -> None:
    ddp: Any = torch.nn.parallel.DistributedDataParallel
    make = ddp.__init__

    @functools.wraps(make)
    def make_and_tell(network: Any, *arguments: Any, **options: Any) -> None:
        try:
            make(network, *arguments, **options)
        except RuntimeError:  # perhaps since the models of the ranks differ
            with suppress(Exception):
                module = arguments[0] if arguments else options["module"]
                shapes = [str([*parameter.shape]) for parameter in module.parameters() if parameter.requires_grad]
                END.remark = f"\nparameters: {' '.join(shapes[:MOST_SHAPES])}"
            raise
        if observer := patches.observer(network):
            try:
                observer.ddp_is_made(network)
            except Exception as error:
                patches.fail(error)
        patches.ddps.append(ref(network))

    ddp.__init__, ddp.forward = make_and_tell, _telling_of_forward(patches, ddp.forward)


def _telling_of_forward(patches: TorchPatches, forward: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(forward)
    def forward_and_tell(network: Any, *arguments: Any, **options: Any) -> Any:
        # torch.compile must trace as if this hook did not exist; in compiled code, is_compiling is a constant.
        if torch.compiler.is_compiling() or (observer := patches.observer()) is None:
            return forward(network, *arguments, **options)
        trains = torch.is_grad_enabled()
        try:
            try:
                observer.forward_begins(trains, network, (arguments, options))
            except Exception as error:
                patches.fail(error)
            return forward(network, *arguments, **options)
        except RuntimeError as error:
            with suppress(Exception):
                END.remark = _without_gradients(network, str(error))
            raise
        finally:
            try:
                observer.forward_ends(trains)
            except BaseException as error:
                patches.fail_at_end(error, partial(observer.forward_ends, trains))

    return forward_and_tell


def _without_gradients(network: Any, error: str) -> str:
    """The names of the parameters whose indices a DDP's error lists, as a line; empty if it lists none."""
    listed = UNUSED.search(error)
    if listed is None:
        return ""
    names = [name for name, parameter in network.module.named_parameters() if parameter.requires_grad]
    return "\nwithout gradients: " + ", ".join(names[int(index)] for index in listed[1].split())


class Marks:
    """Receives the phases and step ends that a training marks itself, with ddptui.phase and ddptui.step."""

    def __init__(self, patches: TorchPatches) -> None:
        self._patches = patches

    def phase_begins(self, name: str) -> None:
        # A training may choose its device as late as before its first backward, so only "optimizer" proves that it
        # trains.
        if observer := self._patches.observer(() if name == "optimizer" else None):
            try:
                observer.phase_begins(name)
            except BaseException as error:  # Python does not call __exit__ if __enter__ fails
                self._patches.fail_at_end(error, observer.phase_ends)

    def phase_ends(self) -> None:
        if observer := self._patches.observer():
            try:
                observer.phase_ends()
            except BaseException as error:
                self._patches.fail_at_end(error, observer.phase_ends)

    def step_ends(self, loss: Any, samples: int) -> None:
        if observer := self._patches.observer((loss,)):
            try:
                observer.step_ends(loss, samples)
            except BaseException as error:
                self._patches.fail_at_end(error, partial(observer.step_ends, loss, samples))
        self._patches.signs += 1


def _patch_begin_of_group() -> None:
    join = dist.init_process_group

    @functools.wraps(join)
    def join_and_tell(*arguments: Any, **options: Any) -> Any:
        with suppressed(Exception):
            world, rank = (
                options.get(name, arguments[place] if place < len(arguments) else -1)
                for name, place in (("world_size", 3), ("rank", 4))
            )
            END.joins(rank if rank >= 0 else None, world if world >= 0 else None, sys._getframe(1))
        group = join(*arguments, **options)
        with suppressed(Exception):
            END.joined(dist.get_rank(), dist.get_world_size())
        return group

    modules: tuple[Any, ...] = dist, dist.distributed_c10d, dist.device_mesh  # each has a name of its own for it
    for module in modules:
        if getattr(module, "init_process_group", None) is join:
            module.init_process_group = join_and_tell


def _patch_end_of_group(patches: TorchPatches) -> None:
    destroy = dist.destroy_process_group

    @functools.wraps(destroy)
    def close_and_destroy(*arguments: Any, **options: Any) -> Any:
        group = arguments[0] if arguments else options.get("group")
        if group is None or group is dist.group.WORLD:
            patches.close()  # the tap holds a reference to the group, which must be gone when it is destroyed
        return destroy(*arguments, **options)

    dist.destroy_process_group = dist.distributed_c10d.destroy_process_group = close_and_destroy

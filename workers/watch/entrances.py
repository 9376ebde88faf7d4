"""Where a training that nobody prepared calls torch, and is seen: each entrance passes a call on, and tells of it.

An entrance never fails, and it changes neither arguments nor results. It is passed several times a step, so it is as
short as can be: what it tells, it tells in place. Nothing begins before a process computes a gradient or wraps a model
in torch DDP: launchers, and the workers of a loader, do neither.
"""

import atexit
import functools
import multiprocessing.util
import os
import time
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from threading import get_ident
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch.optim import optimizer as optimizers
from torch.utils.data.dataloader import _BaseDataLoaderIter

from ddptui.wire import phases
from ddptui.wire.connection import WATCHED

from ..instruments.shield import pass_on
from .batches import samples_in
from .device import device_of, is_autograds_thread, is_capturing
from .link import Gone
from .modules import ModuleCalls
from .process import fatal_error, is_a_rank, no_signals, written
from .threads import OwnThread
from .untraced import FRAMES, leave_untraced

if TYPE_CHECKING:
    from .observer import Observer

LOOK_EVERY_S = 1.0  # for another console
Note = Callable[[BaseException], None]


class Entrances:
    """The entrances of this process, and the observer that they tell, once there is one."""

    def __init__(self, note: Note) -> None:
        self._note = note
        self._observer: Observer | None = None
        self._thread = 0  # that trains: what others do is not seen
        self._settled_thread = 0  # the same; 0: something has changed, which its next call is to look at
        self._console = os.environ[WATCHED]  # the file that says where the relay is; a training may clear its variables
        self._written: tuple[int, int] | None = None  # when the file was that named the observer's console
        # Observers of the processes that this one was forked from: kept, since CUDA's resources cannot be freed here.
        self._of_parents: list[Observer] = []
        self._untold: Callable[[], None] | None = None  # a call's end that an exception has cut off
        self._modules = ModuleCalls(self._module_is_called)
        self._is_over = False  # it has failed, or ended, or waits for another console
        self._has_failed = False
        self.has_ddp = self.has_stepped_unseen = False  # the latter: an optimizer in what torch.compile has made
        self.signs = 0  # of steps so far: at the same place of a training as many on each rank

    def observer(self, shows: Any = None) -> "Observer | None":
        """Return the observer if this thread's calls are to be seen. shows: tensors or a module that show that the
        process trains, and on which device; None: this call does not show it."""
        if get_ident() == self._settled_thread:
            return self._observer
        return self._look(shows)

    def changed(self) -> None:
        """Have the next call look at what has changed. Any thread may say so."""
        self._settled_thread = 0

    def _look(self, shows: Any) -> "Observer | None":
        observer = self._observer
        if observer is None:
            return None if shows is None or self._is_over else self._begin(shows)
        if get_ident() != self._thread:  # during backward, the loop's thread waits for autograd's
            return observer if observer.backwards and is_autograds_thread() else None
        self._settled_thread = self._thread  # first: another thread may change something meanwhile
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
        if not is_a_rank() or is_autograds_thread():  # in a backward that was not seen to begin
            return None
        compiling = FRAMES.set_eval_frame(None)  # by torch.compile, which would trace what is imported here
        try:
            with no_signals():  # what a handler raises in an import, Python may drop; and the sender is to get none
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
        from .observer import Observer  # late: most of what torch is used for trains nothing

        self._written = written(self._console)
        self._observer = Observer(
            self._console,
            self._modules,
            self.changed,
            self.fail,
            self.signs,
            device,
            has_ddp=self.has_ddp,
        )
        self._thread = get_ident()
        atexit.register(self.close)
        # a process that multiprocessing has forked ends without the functions of atexit
        multiprocessing.util.Finalize(None, self.close, exitpriority=0)

    def _module_is_called(self) -> None:
        if observer := self.observer():
            try:
                observer.module_is_called()
            except Exception as error:
                self.fail(error)

    def fail(self, error: BaseException) -> None:
        """The instruments have failed: say so once, and see nothing more. Raises the error if it is the training's own,
        as where its signal handler has raised it in a call of ours."""
        pass_on(error)
        if self._is_over:  # what it had begun cannot end
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

    def close(self) -> None:
        """The process ends, or leaves its group: say so, and see nothing more."""
        observer = self._take_observer()
        if observer is not None:
            try:
                if self.has_stepped_unseen:
                    observer.stepped_unseen()
                observer.close(fatal_error())
            except Exception as error:
                self._observer = observer
                self.fail(error)
            self._is_over = True

    def _let_go(self) -> None:
        """The console is gone, or wants no more. Another one may come."""
        self.close()
        if self._has_failed:
            return
        OwnThread(self._await_console).start()

    def _await_console(self) -> None:
        while written(self._console) in (self._written, None):
            time.sleep(LOOK_EVERY_S)
        self._is_over = False

    def forget(self) -> None:
        """This process has been forked: what its parent has begun is not its own."""
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
    """Put the entrances into torch, which was just imported."""
    entrances = Entrances(note)
    os.register_at_fork(after_in_child=entrances.forget)
    _enter_data(entrances)
    _enter_backward(entrances)
    _enter_optimizers(entrances)
    phases.listener = Marks(entrances)
    if dist.is_available():
        _enter_ddp(entrances)
        _enter_end_of_group(entrances)
    leave_untraced()


def _enter_data(entrances: Entrances) -> None:
    iterators: Any = _BaseDataLoaderIter
    fetch = iterators.__next__

    @functools.wraps(fetch)
    def fetch_and_tell(iterator: Any) -> Any:
        if (observer := entrances.observer()) is None:
            return fetch(iterator)
        trains = torch.is_grad_enabled()
        batch = None
        try:  # the end is told even if an exception of the training's comes as the begin is told
            try:
                observer.data_begins(trains)
            except Exception as error:
                entrances.fail(error)
            batch = fetch(iterator)
            return batch
        finally:
            samples = None if batch is None else 0
            try:
                samples = None if batch is None else samples_in(batch) or 0
                observer.data_ends(samples, trains, iterator)
            except BaseException as error:
                entrances.fail_at_end(error, partial(observer.data_ends, samples, trains, iterator))

    iterators.__next__ = fetch_and_tell


def _enter_backward(entrances: Entrances) -> None:
    backward = torch.autograd.backward  # which Tensor.backward calls

    @functools.wraps(backward)
    def backward_and_tell(*arguments: Any, **options: Any) -> Any:
        tensors = arguments[0] if arguments else options.get("tensors", ())
        if (observer := entrances.observer(tensors)) is None:
            entrances.signs += 1
            return backward(*arguments, **options)
        try:
            try:
                observer.backward_begins(tensors)
            except Exception as error:
                entrances.fail(error)
            return backward(*arguments, **options)
        finally:
            entrances.signs += 1
            try:
                observer.backward_ends()
            except BaseException as error:
                entrances.fail_at_end(error, observer.backward_ends)

    torch.autograd.backward = backward_and_tell


class OptimizerHook:
    """A hook of all optimizers. cloudpickle takes torch's dictionary of these along with an optimizer whose class the
    script defines: what is made of that pickle has a hook that does nothing."""

    def __init__(self, tell: Callable[[Any], None]) -> None:
        self._tell = tell

    def __call__(self, optimizer: Any, *_: Any) -> None:
        self._tell(optimizer)

    def __reduce__(self) -> Any:
        return getattr, (nullcontext(), "__exit__")  # takes what a hook takes


def _enter_optimizers(entrances: Entrances) -> None:
    def begins(optimizer: Any) -> None:
        if not torch.compiler.is_compiling() and (observer := entrances.observer()):
            try:
                observer.optimizer_begins(id(optimizer))
            except Exception as error:
                entrances.fail(error)

    def ends(optimizer: Any) -> None:
        if torch.compiler.is_compiling():
            # torch.compile repeats this, and would do the same for nothing else without a break in its graph.
            entrances.has_stepped_unseen = True
            entrances.changed()
        elif observer := entrances.observer():
            try:
                observer.optimizer_ends(id(optimizer))
            except BaseException as error:
                entrances.fail_at_end(error, partial(observer.optimizer_ends, id(optimizer)))

    optimizers.register_optimizer_step_pre_hook(OptimizerHook(begins))
    optimizers.register_optimizer_step_post_hook(OptimizerHook(ends))

    # A GradScaler leaves a step out where gradients overflow: it is a step all the same.
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
        if observer := entrances.observer(outputs):
            try:
                observer.loss_is_scaled(outputs, scaled)
            except Exception as error:
                entrances.fail(error)
        return scaled

    scalers.step, scalers.scale = step_and_tell, scale_and_tell


def _enter_ddp(entrances: Entrances) -> None:
    ddp: Any = torch.nn.parallel.DistributedDataParallel
    make = ddp.__init__

    @functools.wraps(make)
    def make_and_tell(network: Any, *arguments: Any, **options: Any) -> None:
        make(network, *arguments, **options)
        entrances.has_ddp = True
        if observer := entrances.observer(network):
            try:
                observer.ddp_is_made()
            except Exception as error:
                entrances.fail(error)

    ddp.__init__, ddp.forward = make_and_tell, _telling_of_forward(entrances, ddp.forward)


def _telling_of_forward(entrances: Entrances, forward: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(forward)
    def forward_and_tell(network: Any, *arguments: Any, **options: Any) -> Any:
        # What torch.compile traces must be as if nothing were here; of a graph that is compiled it sees a constant.
        if torch.compiler.is_compiling() or (observer := entrances.observer()) is None:
            return forward(network, *arguments, **options)
        trains = torch.is_grad_enabled()
        try:
            try:
                observer.forward_begins(trains)
            except Exception as error:
                entrances.fail(error)
            return forward(network, *arguments, **options)
        finally:
            try:
                observer.forward_ends(trains)
            except BaseException as error:
                entrances.fail_at_end(error, partial(observer.forward_ends, trains))

    return forward_and_tell


class Marks:
    """What a training says of itself."""

    def __init__(self, entrances: Entrances) -> None:
        self._entrances = entrances

    def phase_begins(self, name: str) -> None:
        # Before its first backward, a training may have yet to choose its device.
        if observer := self._entrances.observer(() if name == "optimizer" else None):
            try:
                observer.phase_begins(name)
            except BaseException as error:  # Python does not leave a block that it could not enter
                self._entrances.fail_at_end(error, observer.phase_ends)

    def phase_ends(self) -> None:
        if observer := self._entrances.observer():
            try:
                observer.phase_ends()
            except BaseException as error:
                self._entrances.fail_at_end(error, observer.phase_ends)

    def step_ends(self, loss: Any, samples: int) -> None:
        if observer := self._entrances.observer((loss,)):
            try:
                observer.step_ends(loss, samples)
            except BaseException as error:
                self._entrances.fail_at_end(error, partial(observer.step_ends, loss, samples))
        self._entrances.signs += 1


def _enter_end_of_group(entrances: Entrances) -> None:
    destroy = dist.destroy_process_group

    @functools.wraps(destroy)
    def close_and_destroy(*arguments: Any, **options: Any) -> Any:
        group = arguments[0] if arguments else options.get("group")
        if group is None or group is dist.group.WORLD:
            entrances.close()  # the tap holds the group, which must be free when it is destroyed
        return destroy(*arguments, **options)

    dist.destroy_process_group = dist.distributed_c10d.destroy_process_group = close_and_destroy

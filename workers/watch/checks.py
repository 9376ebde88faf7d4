"""Reads what the console compares between ranks: sums over parameters, buffers and gradients, settings, and batches.

A rank reads at few steps, the same on all ranks, and at most 64 MB at a time: of a larger model a part, and the next
part at the next such step. It never waits for its device, calls no collective, and keeps no tensor of the training.
"""

import os
import zlib
from collections.abc import Iterator, Sequence
from typing import Any
from weakref import ref

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn import Module
from torch.nn.modules.dropout import _DropoutNd
from torch.nn.parallel import DistributedDataParallel

from ..instruments.clock import Clock
from ..instruments.page_locked import OnItsWay, PageLockedNumbers
from ..instruments.shield import shielded
from .batches import first_tensor

CPU = torch.device("cpu")
MOST_BYTES = 64 * 2**20  # summed at a time: 6 ms of a CPU
MOST_TENSORS = 200  # likewise; each takes some 10 µs
# Backward calls: up to the first number, four of each doubling are followed by a reading, up to the second two.
FOUR_UNTIL, TWO_UNTIL = 64, 1_024
SAMPLED_TENSORS, SAMPLED_NUMBERS = 32, 8  # tensors of which gradients are sampled, and numbers of each
MOST_ROWS, MOST_COLUMNS = 32, 256  # samples of a batch that are summed, and numbers of each
MOST_PASSES, EACH_UNTIL = 4, 4  # passes over the data of which batches are read; of their first batches each
MISSED = 64  # backward calls without a step of an optimizer, after which no reading waits for it
MOST_MODULES = 8  # modules whose parameters are known by name
MOST_GROUPS = 4  # parameter groups whose settings are read
MOST_NUMBERS, SPARE = 4_096, 4  # numbers of a reading on a GPU, and readings that may be on their way to the host
READING = ("batch_is_fetched", "backward_begins", "optimizer_begins", "optimizer_ends", "at_end")
INTEGERS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}  # by bytes


class Reading:
    """What was read at one moment. On a GPU, the numbers may still be on their way to the host."""

    def __init__(self, facts: dict[str, Any], labels: list[tuple[str, str]], numbers: Tensor | OnItsWay) -> None:
        """labels: for each number, the fact that it belongs to, and its key there; without a key, the fact is a
        list."""
        self._facts, self._labels, self._numbers = facts, labels, numbers

    def drop(self) -> None:
        """Free the place in memory of a reading that nobody will read."""
        if isinstance(self._numbers, OnItsWay):
            self._numbers.drop()

    def read(self) -> dict[str, Any]:
        """The facts, with their numbers. A mark taken after the reading must have been reached."""
        numbers: list[Any] = self._numbers.read() if isinstance(self._numbers, OnItsWay) else self._numbers.tolist()
        for (fact, key), number in zip(self._labels, numbers, strict=False):
            if key:
                self._facts.setdefault(fact, {})[key] = f"{number & 0xFFFFFFFFFFFFFFFF:x}"
            else:
                self._facts.setdefault(fact, []).append(number)
        return self._facts


class Stepped:
    """What is known of an optimizer."""

    def __init__(self, number: int, optimizer: Any) -> None:
        self.number, self.optimizer = number, ref(optimizer)
        self.due = 0  # after so many backward calls comes the next reading
        self.next = 0, 0  # the tensor to begin with at the next reading, and the number in it
        self.names: list[str] = []  # of its parameters
        self.names_of = 0  # how many modules were known then
        self.own: tuple[int, list[tuple[str, str]], Tensor] | None = None  # gradients sampled as backward left them


class Checks:
    """The readings of one rank. The observer calls the methods, in the thread that trains; those of a step only while
    `is_due` is set, since the calls would take as long as all readings."""

    def __init__(self, clock: Clock, device: torch.device, signs: int) -> None:
        """signs: backward calls and marked step ends so far."""
        self._clock, self._device, self._signs = clock, device, signs
        # An error here, as of an unusual tensor, ends the checks and nothing else.
        self.has_failed = False
        for method in (*READING, "learn", "ddp_is_made", "forward_begins", "backward_ends"):
            setattr(self, method, shielded(getattr(self, method), self._fail))
        self._due = next_due(signs)  # after so many backward calls comes the next reading
        self.is_due = signs + 1 >= self._due  # whether the next backward is followed by one
        self._optimizers: dict[int, Stepped] = {}  # by id
        self._modules: list[ref[Module]] = []
        self.within: Stepped | None = None  # the optimizer that makes its step, if that is read
        self._had_backward = False  # since the last step
        self._late: Stepped | None = None  # the optimizer whose gradients are due, but not yet computed
        self._calls = 0  # collectives before the last backward
        self._is_mean = False  # whether it was called on a mean over a batch
        self._autocast = ""
        self._ddp: dict[str, Any] = {}  # what is known of the torch DDPs
        self.batch: Reading | None = None  # the last batch, until backward uses it
        self._loaders: dict[int, list[int]] = {}  # by id: number, and passes so far
        self._has_loader = False
        self._memory = PageLockedNumbers(torch.int64, SPARE, MOST_NUMBERS) if device.type == "cuda" else None

    def _fail(self, error: Exception) -> None:
        self.has_failed = True

    @property
    def _may_read(self) -> bool:
        """False while a CUDA graph is captured, of which a reading would become a part."""
        return not self.has_failed and not self._clock.is_capturing()

    @property
    def knows_modules(self) -> bool:
        """Whether some module is known, by whose names parameters are called."""
        return bool(self._modules) or self.has_failed

    def learn(self, module: Any) -> None:
        """A module with parameters is called, or wrapped in a torch DDP."""
        module = vars(module)["_modules"]["module"] if isinstance(module, DistributedDataParallel) else module
        if len(self._modules) < MOST_MODULES and all(known() is not module for known in self._modules):
            self._modules.append(ref(module))

    def ddp_is_made(self, network: Any) -> None:
        """The training has made a torch DDP, perhaps before the rank was observed."""
        self.learn(network)
        group = network.process_group
        ranks = [] if group is dist.group.WORLD else dist.get_process_group_ranks(group)
        self._ddp.setdefault("ddp_groups", []).append(ranks)
        self._ddp.setdefault("ddp_called", False)

    def forward_begins(self, network: Any, arguments: Any) -> None:
        """A torch DDP, or the outermost module, is called while gradients are recorded. arguments: of the call."""
        if network is not None and "ddp_called" in self._ddp:
            self._ddp["ddp_called"] = True
            hooks = [hook for hook, _ in getattr(network, "_comm_hooks", ()) if not is_ours(hook)]
            self._ddp["ddp_hooks"] = [getattr(hook, "__name__", type(hook).__name__) for hook in hooks[:4]]
        kind = self._device.type
        is_on = torch.is_autocast_enabled(kind)
        self._autocast = str(torch.get_autocast_dtype(kind)).removeprefix("torch.") if is_on else "off"
        if not self._has_loader:
            self._drop_batch()
            self.batch = self._of_batch(first_tensor(arguments), {"loader": -1, "passes": 0, "batch": self._signs})

    def batch_is_fetched(self, batch: Any, iterator: Any) -> None:
        """The loop has fetched a batch, to train on it, if backward follows. iterator: the loader's."""
        self._has_loader = True
        self._drop_batch()
        number = int(getattr(iterator, "_num_yielded", 0))
        if number > EACH_UNTIL and number & (number - 1):
            return
        batches = getattr(iterator, "_index_sampler", None)
        loader = self._loaders.setdefault(id(batches), [len(self._loaders), 0])
        loader[1] += number == 1
        if not number or loader[1] > MOST_PASSES:
            return
        sampler = getattr(batches, "sampler", batches)
        facts: dict[str, Any] = {"loader": loader[0], "passes": loader[1], "batch": number}
        facts["sampler"] = type(sampler).__name__
        fields = getattr(sampler, "__dict__", {})
        if fields.get("shuffle") is True and isinstance(epoch := fields.get("epoch"), int):
            facts["epoch"] = epoch  # a DistributedSampler's order depends on nothing else
        self.batch = self._of_batch(first_tensor(batch), facts)

    def _drop_batch(self) -> None:
        if self.batch is not None:
            self.batch.drop()
        self.batch = None

    def _of_batch(self, tensor: Tensor | None, facts: dict[str, Any]) -> Reading | None:
        with untouched():
            if tensor is None or not is_plain(tensor) or not self._may_read:
                return None
            if tensor.device not in (CPU, self._device):
                return None
            facts["elements"], samples = tensor.numel(), len(tensor)
            rows = tensor[:MOST_ROWS].detach()
            rows = torch.view_as_real(rows) if rows.is_complex() else rows
            rows = rows.reshape(len(rows), -1)
            rows = rows[:, :: max(1, rows.shape[1] // MOST_COLUMNS)].contiguous()
            weights = torch.arange(1, rows.shape[1] + 1, device=rows.device)  # so that a row's order matters
            sums = (rows.view(INTEGERS[rows.element_size()]).long() * weights).sum(1)
            facts["samples"] = samples
            return self._sent({"batch": facts}, [("rows", "")] * len(sums), [sums])

    def backward_begins(self, tensors: Any, calls: int) -> Reading | None:
        """The outermost backward begins. tensors: on which it is called; None if unknown. calls: collectives so far.
        Returns what was read of the batch that backward uses."""
        self._had_backward, self._calls = self.is_due, calls
        self._is_mean = is_mean(tensors)
        batch, self.batch = self.batch, None
        return batch

    def count(self) -> None:
        """A backward, or a marked step, has ended."""
        self._signs += 1
        self.is_due = self._signs + 1 >= self._due

    def backward_ends(self, calls: int, *, is_outermost: bool) -> None:
        """A backward ends. calls: collectives so far."""
        if self._signs < self._due:
            return
        # A collective may still be under way, unless a torch DDP has called it.
        is_outermost &= calls == self._calls or self._ddp.get("ddp_called", False)
        for known in self._optimizers.values() if is_outermost and self._may_read else ():
            if (optimizer := known.optimizer()) is not None:
                with untouched():
                    known.own = self._signs, *self._sampled("own", optimizer)

    def optimizer_begins(self, optimizer: Any) -> Reading | None:
        """An optimizer begins its step. Returns what was read, if it is a step to read at."""
        known = self._optimizers.get(id(optimizer))
        if known is None or known.optimizer() is not optimizer:
            known = self._optimizers[id(optimizer)] = Stepped(len(self._optimizers), optimizer)
        if self.within not in (None, known):
            return None  # ZeroRedundancyOptimizer calls another, with a part of the parameters
        self.within = known
        if self._signs < known.due or not self._may_read:
            return None
        known.due = next_due(self._signs)
        waiting = [each.due for each in self._optimizers.values() if each.due > self._signs - MISSED]
        self._due = min(waiting)
        self.is_due = self._signs + 1 >= self._due
        self._late = None if self._had_backward else known
        return self._read(known, optimizer, has_gradients=self._had_backward)

    def optimizer_ends(self, optimizer: Any) -> Reading | None:
        """An optimizer has made its step. Returns what was read, if backward was called within the step."""
        late, self._late = self._late, None
        had_backward = self._had_backward
        self.within, self._had_backward = None, False
        if late is None or late.optimizer() is not optimizer or not had_backward or not self._may_read:
            return None
        return self._read(late, optimizer, has_gradients=True, has_parameters=False)

    def at_end(self) -> list[Reading]:
        """What the training leaves: the parameters of every optimizer."""
        if not self._may_read:
            return []
        known = [(known, optimizer) for known in self._optimizers.values() if (optimizer := known.optimizer())]
        readings = [self._read(each, optimizer, has_gradients=False, at_end=True) for each, optimizer in known]
        return [reading for reading in readings if reading is not None]

    def _read(
        self,
        known: Stepped,
        optimizer: Any,
        *,
        has_gradients: bool,
        has_parameters: bool = True,
        at_end: bool = False,
    ) -> Reading | None:
        with untouched():
            facts: dict[str, Any] = {"settings": self._settings(optimizer), "at_end": at_end, **self._ddp}
            facts |= {"optimizer": known.number, "mean_loss": self._is_mean}
            tensors = tensors_of(optimizer)
            facts["sharded"] = sum(map(is_sharded, tensors))
            names = self._names(known, tensors)
            candidates: list[tuple[str, str, Tensor]] = []
            if has_parameters:
                candidates += [("parameters", name, each) for name, each in zip(names, tensors, strict=True)]
                candidates += [("buffers", name, each) for name, each in self._named("_buffers")]
            if has_gradients:
                gradients = ((name, each.grad) for name, each in zip(names, tensors, strict=True))
                candidates += [("gradients", name, each) for name, each in gradients if each is not None]
            labels, sums = self._sums(known, candidates)
            if has_gradients and known.own is not None and known.own[0] == self._signs:
                left_labels, left = self._sampled("left", optimizer)
                if len(left_labels) == len(known.own[1]):
                    labels += [*known.own[1], *left_labels]
                    sums += [known.own[2], left]
            known.own = None
            return self._sent(facts, labels, sums)

    def _sums(
        self, known: Stepped, candidates: Sequence[tuple[str, str, Tensor]]
    ) -> tuple[list[tuple[str, str]], list[Tensor]]:
        """Sums over tensors, from where the last reading ended, as many as may be. Of a large tensor, in parts."""
        labels: list[tuple[str, str]] = []
        sums: list[Tensor] = []
        left = MOST_BYTES
        at, begin = known.next if known.next[0] < len(candidates) else (0, 0)
        while at < len(candidates) and left > 0 and len(sums) < MOST_TENSORS:
            kind, name, tensor = candidates[at]
            own = getattr(tensor, "_local_tensor", tensor)  # of a DTensor
            is_here = own.device == self._device and is_plain(own) and not is_sharded(tensor)
            numbers = flat(own) if is_here else None
            count = 0 if numbers is None else numbers.numel()
            end = min(count, begin + max(1, left // own.element_size()))
            if numbers is not None and begin < count:
                is_whole = begin == 0 and end == count
                labels.append((kind, name if is_whole else f"{name} ({begin})"))
                sums.append(sum_of(numbers if is_whole else numbers[begin:end])[None])
                left -= (end - begin) * own.element_size()
            at, begin = (at, end) if end < count else (at + 1, 0)
        known.next = at, begin
        return labels, sums

    def _sent(self, facts: dict[str, Any], labels: list[tuple[str, str]], numbers: list[Tensor]) -> Reading | None:
        """The reading of these numbers, which are on one device. None if too many are on their way to the host."""
        together = torch.cat(numbers) if numbers else torch.empty(0, dtype=torch.int64)
        if self._memory is None or together.device.type != "cuda":
            return Reading(facts, labels, together)
        sent = self._memory.copy(together)
        return None if sent is None else Reading(facts, labels, sent)

    def _sampled(self, fact: str, optimizer: Any) -> tuple[list[tuple[str, str]], Tensor]:
        """Some numbers of the gradients, evenly spread over them, as the bits of float64."""
        gradients = [each.grad for each in tensors_of(optimizer) if each.grad is not None]
        samples = []
        for gradient in gradients[:: -(-len(gradients) // SAMPLED_TENSORS) or 1]:
            numbers = flat(gradient) if is_plain(gradient) and gradient.device == self._device else None
            if numbers is not None and numbers.is_floating_point():
                samples.append(numbers[:: -(-numbers.numel() // SAMPLED_NUMBERS)].double())
        if not samples:
            return [], torch.empty(0, dtype=torch.int64, device=self._device)
        together = torch.cat(samples).view(torch.int64)
        return [(fact, "")] * together.numel(), together

    def _names(self, known: Stepped, tensors: Sequence[Tensor]) -> list[str]:
        """The names of an optimizer's parameters: in a known module, or else their places in the optimizer."""
        if len(known.names) != len(tensors) or known.names_of != len(self._modules):
            before = f"optimizer {known.number}: " if known.number else ""
            named = {id(each): name for name, each in self._named("_parameters")}
            known.names = [named.get(id(each), f"{before}parameter {at}") for at, each in enumerate(tensors)]
            known.names_of = len(self._modules)
        return known.names

    def _named(self, kind: str) -> Iterator[tuple[str, Tensor]]:
        """The tensors of the known modules by name. kind: _parameters or _buffers."""
        modules = [module for each in self._modules if (module := each()) is not None]
        for number, module in enumerate(modules):
            before = f"{type(module).__name__} {number}: " if len(modules) > 1 else ""
            yield from ((before + name, each) for name, each in own_tensors(module, kind))

    def _settings(self, optimizer: Any) -> dict[str, str]:
        """What should be the same on all ranks, in words; empty texts are not known."""
        groups = optimizer.param_groups
        settings = {"optimizer": type(optimizer).__name__, "autocast": self._autocast}
        for name, key in (("learning rate", "lr"), ("weight decay", "weight_decay"), ("momentum", "momentum")):
            settings[name] = ", ".join(number_text(group.get(key)) for group in groups[:MOST_GROUPS]).strip(", ")
        settings["parameters"] = str(sum(each.numel() for each in tensors_of(optimizer)))
        modules = [each for module in self._modules for _, each in modules_of(module())]
        training = sum(bool(vars(each).get("training")) for each in modules)
        settings["modules in training mode"] = f"{training} of {len(modules)}" if modules else ""
        if any(isinstance(each, _DropoutNd) and each.p > 0 and each.training for each in modules):
            settings["random numbers"] = self._random_state()
        settings["process group"] = str(dist.get_world_size()) if dist.is_initialized() else "none"
        settings["WORLD_SIZE"] = os.environ.get("WORLD_SIZE", "")
        return {name: text for name, text in settings.items() if text}

    def _random_state(self) -> str:
        if self._device.type != "cpu":
            return ""
        return f"{zlib.crc32(bytes(torch.get_rng_state().tolist())):x}"


def is_mean(tensors: Any) -> bool:
    """Whether backward is called on the mean of losses, as far as autograd's last functions show. A division, for
    example, may be one by the number of ranks; one by 1 changes nothing."""
    tensors = tensors[0] if isinstance(tensors, list | tuple) and len(tensors) == 1 else tensors
    if not isinstance(tensors, Tensor):
        return False
    with torch._C.DisableTorchFunction():
        function = tensors.grad_fn
        factor = getattr(function, "_saved_other", None)
        if isinstance(factor, Tensor) and factor.device.type == "cpu" and factor.numel() == 1 and factor.item() == 1:
            function = function.next_functions[0][0]  # type: ignore[union-attr]
    return getattr(function, "_saved_reduction", 0) == 1 or type(function).__name__.startswith("MeanBackward")


def is_ours(hook: Any) -> bool:
    """Whether the tap has registered this hook of a DDP's communication."""
    return str(getattr(hook, "__module__", "")).startswith(__name__.partition(".")[0] + ".")


class untouched:
    """Within this context, nothing is recorded for backward, and neither tensor subclasses nor modes of the training
    see what is called. (Not a generator: Python ignores what a signal handler of the training raises while it drops
    one.)"""

    def __enter__(self) -> None:
        # In this order: a mode of the training would see no_grad, too.
        self._contexts = torch._C.DisableTorchFunction(), torch._C._DisableTorchDispatch(), torch.no_grad()
        for context in self._contexts:
            context.__enter__()

    def __exit__(self, *error: Any) -> None:
        for context in reversed(self._contexts):
            context.__exit__(*error)


def next_due(signs: int) -> int:
    """After how many backward calls the next reading is due: the same on all ranks. signs: backward calls so far."""
    in_a_doubling = 4 if signs < FOUR_UNTIL else 2 if signs < TWO_UNTIL else 1
    every = max(1, (1 << max(0, signs.bit_length() - 1)) // in_a_doubling)
    return signs // every * every + every


def tensors_of(optimizer: Any) -> list[Tensor]:
    """The parameters of an optimizer, in order."""
    return [each for group in optimizer.param_groups for each in group["params"] if isinstance(each, Tensor)]


def modules_of(module: Any) -> Iterator[tuple[str, Any]]:
    """A module and all modules in it, each once, after the prefix of its tensors' names. Runs no code of the
    training."""
    pending, seen = [("", module)] if module is not None else [], set()
    while pending:
        prefix, each = pending.pop()
        if id(each) not in seen:
            seen.add(id(each))
            yield prefix, each
            parts = vars(each).get("_modules", {}).items()
            pending += reversed([(f"{prefix}{name}.", part) for name, part in parts if part is not None])


def own_tensors(module: Any, kind: str) -> Iterator[tuple[str, Tensor]]:
    """The tensors of a module by name, each once. kind: _parameters or _buffers."""
    seen = set()
    for prefix, each in modules_of(module):
        for name, tensor in vars(each).get(kind, {}).items():
            if isinstance(tensor, Tensor) and id(tensor) not in seen:
                seen.add(id(tensor))
                yield prefix + name, tensor


def is_plain(tensor: Tensor) -> bool:
    """Whether a tensor's numbers lie in memory, with no code of a subclass between."""
    of_torch = type(tensor).__torch_dispatch__ is Tensor.__torch_dispatch__ and not tensor.is_nested
    return of_torch and tensor.layout is torch.strided and tensor.device.type in ("cpu", "cuda") and tensor.numel() > 0


def is_sharded(tensor: Tensor) -> bool:
    """Whether a parameter is one rank's part of a larger one."""
    if getattr(tensor, "_is_flat_param", False) or type(tensor).__name__ == "FlatParameter":
        return True
    placements = getattr(getattr(tensor, "_spec", None), "placements", ())  # of a DTensor
    return any(not placement.is_replicate() for placement in placements)


def flat(tensor: Tensor) -> Tensor | None:
    """A tensor's numbers in the order of its memory, without a copy; None if they have gaps."""
    tensor = tensor.detach()
    tensor = torch.view_as_real(tensor) if tensor.is_complex() else tensor
    span = 1 + sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return tensor.as_strided((span,), (1,)) if span == tensor.numel() else None


def sum_of(numbers: Tensor) -> Tensor:
    """The sum of the bytes of these numbers, read as 64-bit integers, modulo 2^64. The rest is summed number by
    number. Makes no copy: a sum of 32-bit integers to 64 bits takes ten times as long."""
    size = numbers.element_size()
    together = 8 // size
    count = numbers.numel()
    whole = count // together * together if numbers.storage_offset() % together == 0 else 0
    if whole == count:
        return numbers.view(torch.int64).sum()
    rest = numbers[whole:].view(INTEGERS[size]).sum(dtype=torch.int64)
    return numbers[:whole].view(torch.int64).sum() + rest if whole else rest


def number_text(value: Any) -> str:
    """A setting of an optimizer as text; empty if it is not a number on the host."""
    if isinstance(value, Tensor):
        value = value.item() if value.device.type == "cpu" and value.numel() == 1 else None
    return f"{value:.6g}" if isinstance(value, int | float) and not isinstance(value, bool) else ""

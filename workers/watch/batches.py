"""Counts what a data loader yields, and detects where forward begins in a loop without a loader.

The cost does not grow with the batch, and no user code runs, even if the batch is in a container of the user's own
class.

Until that call comes, we replace the code of the torch function through which every call of a module goes. The new code
has one more line, a check, at its beginning. Nothing else changes: no class, no module and no dictionary of hooks. So
pickle, torch.jit, torch.fx, torch.export, torch.compile and the profiler work as they do without ddptui.
"""

import ast
import inspect
from collections import UserDict
from collections.abc import Callable, Iterable
from itertools import islice
from types import CodeType
from typing import Any

import torch
from torch import Tensor
from torch.nn import Module
from torch.utils.data import BatchSampler

from ..instruments.shield import is_from_a_handler, pass_on

MOST_LOOKED_AT = 64  # containers and values of a batch that are searched for its first tensor


def batches_of(iterator: Any) -> int | None:
    """The number of batches that a loader's iterator yields, or None if it is unknown. Does not call the `__len__` of a
    user-defined sampler, which may draw all its batches to count them."""
    batches = getattr(iterator, "_index_sampler", None)
    parts = [batches, getattr(batches, "sampler", None)] if isinstance(batches, BatchSampler) else [batches]
    lengths = [getattr(type(part), "__len__", None) for part in parts]
    if any(getattr(length, "__module__", "").partition(".")[0] != "torch" for length in lengths):
        return None
    try:
        return len(iterator)
    except Exception as error:  # the data set may be of any kind, and raise anything
        if is_from_a_handler(error):
            raise
        return None


def samples_in(batch: Any) -> int | None:
    """The length of the first tensor in a batch, at any depth; None if no tensor is near its beginning."""
    first = first_tensor(batch)
    with torch._C.DisableTorchFunction():
        return None if first is None else int(first.size(0))


def first_tensor(batch: Any) -> Tensor | None:
    """The first tensor in a batch that has dimensions, at any depth; None if there is none near its beginning."""
    pending = [batch]
    for _ in range(MOST_LOOKED_AT):
        if not pending:
            return None
        first = pending.pop()
        if not issubclass(type(first), Tensor):
            pending += reversed(list(islice(_parts(first), MOST_LOOKED_AT)))
            continue
        with torch._C.DisableTorchFunction():
            if first.dim():
                return first  # type: ignore[no-any-return]
    return None


def _parts(container: Any) -> Iterable[Any]:
    """The contents of a container, read by the methods of the built-in class from which it derives."""
    kind = type(container)
    if issubclass(kind, UserDict):
        container = vars(container).get("data")
        kind = type(container)
    if issubclass(kind, dict):
        return dict.values(container)
    if issubclass(kind, list):
        return list.__iter__(container)
    return tuple.__iter__(container) if issubclass(kind, tuple) else ()


CALLED: Any = Module._call_impl
# torch.compile drops this line when it traces it.
QUESTION = "if not torch.compiler.is_compiling() and torch.is_grad_enabled(): 'watch'.called(self, (args, kwargs))"
MOST_MODULES = 100  # modules searched for a parameter


class ModuleCalls:
    """Calls `tell` when a module with parameters is called while gradients are recorded."""

    def __init__(self, tell: Callable[[Module, Any], None]) -> None:
        """tell: called with the module and the arguments of the call."""
        self._tell = tell
        self._plain: CodeType = CALLED.__code__
        self._asking: CodeType | None = None  # the code with the check; compiled when it is first needed

    def await_next(self) -> None:
        """Report calls from now on, until `stop`."""
        if self._asking is None:
            self._asking = self._code_that_asks() or self._plain
        if CALLED.__code__ is self._plain:
            CALLED.__code__ = self._asking

    def stop(self) -> None:
        """Report no more calls."""
        if CALLED.__code__ is self._asking:
            CALLED.__code__ = self._plain

    def called(self, module: Module, arguments: Any) -> None:
        """A module is called, in any thread. The inserted line calls this."""
        if has_parameters(module):
            self._tell(module, arguments)

    def _code_that_asks(self) -> CodeType | None:
        """The function's code with the check before it, and the same line numbers. None if its source is missing."""
        try:
            source = inspect.getsource(CALLED)
        except OSError as error:
            pass_on(error)
            return None
        tree = ast.parse(f"class Module:\n{source}")  # the source is indented, as a method
        ast.increment_lineno(tree, self._plain.co_firstlineno - 2)
        function: Any = tree.body[0].body[0]  # type: ignore[attr-defined]
        question = ast.parse(QUESTION).body[0]
        ast.increment_lineno(question, function.body[0].lineno - 1)
        function.body.insert(0, question)
        code = compile(tree, self._plain.co_filename, "exec", dont_inherit=True)
        for _ in range(2):  # the class, and its method
            code = next(part for part in code.co_consts if isinstance(part, CodeType))
        return code.replace(co_consts=tuple(self if value == "watch" else value for value in code.co_consts))


def has_parameters(module: Module) -> bool:
    """Whether a module has parameters, trained or not, unlike a transform of inputs. Runs no user code. True if the
    search takes too long."""
    pending: list[Any] = [module]
    for _ in range(MOST_MODULES):
        if not pending:
            return False
        fields = vars(pending.pop())
        if fields.get("_parameters", True):  # torch.jit stores its parameters elsewhere
            return True
        pending += [part for part in dict(fields["_modules"]).values() if part is not None]
    return True

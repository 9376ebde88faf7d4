"""Loads the user's own code that a trial names: a strategy, a model, a dataset, or a delay.

strategy   average(tensors: list[Tensor]) -> None, which replaces each tensor with its mean over the ranks; or a class
           with the methods of workers/aggregate/strategy.py, of which it needs to define only `average`
model      a function or class that is called with num_classes, and returns an nn.Module
dataset    load() -> (train, test), each (inputs, labels): tensors of shapes (n, *shape) and (n), labels from 0
delay      delay(site, rank, step) -> float | None: how long, in ms, this rank sleeps at this site of this step;
           the sites are data, forward, backward and aggregate
"""

import importlib
import importlib.util
import inspect
import os
import sys
from collections.abc import Callable
from functools import cache
from traceback import walk_tb
from types import ModuleType
from typing import Any

from ddptui.config.trial import SUFFIX, in_short, parsed

# What each function is called with. A model's argument is named, so its own call shows whether it takes that.
ARGUMENTS = {"strategy": ("tensors",), "dataset": (), "bottleneck": ("site", "rank", "step")}


def load_own(field: str, value: str) -> Any:
    """The function or class that the value of a trial's field names. Raises ValueError if there is none, TypeError if
    it cannot be called, or not with the arguments that it gets."""
    own = parsed(value)
    try:
        found = getattr(_module_of(own.source), own.name)
    except (ImportError, OSError, AttributeError) as error:
        if any(frame.f_code.co_filename == own.source for frame, _ in walk_tb(error.__traceback__)):
            raise  # by the user's code: its own line says more
        raise ValueError(f"{field} {in_short(value)!r}: {error}") from error
    if not callable(found):
        raise TypeError(f"{field} {in_short(value)!r}: expected a function or a class, not {type(found).__name__}")
    if field in ARGUMENTS and not (field == "strategy" and isinstance(found, type)):
        check_call(f"{field} {in_short(value)!r}", found, *ARGUMENTS[field])
    return found


def check_call(what: str, function: Callable[..., object], *arguments: str) -> None:
    """Check that a function takes these arguments. what: its name in the message. Raises TypeError."""
    try:
        inspect.signature(function).bind(*arguments)
    except TypeError as error:
        name = getattr(function, "__name__", "it")  # an object of the user's own class has none
        raise TypeError(f"{what}: it is called as {name}({', '.join(arguments)}): {error}") from None
    except ValueError:  # a function of native code: its call will show it
        return


@cache  # one module, even if a trial names its strategy and its delay
def _module_of(source: str) -> ModuleType:
    """Import a file or a module. Raises ImportError, OSError, and what the code raises."""
    if not source.endswith(SUFFIX):
        return importlib.import_module(source)
    folder, file = os.path.split(source)
    sys.path.append(folder)  # for the file's own imports; last, so that it hides no library
    spec = importlib.util.spec_from_file_location(f"own_{file.removesuffix(SUFFIX)}", source)
    if spec is None or spec.loader is None:
        raise ImportError(f"{source} cannot be loaded")
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)  # as an import would: dataclasses need it
    spec.loader.exec_module(module)
    return module

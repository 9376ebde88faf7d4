"""Keeps torch.compile from tracing our own functions where they run between two of its graphs. Tracing them would take
time, and emit warnings about code that it cannot trace."""

import sys
from collections.abc import Iterator
from types import CodeType, FunctionType, ModuleType
from typing import Any

import torch

FRAMES: Any = torch._C._dynamo.eval_frame
PACKAGES = {__name__.partition(".")[0], "ddptui"}


def leave_untraced() -> None:
    """Mark all functions of ddptui's modules that are imported so far as not to be traced."""
    for name, module in sys.modules.copy().items():
        if name.partition(".")[0] in PACKAGES and isinstance(module, ModuleType):
            for code in _codes_in(module, name):
                _skip(code)


def _skip(code: CodeType) -> None:
    if hasattr(FRAMES, "skip_code"):  # before torch 2.7
        FRAMES.skip_code(code)
        return
    action = FRAMES._FrameAction
    FRAMES.set_code_exec_strategy(code, FRAMES._FrameExecStrategy(action.SKIP, action.DEFAULT))


def _codes_in(thing: Any, module: str) -> Iterator[CodeType]:
    """The code objects of all functions that a module or class defines, including nested ones."""
    for value in vars(thing).copy().values():
        function = getattr(value, "fget", getattr(value, "__wrapped__", value))
        if isinstance(value, type) and value.__module__ == module:
            yield from _codes_in(value, module)
        elif isinstance(function, FunctionType):
            yield from _within(function.__code__)


def _within(code: CodeType) -> Iterator[CodeType]:
    yield code
    for part in code.co_consts:
        if isinstance(part, CodeType):
            yield from _within(part)

"""How a program's imports are kept from taking longer than they must."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import cast

__all__ = ["fast_imports"]

_UNUSED = ("rich",)
"""Importing them raises ImportError, as if they were not installed."""


@contextmanager
def fast_imports() -> Iterator[None]:
    """For imports that stay as long as the process does; at its start, before there is anything else.

    Python looks for garbage again and again while modules are made, a fifth of the time that they take,
    and later in every full collection. Here it is not looked for, and what was there at the end never
    is: that is left out of all collections that follow, if there are any: where they were off they stay off.
    And structlog comes without the toolkit for terminals that it prints tracebacks with where it is
    installed: our programs write lines of JSON.
    """
    collecting = gc.isenabled()
    gc.disable()
    modules = cast("dict[str, ModuleType | None]", sys.modules)
    hidden = [name for name in _UNUSED if name not in modules]
    modules.update(dict.fromkeys(hidden))
    try:
        yield
    finally:
        for name in hidden:
            del modules[name]
        gc.freeze()
        if collecting:
            gc.enable()

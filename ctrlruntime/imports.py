"""How a program's imports are kept from taking longer than they must."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["lasting"]


@contextmanager
def lasting() -> Iterator[None]:
    """For imports that stay as long as the process does; at its start, before there is anything else.

    Python looks for garbage again and again while modules are made, a fifth of the time that they take,
    and later in every full collection. Here it is not looked for, and what was there at the end never
    is: that is left out of all collections that follow.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()

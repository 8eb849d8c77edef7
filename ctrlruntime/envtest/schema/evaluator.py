"""The CEL evaluator, without its package's command line.

The package imports that one along, and with it a toolkit for terminals: as long as the rest of this
server's start but a few imports. Whoever wants it can still import it.
"""

from __future__ import annotations

import sys
from types import ModuleType

__all__ = ["cel", "stdlib"]

_COMMAND_LINE = "cel.cli"

if "cel" in sys.modules:
    import cel
    from cel import stdlib
else:
    sys.modules[_COMMAND_LINE] = ModuleType(_COMMAND_LINE)
    try:
        import cel
        from cel import stdlib
    finally:
        del sys.modules[_COMMAND_LINE]
    vars(cel).pop("cli", None)

"""Names of fields as CEL rules spell them."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["RESERVED_WORDS", "cel_name"]

RESERVED_WORDS: Final = frozenset(
    [
        "true",
        "false",
        "null",
        "in",
        "as",
        "break",
        "const",
        "continue",
        "else",
        "for",
        "function",
        "if",
        "import",
        "let",
        "loop",
        "package",
        "namespace",
        "return",
        "var",
        "void",
        "while",
    ]
)
"""Words of the language, which are no names."""
_ESCAPES = (("__", "__underscores__"), (".", "__dot__"), ("-", "__dash__"), ("/", "__slash__"))


def cel_name(name: str) -> str:
    """Return the name of a field in a CEL expression: ``namespace`` is ``__namespace__`` there."""
    if name in RESERVED_WORDS:
        return f"__{name}__"
    parts = re.split(r"(__|[.\-/])", name)
    escapes = dict(_ESCAPES)
    return "".join(escapes.get(part, part) for part in parts)

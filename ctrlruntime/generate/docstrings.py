"""The texts under the attributes of a class, which become descriptions in a CRD.

Read where they are asked for. Pydantic can do it when a class is made (`use_attribute_docstrings`), but
then every process that imports a kind parses its source, for texts that only the generator uses.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import pairwise

__all__ = ["attribute_docstrings"]


def attribute_docstrings(cls: type) -> Mapping[str, str]:
    """By the attribute's name, those of base classes too; empty where there is no source."""
    found: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        found |= _own(base)
    return found


@cache
def _own(cls: type) -> Mapping[str, str]:
    if not inspect.get_annotations(cls):
        return {}
    try:
        source = textwrap.dedent(inspect.getsource(cls))
        tree = ast.parse(source)
    except (OSError, TypeError, SyntaxError):
        return {}
    return dict(_texts(tree.body[0])) if tree.body else {}


def _texts(node: ast.stmt) -> Iterator[tuple[str, str]]:
    if not isinstance(node, ast.ClassDef):
        return
    for attribute, below in pairwise(node.body):
        match attribute, below:
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(text))),
            ):
                yield name, inspect.cleandoc(text)

"""Typed models of the built-in kinds: ``from ctrlruntime.kinds.apps.v1 import Deployment``.

One module for each group and version, without the end of the group's name (``networking.v1``, ``rbac.v1``;
``core.v1`` for the core group). Nothing is imported before a module is named.
"""

from .base import BuiltinKind, BuiltinModel

__all__ = ["BuiltinKind", "BuiltinModel"]

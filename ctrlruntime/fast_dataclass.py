"""Dataclasses that are made for each request and each reconcile: frozen for type checkers alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

__all__ = ["fast_dataclass"]

if TYPE_CHECKING:
    from dataclasses import dataclass as fast_dataclass
else:
    from dataclasses import dataclass

    def fast_dataclass(*, frozen: bool, **options: object) -> object:
        """Do as `dataclass`, without the refusal to set a field at run time: treat instances as read-only.

        What refuses it also makes ``__init__`` call ``object.__setattr__`` for each field, three times as long as to set it.
        """
        return dataclass(unsafe_hash=frozen, **options)

"""The one error of all patch formats."""

from __future__ import annotations


class PatchError(Exception):
    """A patch that cannot be carried out; ``code`` and ``reason`` are the answer's."""

    def __init__(self, message: str, *, code: int, reason: str) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason

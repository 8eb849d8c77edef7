"""Why a node could not be asked."""

from enum import StrEnum
from typing import Final


class Failure(StrEnum):
    """What went wrong, in one word."""

    UNREACHABLE = "Unreachable"
    """No connection, or it broke."""
    DEADLINE = "Deadline"
    """No answer in time."""
    REFUSED = "Refused"
    """An answer that refuses: another code than 200, or an error of the node's own."""
    OTHER_NETWORK = "OtherNetwork"
    """An answer of a node of another network."""
    INVALID = "Invalid"
    """An answer that makes no sense."""


SILENT: Final = frozenset({Failure.UNREACHABLE, Failure.DEADLINE})
"""Nothing answered."""


class NodeError(Exception):
    """A question without a useful answer. The text is short, and safe to put into a status."""

    def __init__(self, failure: Failure, text: str) -> None:
        super().__init__(text[:_LIMIT])
        self.failure = failure


_LIMIT = 200
"""Characters: a node's text is not to fill a status."""

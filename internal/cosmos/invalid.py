"""Fields of a spec that the schema accepts and that cannot be used."""

from typing import Final

from ctrlruntime.client.errors import APIError, Invalid
from ctrlruntime.controller.aggregate_error import UnrecoverableError

_NOT_TYPED: Final = "failed to create typed patch object"
"""Beginning of the 500 that server-side apply answers to an object that does not fit its kind's schema."""


class InvalidSpec(UnrecoverableError):
    """A field has a value that cannot be used. The message names the field."""


def invalid_field(path: str, message: str) -> InvalidSpec:
    """Return the error for a field of the spec."""
    return InvalidSpec(f"{path}: {message}")


def is_refused(error: Exception) -> bool:
    """Whether the server refuses an object for what is in it: no repetition changes that."""
    if isinstance(error, Invalid):
        return True
    return isinstance(error, APIError) and (
        error.code in (400, 413) or (error.code == 500 and _NOT_TYPED in str(error))
    )

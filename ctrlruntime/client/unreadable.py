"""What an answer that cannot be read is: a TransportError with the request, of a write one of unknown outcome."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

import msgspec
import orjson
from pydantic import ValidationError

from ctrlruntime.client.errors import TransportError, WriteOutcomeUnknown
from ctrlruntime.client.fence import READS
from ctrlruntime.intake import describe_value

ODD_SHAPES: Final = (AttributeError, KeyError, TypeError)
"""What reading a document by hand raises where its parts have other types."""


def no_object(method: str, path: str, body: bytes) -> TransportError:
    """Return the error of an answer that is no JSON object."""
    return _kind(method)(
        f"{method} {path}: the answer is {describe_value(body)} and no JSON object, so it is not that of a Kubernetes API: "
        "look at the server's address, and at proxies on the way"
    )


@contextmanager
def reading(method: str, path: str, *also: type[Exception]) -> Generator[None]:
    """Read the answer of a request. Raises TransportError, of a write WriteOutcomeUnknown, for what is no object.

    `also`: further errors by which reading shows that it is none.
    """
    unreadable: tuple[type[Exception], ...] = (
        orjson.JSONDecodeError,
        msgspec.DecodeError,
        ValidationError,
        *also,
    )
    try:
        yield
    except unreadable as error:
        if isinstance(error, ValidationError) and error.errors()[0]["type"] != "json_invalid":
            raise
        raise _kind(method)(
            f"{method} {path}: the answer is not one of a Kubernetes API ({type(error).__name__}: {error})"
        ) from error


def _kind(method: str) -> type[TransportError]:
    return TransportError if method in READS else WriteOutcomeUnknown

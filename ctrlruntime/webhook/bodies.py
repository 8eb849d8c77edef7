"""Bodies of requests: how large one may be, and all that are under way together."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from aiohttp import web

from ctrlruntime.client.errors import (
    APIError,
    BadRequest,
    RequestEntityTooLarge,
    TooManyRequests,
)

JSON: Final = "application/json"
LARGEST_BODY: Final = 7 * 1024 * 1024
"""Bytes of a request, as upstream: twice what etcd stores, and some more."""
MOST_IN_FLIGHT: Final = 64 * 1024 * 1024
"""Bytes of all bodies that arrive or are being answered."""
RESERVED: Final = 4 * 1024 * 1024
"""Bytes of those that are kept for small bodies, however many large ones there are."""
SMALL_BODY: Final = 256 * 1024
"""Bytes up to which a body is small; most objects are."""


class BadBody(Exception):
    """A body that is not read further; ``error`` is the answer."""

    def __init__(self, error: APIError) -> None:
        super().__init__(str(error))
        self.error = error


class Aborted(BadBody):
    """A body that ended before it was whole: the client has gone, or sent no proper HTTP."""


class Bodies:
    """Reads the bodies of all requests of a server within one limit."""

    def __init__(self, most: int = MOST_IN_FLIGHT) -> None:
        """``most``: bytes of all bodies together."""
        self._most = most
        self.held = 0
        """Bytes of what is being read or answered."""

    @asynccontextmanager
    async def read(self, request: web.Request, largest: int = LARGEST_BODY) -> AsyncIterator[bytes]:
        """Read the JSON body of a request, and count it until the block ends. Raises BadBody."""
        if request.content_type != JSON:
            raise BadBody(BadRequest(f"the content type is {request.content_type}, not {JSON}"))
        chunks: list[bytes] = []
        size = 0
        try:
            async for chunk in request.content.iter_any():
                size += len(chunk)
                self.held += len(chunk)
                chunks.append(chunk)
                self._check(size, largest)
            if not chunks:
                raise BadBody(BadRequest("the body is empty"))
            body = b"".join(chunks)
            chunks.clear()
            yield body
        except (ConnectionError, web.RequestPayloadError) as error:
            # The request keeps this error, and by its traceback would keep the frames with all they hold.
            error.__traceback__ = None
            raise Aborted(BadRequest("the body ended before it was whole")) from None
        finally:
            chunks.clear()
            self.held -= size

    def _check(self, size: int, largest: int) -> None:
        if size > largest:
            raise BadBody(RequestEntityTooLarge(f"the body is larger than {largest} bytes"))
        if self.held > self._most - (RESERVED if size > SMALL_BODY else 0):
            raise BadBody(
                TooManyRequests(
                    f"the bodies of all requests are larger than {self._most} bytes together; try again"
                )
            )

"""Defaulting: the object is changed, and the change is sent back as a JSON patch."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import orjson

from ctrlruntime.api.resource import Resource
from ctrlruntime.client.errors import APIError
from ctrlruntime.json import carried, json_patch
from ctrlruntime.webhook.admission import AdmissionRequest, AdmissionResponse, allowed
from ctrlruntime.webhook.review import Codec, Review, Step, refusal, run_steps

__all__ = ["Defaulting"]


class Defaulting:
    """Runs defaulters on the object of a request; ``kind`` None passes them dicts.

    The patch leads from the object as it was sent to the changed one: fields that the class does not
    know stay, and without a change there is no patch. Deletions, and updates of what is being
    deleted, pass unasked.

    A step that raises ValueError, or an APIError, or reports a finding, refuses the request.
    """

    def __init__(self, kind: type[Resource[Any, Any]] | None, steps: Iterable[Step]) -> None:
        self._codec = Codec(kind)
        self._steps = tuple(steps)

    async def handle(self, request: AdmissionRequest) -> AdmissionResponse:
        if request.operation == "DELETE" or bytes(request.object) == b"null" or request.is_going:
            return allowed()
        review: Review[Any] = Review(request, self._codec.decode_old(request))
        try:
            patch = await self._patch(bytes(request.object), review)
        except (APIError, ValueError) as error:
            return refusal(review, error)
        return AdmissionResponse(allowed=True, patch=tuple(patch), warnings=tuple(review.warnings))

    async def _patch(self, raw: bytes, review: Review[Any]) -> list[dict[str, Any]]:
        obj = self._codec.decode(review.request, raw)
        before = orjson.loads(orjson.dumps(self._codec.wire(obj)))
        await run_steps(self._steps, obj, review)
        review.check()
        sent = orjson.loads(raw)
        return json_patch(sent, carried(sent, before, self._codec.wire(obj)))

"""Validating: yes, yes with warnings, or no with reasons."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ctrlruntime.api.resource import Resource
from ctrlruntime.client.errors import APIError, BadRequest
from ctrlruntime.webhook.admission import AdmissionRequest, AdmissionResponse, allowed, refused
from ctrlruntime.webhook.review import Codec, Review, Step, refusal, run_steps

__all__ = ["OPERATIONS", "Validating"]

OPERATIONS = ("CREATE", "UPDATE", "DELETE")


class Validating:
    """Calls the validators of the request's operation; ``kind`` None passes them dicts.

    CREATE and UPDATE hand over the new object, DELETE the one that goes; ``review.old`` is the one
    there is. All findings together are one 422 with a cause for each field. An APIError is passed on
    as it is, a ValueError is 403 with its text, and both may come with warnings; anything else that
    is raised is a mistake of the validator's and a 500.

    An update of an object that is being deleted passes unasked, unless ``while_deleting``: the last
    finalizer must come off whatever else is wrong with the object. CONNECT is allowed.
    """

    def __init__(
        self,
        kind: type[Resource[Any, Any]] | None,
        steps: Mapping[str, Iterable[Step]],
        *,
        while_deleting: bool = False,
    ) -> None:
        unknown = set(steps) - set(OPERATIONS)
        if unknown:
            raise ValueError(f"operations are {', '.join(OPERATIONS)}, not {', '.join(unknown)}")
        self._codec = Codec(kind)
        self._steps = {operation: tuple(functions) for operation, functions in steps.items()}
        self._while_deleting = while_deleting

    async def handle(self, request: AdmissionRequest) -> AdmissionResponse:
        if request.operation == "CONNECT":
            return allowed()
        if request.operation not in OPERATIONS:
            return refused(BadRequest(f"unknown operation {request.operation!r}"))
        steps = self._steps.get(request.operation, ())
        if not steps or self._passes_unasked(request):
            return allowed()
        return await self._ask(request, steps)

    def _passes_unasked(self, request: AdmissionRequest) -> bool:
        if request.operation != "UPDATE" or self._while_deleting:
            return False
        return request.is_going

    async def _ask(self, request: AdmissionRequest, steps: tuple[Step, ...]) -> AdmissionResponse:
        review: Review[Any] = Review(request, self._codec.decode_old(request))
        raw = bytes(request.old_object if request.operation == "DELETE" else request.object)
        try:
            await run_steps(steps, self._codec.decode(request, raw), review)
            review.check()
        except (APIError, ValueError) as error:
            return refusal(review, error)
        return allowed(*review.warnings)

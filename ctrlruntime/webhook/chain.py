"""Several handlers at one path."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import msgspec
import orjson

from ctrlruntime.json import apply_json_patch
from ctrlruntime.webhook.admission import AdmissionRequest, AdmissionResponse, Handler

__all__ = ["Chain"]


class Chain:
    """Calls one handler after the other; each sees the object as the ones before have changed it.

    Patches are joined in order, and so are warnings. The first denial is the answer, with the
    warnings of those before it.
    """

    def __init__(self, *handlers: Handler) -> None:
        self._handlers = handlers

    async def handle(self, request: AdmissionRequest) -> AdmissionResponse:
        patch: list[Mapping[str, Any]] = []
        warnings: list[str] = []
        annotations: dict[str, str] = {}
        for handler in self._handlers:
            response = await handler.handle(request)
            warnings += response.warnings
            annotations |= response.audit_annotations
            if not response.allowed:
                return replace(
                    response, warnings=tuple(warnings), patch=(), audit_annotations=annotations
                )
            if response.patch:
                patch += response.patch
                request = _changed(request, response.patch)
        return AdmissionResponse(
            allowed=True,
            patch=tuple(patch),
            warnings=tuple(warnings),
            audit_annotations=annotations,
        )


def _changed(request: AdmissionRequest, patch: Sequence[Mapping[str, Any]]) -> AdmissionRequest:
    changed = orjson.dumps(apply_json_patch(orjson.loads(bytes(request.object)), patch))
    return msgspec.structs.replace(request, object=msgspec.Raw(changed))

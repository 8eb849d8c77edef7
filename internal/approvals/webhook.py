"""The admission webhook that records who gives approvals, changes specs and requests deletions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from structlog.typing import FilteringBoundLogger

from ctrlruntime.api.kinds import Manifest, RESTMapping
from ctrlruntime.client.auth import AuthError
from ctrlruntime.client.client import Client, PatchType
from ctrlruntime.client.errors import APIError, TransportError
from ctrlruntime.json import json_patch
from ctrlruntime.webhook import AdmissionRequest, AdmissionResponse, allowed, denied
from internal.approvals.admission import Refused, Write, annotations_of, deletion_of, record_of
from internal.approvals.judge import Judgement, Recorder
from internal.approvals.rules import RECORD, ApprovalRules

OVERWRITTEN: Final = (
    f"the annotation {RECORD} is written by admission alone: what the request has there is not kept"
)


def no_part(_manifest: Manifest) -> Judgement | None:
    """Return None: the object's own spec names whose approvals count."""
    return None


@dataclass(frozen=True, slots=True)
class ApprovalWebhook:
    """Keeps the record of one kind, whatever a request has in its place."""

    mapping: RESTMapping
    rules: ApprovalRules
    recorder: Callable[[], Recorder]
    client: Client
    clock: Callable[[], datetime]
    logger: FilteringBoundLogger
    whole: Callable[[Manifest], Judgement | None] = no_part
    """Whose approvals count of an object whose own spec does not name them; None: it does."""

    async def handle(self, request: AdmissionRequest) -> AdmissionResponse:
        """Answer a creation, an update or a deletion."""
        old = request.old_manifest()
        if request.operation == "DELETE":
            if old is not None and not request.dry_run:
                await self._record_deletion(request, old)
            return allowed()
        new = request.manifest()
        if new is None:
            return allowed()
        write = self._write(request, new, old)
        try:
            text = record_of(write, self.rules, self.recorder())
        except Refused as error:
            return denied(str(error))
        before = annotations_of(new).get(RECORD)
        if before == text:
            return allowed()
        there = None if old is None else annotations_of(old).get(RECORD)
        own = (
            before is None or before == there or request.user_info.username == self.recorder().user
        )
        return AdmissionResponse(
            allowed=True,
            patch=tuple(json_patch(new, _with_record(new, text))),
            warnings=() if own else (OVERWRITTEN,),
        )

    def _write(self, request: AdmissionRequest, new: Manifest, old: Manifest | None) -> Write:
        gvk = self.mapping.gvk
        return Write(
            new=new,
            old=old,
            kind=f"{gvk.kind}.{gvk.group}",
            namespace=request.namespace,
            name=request.name,
            user=request.user_info.username,
            groups=request.user_info.groups,
            at=int(self.clock().timestamp()),
            whole=self.whole(old or new),  # another spec may name another whole
        )

    async def _record_deletion(self, request: AdmissionRequest, old: Manifest) -> None:
        """Write who requested the deletion. Without that no approval of it counts where it has to be another person."""
        write = self._write(request, old, old)
        text = deletion_of(write, self.rules, self.recorder())
        if text is None:
            return
        metadata = old["metadata"]
        patch = {"metadata": {"uid": metadata.get("uid"), "annotations": {RECORD: text}}}
        try:
            await self.client.patch(
                self.mapping,
                metadata["name"],
                patch,
                namespace=metadata.get("namespace"),
                type=PatchType.MERGE,
            )
        except (APIError, TransportError, AuthError, TimeoutError) as error:
            self.logger.warning(
                "Who requested a deletion is not recorded",
                kind=self.mapping.gvk.kind,
                namespace=request.namespace,
                name=request.name,
                error=str(error),
            )


def _with_record(manifest: Manifest, text: str | None) -> Manifest:
    """Return a copy of a manifest with another record."""
    annotations = {
        name: value for name, value in annotations_of(manifest).items() if name != RECORD
    }
    if text is not None:
        annotations[RECORD] = text
    return {
        **manifest,
        "metadata": {**(manifest.get("metadata") or {}), "annotations": annotations},
    }

"""Conversion webhooks of custom kinds: every write is converted to all served versions at once.

Upstream converts on reading; here the converted forms are made before the object is stored, so that
reads and watches stay synchronous. Writes of the server itself (finalizers removed by the garbage
collector, deletion marks) change metadata only and are carried over to the forms of the last write.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson

from ctrlruntime.api.kinds import Manifest
from ctrlruntime.clock import new_uid
from ctrlruntime.envtest.server.errors import StatusError
from ctrlruntime.envtest.server.kinds import Kind
from ctrlruntime.envtest.server.storage import Record
from ctrlruntime.envtest.server.webhooks import CallError, WebhookClient

_SECONDS = 30.0


def converts(kind: Kind) -> bool:
    """Whether versions of the kind are converted by a webhook."""
    if kind.definition is None:
        return False
    conversion = kind.definition["spec"].get("conversion") or {}
    return conversion.get("strategy") == "Webhook" and len(kind.schemas) > 1


class ConversionWebhook:
    """Calls the webhook that a definition names."""

    def __init__(self, client: WebhookClient) -> None:
        self._client = client

    async def storage_form(self, kind: Kind, obj: Manifest) -> Manifest:
        """Return the object in the storage version. Raises InternalError."""
        return await self.form(kind, obj, kind.storage_version)

    async def forms(self, kind: Kind, stored: Manifest) -> dict[str, Manifest]:
        """Return the stored object in all other served versions."""
        others = [version for version in kind.versions if version != kind.storage_version]
        return {version: await self.form(kind, stored, version) for version in others}

    async def form(self, kind: Kind, obj: Manifest, version: str) -> Manifest:
        """Return the object in a version of the kind. Raises InternalError."""
        wanted = kind.api_version(version)
        if obj["apiVersion"] == wanted:
            return obj
        assert kind.definition is not None  # noqa: S101 - converts() was asked
        webhook = kind.definition["spec"]["conversion"]["webhook"]
        uid = new_uid()
        review = {
            "kind": "ConversionReview",
            "apiVersion": "apiextensions.k8s.io/v1",
            "request": {"uid": uid, "desiredAPIVersion": wanted, "objects": [obj]},
        }
        try:
            answer = await self._client.post(webhook["clientConfig"], review, _SECONDS)
            return _converted(answer["response"], uid, obj, wanted)
        except CallError as error:
            raise _failed(kind, obj, str(error)) from None


def _converted(response: dict[str, Any], uid: str, obj: Manifest, wanted: str) -> Manifest:
    result = response.get("result") or {}
    if result.get("status") != "Success":
        raise CallError(result.get("message") or "no reason given")
    found = response.get("convertedObjects") or []
    if response.get("uid") != uid or len(found) != 1 or found[0].get("apiVersion") != wanted:
        raise CallError("webhook returned another object than asked for")
    metadata, before = found[0].get("metadata") or {}, obj["metadata"]
    for name in ("name", "namespace", "uid"):
        if metadata.get(name) != before.get(name):
            raise CallError(f"must have the same {name}")
    # Only labels and annotations may be changed by a conversion.
    kept = {key: metadata[key] for key in ("labels", "annotations") if key in metadata}
    rest = {k: v for k, v in before.items() if k not in ("labels", "annotations")}
    converted: Manifest = {**found[0], "metadata": {**rest, **kept}}
    return converted


def _failed(kind: Kind, obj: Manifest, why: str) -> StatusError:
    text = f"conversion webhook for {obj['apiVersion']}, Kind={kind.kind} failed: {why}"
    return StatusError(500, "", text)


def attach(kind: Kind, record: Record, forms: dict[str, Manifest]) -> None:
    """Keep the converted forms with the stored record."""
    for version, obj in forms.items():
        obj["metadata"]["resourceVersion"] = str(record.revision)
        record.form((kind.epoch, version), lambda obj=obj: orjson.dumps(obj))  # type: ignore[misc]


def carrier(kind: Kind, previous: Record) -> Callable[[Record], None] | None:
    """Return what completes a record written by the server itself."""
    if not previous.forms or not converts(kind):
        return None
    return lambda record: carry_over(kind, record, previous)


def carry_over(kind: Kind, record: Record, previous: Record) -> None:
    """After a write that changed metadata only: the forms of before, with the new metadata."""
    if record.forms or not previous.forms:
        return
    for version in kind.versions:
        raw = previous.forms.get((kind.epoch, version))
        if raw is not None:
            obj = {**orjson.loads(raw), "metadata": dict(record.obj["metadata"])}
            attach(kind, record, {version: obj})

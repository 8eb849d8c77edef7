"""Where the sweep of orphans keeps what it held and let go: a ConfigMap of the target namespace, on the hub.

A data plane that is restored from a backup loses what was recorded there, just when it matters.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import orjson

from apis.fleet.labels import APPROVE_ORPHANS, ORPHAN_RECORD
from ctrlruntime.api import BUILTIN, GroupVersionKind, Manifest
from ctrlruntime.client import Client, NotFound
from ctrlruntime.gate import Hold
from ctrlruntime.intake import Limits, inflate
from internal.fleet.orphans import SweepRecord

CONFIG_MAP: Final = BUILTIN[GroupVersionKind("", "v1", "ConfigMap")]
_FIELD_MANAGER: Final = "fleet-orphans"
_RECORD: Final = "record"
_LIMITS: Final = Limits(bytes=2**25)
"""Inflated: whoever may write ConfigMaps of the target namespace could have a gigabyte read otherwise."""
HELD: Final = "held"
"""Key of the ConfigMap: what waits, and the command that approves it; missing if nothing waits."""


@dataclass(frozen=True, slots=True)
class OrphanRecord:
    """Loads and saves the record; past every cache."""

    client: Client
    namespace: str
    """The target namespace."""

    async def load(self) -> tuple[SweepRecord | None, str]:
        """Return the record and its version; None and "" if there is none, and None if another wrote it last: it may be an older one.

        Raises ValueError, with what to do, for what cannot be read, and the client's errors.
        """
        try:
            found = await self.client.get(CONFIG_MAP, ORPHAN_RECORD, namespace=self.namespace)
        except NotFound:
            return None, ""
        try:
            text = (found.get("binaryData") or {})[_RECORD]
            packed = base64.b64decode(text, validate=True)
            record = SweepRecord.of(orjson.loads(inflate(packed, _LIMITS, "the record")))
        except (KeyError, ValueError) as error:
            raise ValueError(
                f"ConfigMap {ORPHAN_RECORD} cannot be read, so nothing is deleted; delete it, and all that is gone by then waits "
                f"for an approval: kubectl delete configmap {ORPHAN_RECORD} -n {self.namespace}"
            ) from error
        metadata = found["metadata"]
        return record if _is_own(metadata) else None, metadata["resourceVersion"]

    async def save(self, record: SweepRecord, hold: Hold | None, version: str) -> str:
        """Store the record, and return its new version. Raises Conflict if it has another version by now."""
        text = base64.b64encode(zlib.compress(orjson.dumps(record.to_dict()))).decode()
        data: dict[str, Any] = {HELD: None if hold is None else self.message(hold)}
        metadata: dict[str, Any] = {"name": ORPHAN_RECORD, "namespace": self.namespace}
        manifest: Manifest = {"binaryData": {_RECORD: text}, "data": data}
        if not version:
            kind = {"apiVersion": "v1", "kind": "ConfigMap"}
            known = {key: value for key, value in data.items() if value is not None}
            made = {**kind, "metadata": metadata, **manifest, "data": known}
            answer = await self.client.create(made, field_manager=_FIELD_MANAGER)
        else:
            patch = {"metadata": {"resourceVersion": version}, **manifest}
            answer = await self.client.patch(
                CONFIG_MAP,
                ORPHAN_RECORD,
                patch,
                namespace=self.namespace,
                field_manager=_FIELD_MANAGER,
            )
        return str(answer["metadata"]["resourceVersion"])

    def message(self, hold: Hold) -> str:
        """Return what waits, and the command that approves it."""
        return f"{hold.message}. If this is meant, run `{self.command(hold.digest)}`"

    def command(self, digest: str) -> str:
        """Return the command that approves a set."""
        return f"kubectl annotate namespace {self.namespace} --overwrite {APPROVE_ORPHANS}={digest}"


def _is_own(metadata: Mapping[str, Any]) -> bool:
    """Whether a stack wrote the record last: each write has other bytes, and so the field has its manager."""
    return any(
        each.get("manager") == _FIELD_MANAGER
        and f"f:{_RECORD}" in ((each.get("fieldsV1") or {}).get("f:binaryData") or {})
        for each in metadata.get("managedFields") or ()
    )

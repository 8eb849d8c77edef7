"""What there is of a Tenant that moves between data planes, and the steps of a move. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from apis.tenancy import TenantRegistry
from ctrlruntime.api.kinds import Manifest
from ctrlruntime.resources import OWNER, OwnerKey


class Step(StrEnum):
    """What is to be done next; the value is reported."""

    RECORD = "recording on the Tenant that it moves"
    AWAIT_HOLD = "waiting until its registry keeps it; its row stays where it is until then"
    AWAIT_LEAVING = (
        "waiting until its registry has its row no longer: take the row out of its view, into the "
        "view of the other data plane"
    )
    AWAIT_ROW = "waiting until the registry of the other data plane has made it from its row"
    PAUSE = "pausing the Tenant on its data plane"
    AWAIT_PAUSE = "waiting until its stack has stopped work on it"
    COPY = "creating it on the other data plane, paused"
    MARK = "recording on the other Tenant where it came from"
    HAND_OVER = "handing its objects of the hub over"
    RESUME = "letting the other stack reconcile it"
    AWAIT_ADOPTION = "waiting until the other stack has adopted its objects"
    DELETE = "deleting the Tenant that is left"
    RELEASE = "letting the former stack remove what is on its data plane"
    AWAIT_END = "waiting until the Tenant that is left is gone"
    DONE = "moved"
    UNMARK = "removing what was recorded on the other Tenant"
    DROP_COPY = "deleting the paused copy on the other data plane"
    UNRECORD = "letting its stack go on with it"
    ABORTED = "not moved"


class MoveRefused(Exception):
    """A move cannot be made; nothing was changed by the step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherRegistry:
    """What the other data plane has to make a Tenant from its row."""

    revision: str = ""
    """Of the template of the same name; empty: there is none."""
    registry: str = ""
    """The registry that the template names."""
    found: bool = False
    """Whether that registry is there, and not being deleted."""
    paused: bool = False
    """Whether template or registry is paused."""


@dataclass(frozen=True, slots=True)
class MoveState:
    """What there is of one Tenant."""

    source: str
    """The id of the data plane that it leaves."""
    target: str
    """The id of the data plane that it goes to."""
    left: Manifest | None
    """The Tenant on the one."""
    made: Manifest | None
    """The Tenant on the other."""
    left_owners: Sequence[str] = ()
    """For each object of the hub that records the former Tenant, the UID of its owner; may be empty."""
    made_owners: Sequence[str] = ()
    """The same of the new one."""
    other: OtherRegistry = field(default_factory=OtherRegistry)
    """Read before a move is recorded."""
    same_values: bool = True
    """Whether the sensitive values of both Tenants are equal."""


def annotations_of(manifest: Manifest) -> Mapping[str, str]:
    """Return the annotations of an object."""
    found: Mapping[str, Any] = manifest["metadata"].get("annotations") or {}
    return found


def is_deleting(manifest: Manifest) -> bool:
    """Whether an object is being deleted."""
    return bool(manifest["metadata"].get("deletionTimestamp"))


def is_of_registry(manifest: Manifest) -> bool:
    """Whether a Tenant records a registry as its owner."""
    key = OwnerKey.parse(annotations_of(manifest).get(OWNER, ""))
    return key is not None and key.kind == str(TenantRegistry.gvk().group_kind)


def uid_of(manifest: Manifest) -> str:
    """Return the UID of an object."""
    return str(manifest["metadata"]["uid"])


def has_condition(manifest: Manifest, kind: str) -> bool:
    """Whether a condition of an object is True."""
    conditions = (manifest.get("status") or {}).get("conditions") or ()
    return any(each["type"] == kind and each["status"] == "True" for each in conditions)


def is_adopted(made: Manifest, owners: Sequence[str]) -> bool:
    """Whether the new Tenant was reconciled, and has all objects of the hub that record it."""
    status = made.get("status") or {}
    reconciled = status.get("observedGeneration") == made["metadata"]["generation"]
    return reconciled and not has_condition(made, "Paused") and set(owners) <= {uid_of(made)}

"""The first step of a write: from what is stored to the new object, and whether the two belong together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ctrlruntime.api.kinds import Manifest
from ctrlruntime.envtest.server import strategy
from ctrlruntime.envtest.server.errors import StatusError, bad_request, conflict, not_found
from ctrlruntime.envtest.server.kinds import Kind
from ctrlruntime.envtest.server.request import Request


@dataclass(frozen=True, slots=True)
class Build:
    """How a write makes the new object."""

    make: Callable[[Manifest | None], Manifest]
    """From the live object, or None where there is none."""
    replaces: bool = True
    """False: of a create, which never looks at what is there."""
    creates: bool = False
    """Whether it makes an object where there is none."""
    tracks: bool = False
    """Whether `make` has recorded the field managers itself."""


def place(kind: Kind, request: Request, obj: Manifest) -> None:
    """Check that the namespaces of the URL and of the object agree."""
    metadata = obj["metadata"]
    if not kind.namespaced:
        if metadata.get("namespace") and kind.kind != "Namespace":
            return
        metadata.pop("namespace", None)
        return
    check_namespace(request, obj)
    metadata["namespace"] = request.namespace


def check_namespace(request: Request, obj: Manifest) -> None:
    """Check that the namespaces of the URL and of the object agree."""
    given = obj["metadata"].get("namespace")
    if given and given != request.namespace:
        raise bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )


def check_created(kind: Kind, request: Request, obj: Manifest, *, tracked: bool) -> None:
    """Check and complete the object that an update or an apply is about to create."""
    place(kind, request, obj)
    metadata = obj["metadata"]
    if metadata["name"] != request.name:
        raise other_name(metadata["name"], request.name)
    version = metadata.get("resourceVersion") or ""
    if not request.dry_run:  # a dry run shows what was sent
        metadata.pop("resourceVersion", None)
    if uid := metadata.pop("uid", ""):
        raise conflict(
            kind.group,
            kind.plural,
            request.name,
            f"uid mismatch: the provided object specified uid {uid}, "
            "and no existing object was found",
        )
    if version and not tracked:
        raise not_found(kind.group, kind.plural, request.name)
    metadata["name"] = request.name


def check_preconditions(kind: Kind, request: Request, new: Manifest, live: Manifest) -> None:
    """Raise where an update or a patch is of another object, or of another version of it."""
    metadata, before = new["metadata"], live["metadata"]
    if request.verb == "patch":
        name = metadata.get("name")
        if name != before["name"]:
            raise other_name(name or "", before["name"])
    uid = metadata.get("uid") or ""
    if uid and uid != before["uid"] and request.verb == "update":
        raise _other_uid(kind, before, uid)
    version = metadata.get("resourceVersion") or ""
    if not version or version == "0":
        if (request.verb == "update" and not kind.unconditional_update) or kind.custom:
            raise strategy.must_have_version(kind, request.name)
    elif version != before["resourceVersion"]:
        if not version.isdigit():
            text = f'strconv.ParseUint: parsing "{version}": invalid syntax'
            raise StatusError(500, "", text)
        raise conflict(kind.group, kind.plural, request.name)
    metadata["resourceVersion"] = before["resourceVersion"]


def _other_uid(kind: Kind, before: Manifest, uid: str) -> StatusError:
    key = f"/registry/{kind.resource}/{before.get('namespace', '')}/{before['name']}"
    why = (
        f"StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, "
        f"AdditionalErrorMsg: Precondition failed: UID in precondition: {uid}, "
        f"UID in object meta: {before['uid']}"
    )
    return conflict(kind.group, kind.plural, before["name"], why)


def other_name(given: str, expected: str) -> StatusError:
    if not given:
        return bad_request("name must be provided")
    return bad_request(
        f"the name of the object ({given}) does not match the name on the URL ({expected})"
    )

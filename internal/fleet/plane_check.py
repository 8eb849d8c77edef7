"""Whether a data plane can be used: it answers, it is prepared, it takes writes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from apis.fleet import Reason
from apis.fleet.labels import KUBECONFIG_SECRET, LEASE, PLANE_NAMESPACE
from ctrlruntime.api import BUILTIN, GroupVersionKind, Manifest
from ctrlruntime.client import APIError, Client, Forbidden, NotFound, TransportError, Unauthorized
from ctrlruntime.client.auth import AuthError
from ctrlruntime.clock import wall
from internal.fleet.targets import Outcome, TargetError

NAMESPACE: Final = BUILTIN[GroupVersionKind("", "v1", "Namespace")]
LEASES: Final = BUILTIN[GroupVersionKind("coordination.k8s.io", "v1", "Lease")]
CRD: Final = BUILTIN[GroupVersionKind("apiextensions.k8s.io", "v1", "CustomResourceDefinition")]
IDENTITY: Final = "kube-system"
"""The namespace whose UID identifies a data plane: a Kubernetes cluster has one, and it is never replaced.

Where there is none, as in a workspace of kcp, PLANE_NAMESPACE has its place."""
CHECKED: Final = "fleet.ctrlruntime.dev/checked-at"
"""Annotation of the Lease on a data plane, written to find out whether writes are taken."""
FAILURES: Final = (APIError, TransportError, AuthError, OSError, TimeoutError)
"""What a request to a data plane may raise."""
LONGEST_UID: Final = 128
"""Characters; a UUID has 36."""
PREPARE: Final = "apply config/data-plane to it"


class AnswerUnreadable(TransportError):
    """The answer is not that of an API server."""


@contextmanager
def readable() -> Iterator[None]:
    """Turn what the reading of an answer raises that has another form than an API server's into AnswerUnreadable."""
    try:
        yield
    except (LookupError, TypeError, AttributeError, ValueError, RecursionError) as error:
        raise AnswerUnreadable(
            f"its answer is not that of an API server ({type(error).__name__})"
        ) from error


async def identify(client: Client) -> str:
    """Return the id of a data plane. Raises the client's errors, and AnswerUnreadable for an answer without one."""
    return (await identity_of(client))[1]


async def identity_of(client: Client) -> tuple[str, str]:
    """Return the namespace that identifies a data plane, and its UID, the id. Raises as `identify` does."""
    name = IDENTITY
    with readable():
        try:
            found = await client.get(NAMESPACE, name)
        except NotFound:
            name = PLANE_NAMESPACE
            found = await client.get(NAMESPACE, name)
        uid = found["metadata"]["uid"]
        if not isinstance(uid, str) or not 0 < len(uid) <= LONGEST_UID:
            raise ValueError("the namespace has no uid")
        return name, uid


@dataclass(frozen=True, slots=True)
class PlaneAnswer:
    """What a data plane that can be used has answered."""

    identity: str
    """Its id."""
    renewal: str = ""
    """Holder and time of its Lease, if a write was tried and there is one."""


async def check_plane(
    client: Client, crds: Sequence[Manifest], *, write: bool = False
) -> PlaneAnswer:
    """Return the answer of a data plane that is prepared, and with `write` takes writes. Raises TargetError."""
    renewal = ""
    try:
        identity = await identify(client)
        with readable():
            await _check_namespace(client)
            for expected in crds:
                await _check_crd(client, expected)
            if write:
                renewal = renewal_of(await _check_writes(client))
    except FAILURES as error:
        raise TargetError(*_parts(outcome_of(error))) from error
    return PlaneAnswer(identity, renewal)


def renewal_of(spec: Mapping[str, Any]) -> str:
    """Return holder and time of a Lease's spec; empty for one without a holder."""
    holder = spec.get("holderIdentity") or ""
    return f"{holder} {spec.get('renewTime')}" if holder else ""


async def _check_namespace(client: Client) -> None:
    """Read by list: a stack's rights on a data plane are to list, not to get, what it watches."""
    found = await client.list(
        NAMESPACE, fields=f"metadata.name={PLANE_NAMESPACE}", metadata_only=True
    )
    if not found:
        raise _unprepared(f"namespace {PLANE_NAMESPACE} is missing on the data plane")


async def _check_crd(client: Client, expected: Manifest) -> None:
    name = expected["metadata"]["name"]
    found = await client.list(CRD, fields=f"metadata.name={name}")
    if not found:
        raise _unprepared(f"CRD {name} is missing on the data plane")
    field = missing_field(_schema(expected), _schema(found[0]))
    if field:
        raise _unprepared(f"CRD {name} on the data plane is old: it lacks {field}")


async def _check_writes(client: Client) -> Mapping[str, Any]:
    """Write to the Lease, if there is one: an annotation, which election does not read. Return its spec."""
    annotations = {CHECKED: str(int(wall()))}
    patch = {"metadata": {"annotations": annotations}}
    try:
        found = await client.patch(LEASES, LEASE, patch, namespace=PLANE_NAMESPACE)
    except NotFound:
        return {}
    spec: Mapping[str, Any] = found.get("spec") or {}
    return spec


def missing_field(expected: Mapping[str, Any], found: Mapping[str, Any], path: str = "") -> str:
    """Return the path of the first field of a schema that another one lacks; empty if there is none."""
    there = found.get("properties") or {}
    for name, schema in (expected.get("properties") or {}).items():
        place = f"{path}.{name}"
        if name not in there:
            return place
        if missing := missing_field(schema, there[name], place):
            return missing
    for key in ("items", "additionalProperties"):
        inner, other = expected.get(key), found.get(key)
        if isinstance(inner, Mapping) and isinstance(other, Mapping):
            missing = missing_field(inner, other, f"{path}[]")
            if missing:
                return missing
    return ""


def outcome_of(error: BaseException) -> Outcome:
    """Return what an error of a request to a data plane means."""
    if isinstance(error, APIError) and _is_full(error):
        return Outcome(
            Reason.FULL,
            f"the data plane takes no more writes ({error.message}); delete objects there, or enlarge it",
        )
    if isinstance(error, Unauthorized):
        return Outcome(
            Reason.FORBIDDEN,
            f"the data plane refuses the credentials; put valid ones into Secret {KUBECONFIG_SECRET}",
        )
    if isinstance(error, Forbidden):
        return Outcome(Reason.FORBIDDEN, f"{error.message}; grant it: {PREPARE}")
    if isinstance(error, APIError) and 400 <= error.code < 500 and error.code != 429:
        return Outcome(
            Reason.NOT_PREPARED,
            f"the data plane answers, and lacks what a stack needs ({error.code} {error.message}); {PREPARE}",
        )
    if isinstance(error, APIError):
        return Outcome(
            Reason.UNREACHABLE,
            f"the data plane answers with errors ({error.code} {error.message}); look at its API server",
        )
    why = "it does not answer in time" if isinstance(error, TimeoutError) else str(error)
    return Outcome(
        Reason.UNREACHABLE,
        f"the data plane cannot be reached ({why}); look at its API server and the network",
    )


def _is_full(error: APIError) -> bool:
    """Return whether the server has no room: by its code, as etcd words it, or by a quota."""
    message = error.message.lower()
    if error.code == 507 or (error.code >= 500 and "space exceeded" in message):
        return True
    return isinstance(error, Forbidden) and "exceeded quota" in message


def _schema(crd: Manifest) -> Mapping[str, Any]:
    """Return the schema of the stored version."""
    stored: Mapping[str, Any] = next(
        (each for each in crd["spec"]["versions"] if each.get("storage")), {}
    )
    schema: Mapping[str, Any] = (stored.get("schema") or {}).get("openAPIV3Schema") or {}
    return schema


def _unprepared(what: str) -> TargetError:
    return TargetError(Reason.NOT_PREPARED, f"{what}; {PREPARE}")


def _parts(outcome: Outcome) -> tuple[Reason, str]:
    return outcome.reason, outcome.message

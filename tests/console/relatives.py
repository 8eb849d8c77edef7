"""One object of each kind, related as in a cluster: what each page links to, and its trees."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from apis.cloud import InstanceTerraform
from apis.cosmos import CosmosFullNode
from apis.fleet.fleetconfig import NAME as FLEET
from apis.tenancy import Tenant, TenantTemplate
from ctrlruntime.api import Resource
from ctrlruntime.api.builtin import BUILTIN
from ctrlruntime.api.kinds import GroupVersionKind, RESTMapping
from ctrlruntime.generate.crd import open_api_schema
from ctrlruntime.json import Json
from manager.kinds import KINDS
from tests.console.fleet import ROLLOUT, SHOP, SHOP_STATUS
from tests.console.harness import Harness, ready
from tests.rules.samples import samples
from tests.support.waiting import eventually

POD: Final = BUILTIN[GroupVersionKind("", "v1", "Pod")]
CLAIM: Final = BUILTIN[GroupVersionKind("", "v1", "PersistentVolumeClaim")]
AT: Final = "2026-11-23T10:00:00Z"
LONG_NAME: Final = "customer-with-a-name-that-is-as-long-as-some-names-really-are"
NAMES: Final = {
    "TenantRegistry": "customers",
    "TenantTemplate": "web",
    "Tenant": "acme-web",
    "FleetRollout": "november",
    "Instance": "acme",
    "InstanceTerraform": "acme",
    "CosmosFullNode": "gaia",
    "FleetConfig": FLEET,
}
"""Names that others refer to; all others are called `one`."""


def name_of(kind: str) -> str:
    """The name of the object of a kind."""
    return NAMES.get(kind, "one")


def place_of(kind: type[Resource[Any, Any]]) -> str:
    """The namespace in the path of the object's page."""
    return "default" if kind.mapping().namespaced else "-"


def object_url(kind: type[Resource[Any, Any]], head: str = "/objects") -> str:
    """The path of the page that an object of every kind has."""
    gvk = kind.gvk()
    return f"{head}/{kind.mapping().plural}/{place_of(kind)}/{name_of(gvk.kind)}"


def manifest_of(kind: type[Resource[Any, Any]]) -> dict[str, Any]:
    """The sample of a kind under its name."""
    gvk = kind.gvk()
    metadata: dict[str, Any] = {"name": name_of(gvk.kind)}
    if kind.mapping().namespaced:
        metadata["namespace"] = "default"
    spec = {} if gvk.kind == "FleetConfig" else samples()[gvk.kind][0].get("spec", {})
    if kind is Tenant:
        spec = {**SHOP, "templateRef": "web", "registryId": "customers"}
    if kind is TenantTemplate:
        spec = {**spec, "registryId": "customers"}
    if gvk.kind == "InstanceKubernetesPVC":
        spec = {"disks": {"maxSize": "1Ti", "usage": {"url": "https://usage.example.com"}}}
    if gvk.kind == "ScheduledVolumeSnapshot":
        spec = {**spec, "fullNodeRef": {"name": "gaia"}}
    return {"apiVersion": gvk.api_version, "kind": gvk.kind, "metadata": metadata, "spec": spec}


def status_of(kind: type[Resource[Any, Any]]) -> dict[str, Any]:
    """The status of the object of a kind: something to be seen in each tree."""
    match kind.gvk().kind:
        case "Tenant":
            return SHOP_STATUS
        case "FleetRollout":
            return ROLLOUT
        case "Instance":
            child = {"kind": "InstanceTerraform", "name": "acme", "phase": "Failed"}
            assigned = {"version": "5.2.0", "rollout": "november", "message": "wave early"}
            return {
                "phase": "Failed",
                "version": "5.1.3",
                "message": "terraform: quota of addresses is used up",
                "assignedVersion": assigned,
                "children": [child],
            }
        case "InstanceTerraform":
            run = {"runID": "terraform-3f9a", "state": "Done", "outcome": "Failed", "attempt": 2}
            times = {"startedAt": "2026-11-23T10:00:00.000000Z"}
            return {
                "phase": "Failed",
                "message": "quota of addresses is used up",
                "run": {**run, **times, "message": "quota of addresses is used up"},
            }
        case "CosmosFullNode":
            sync = {f"gaia-{each}": {"height": 1200 + each, "inSync": True} for each in range(2)}
            silent = {"gaia-2": {"error": "does not answer"}}
            heights = {f"gaia-{each}": 1200 + each for each in range(3)}
            return {"phase": "Progressing", "sync": {**sync, **silent}, "height": heights}
    phase = {"phase": "Active", "message": ""} if kind.gvk().kind == "ChangeFreeze" else {}
    return {**ready(True), **phase}


def filled_status(kind: type[Resource[Any, Any]], text: str) -> dict[str, Any]:
    """Return a status of a kind in which every field is set, to the text where its schema allows any."""
    schema, _ = open_api_schema(kind)
    status = schema["properties"].get("status", {"type": "object"})
    found: dict[str, Any] = _filled("status", status, text)
    return found


def _filled(name: str, schema: Mapping[str, Any], text: str) -> Json:
    """Return a value that the schema allows; None for a text with a form of its own."""
    fixed = {"type": "Ready", "reason": "Broken"}.get(name) if "pattern" in schema else None
    match schema:
        case {"enum": [first, *_]}:
            return str(first)
        case {"type": "object", "properties": fields}:
            values = {key: _filled(key, each, text) for key, each in fields.items()}
            return {key: value for key, value in values.items() if value is not None}
        case {"type": "object", "additionalProperties": {"type": _} as each}:
            value = _filled(name, each, text)
            return {} if value is None else {text: value}
        case {"type": "array", "items": each}:
            value = _filled(name, each, text)
            return [] if value is None else [value]
        case {"type": "string", "format": _}:
            return AT
        case {"type": "string"}:
            return fixed if "pattern" in schema else text[: schema.get("maxLength")]
        case {"type": "integer" | "number"}:
            return max(1, schema.get("minimum", 1))
        case {"type": "boolean"}:
            return True
        case {"x-kubernetes-preserve-unknown-fields": True}:
            return {text: text}
    return 1  # a quantity


async def fill_relatives(
    console: Harness, kinds: Iterable[type[Resource[Any, Any]]] = KINDS
) -> None:
    """Create one object of each kind, owners first, and wait until the cache has them."""
    owner: dict[str, Any] = {}
    for kind in kinds:
        manifest = manifest_of(kind)
        if kind is InstanceTerraform:
            manifest["metadata"]["ownerReferences"] = [_owner(owner["Instance"])]
        owner[kind.gvk().kind] = await console.client.create(manifest)
        place = manifest["metadata"].get("namespace", "")
        await console.report(kind, name_of(kind.gvk().kind), status_of(kind), place)
    for number in range(3):
        await _add_node(console, number, _owner(owner[CosmosFullNode.gvk().kind]))


async def _add_node(console: Harness, number: int, owner: dict[str, Any]) -> None:
    name = f"gaia-{number}"
    metadata = {"namespace": "default", "ownerReferences": [owner]}
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": f"pvc-{name}"}}
    waiting = {"reason": "ImagePullBackOff", "message": "not found"}
    status: dict[str, Any] = {"phase": "Running"}
    if number == 2:
        container = {"name": "node", "image": "gaia:v9", "imageID": "", "ready": False}
        container |= {"restartCount": 0, "state": {"waiting": waiting}}
        status = {"phase": "Pending", "containerStatuses": [container]}
    else:
        status["conditions"] = [{"type": "Ready", "status": "True"}]
    spec = {"containers": [{"name": "node", "image": "gaia:v9"}], "volumes": [volume]}
    claim = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
    }
    for kind, one, body, reported in (
        (CLAIM, f"pvc-{name}", claim, {"phase": "Bound"}),
        (POD, name, spec, status),
    ):
        gvk = kind.gvk
        manifest = {"apiVersion": gvk.api_version, "kind": gvk.kind, "spec": body}
        await console.client.create({**manifest, "metadata": {"name": one, **metadata}})
        await console.client.patch_status(gvk, one, {"status": reported}, namespace="default")

        def seen(kind: RESTMapping = kind, one: str = one, want: str = reported["phase"]) -> bool:
            entry = console.manager.cache.entry(kind, one, namespace="default")
            return entry is not None and (entry.field("status") or {}).get("phase") == want

        await eventually(seen)


def _owner(manifest: Mapping[str, Any]) -> dict[str, Any]:
    found = {"apiVersion": manifest["apiVersion"], "kind": manifest["kind"]}
    metadata = manifest["metadata"]
    return {**found, "name": metadata["name"], "uid": metadata["uid"], "controller": True}


SHOWN_KINDS: Final = (*KINDS, POD, CLAIM)

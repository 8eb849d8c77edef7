"""From the names that handlers use to the kinds of the server."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import orjson

from ctrlruntime.api.kinds import GroupVersionKind, RESTMapping
from ctrlruntime.client.client import Client
from ctrlruntime.client.errors import APIError
from ctrlruntime.kopf.registry import Selector

__all__ = ["KindNotServed", "ServedKind", "keeps_records", "served_kinds"]

_AGGREGATED: Final = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
_BETA: Final = "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList"
_CRD: Final = GroupVersionKind("apiextensions.k8s.io", "v1", "CustomResourceDefinition")
_UNKNOWN_KEPT: Final = "x-kubernetes-preserve-unknown-fields"


class KindNotServed(LookupError):
    """Handlers are for a kind that the server does not have: its CRD is missing, or its name is another."""


@dataclass(frozen=True, slots=True)
class ServedKind:
    """A kind, with the names that select it."""

    mapping: RESTMapping
    names: tuple[str, ...]
    has_status: bool


async def served_kinds(client: Client, selectors: Iterable[Selector]) -> dict[Selector, ServedKind]:
    """Return the kind of each selector: in its group the preferred version. Raises KindNotServed, APIError."""
    found: list[ServedKind] = []
    for path in ("/api", "/apis"):
        headers = {"Accept": f"{_AGGREGATED},{_BETA}"}
        response = await client.transport.request("GET", path, headers=headers)
        for group in orjson.loads(response.body).get("items") or ():
            found += _of_group(group)
    return {selector: _selected(selector, found) for selector in selectors}


def _selected(selector: Selector, found: list[ServedKind]) -> ServedKind:
    kinds = [kind for kind in found if selector.selects(kind.mapping, kind.names)]
    if not kinds:
        where = "/".join(filter(None, (selector.group, selector.version)))
        raise KindNotServed(
            f"the server has no kind {selector.name!r}{f' in {where}' if where else ''}: install its CRD before "
            "the operator starts, or correct the name in the decorator"
        )
    core = [kind for kind in kinds if not kind.mapping.gvk.group]
    groups = {kind.mapping.gvk.group for kind in kinds}
    if len(groups) > 1 and not core:
        listed = ", ".join(sorted(groups))
        raise KindNotServed(f"{selector.name!r} is in several groups ({listed}): name one as well")
    return (core or kinds)[0]


def _of_group(group: dict[str, Any]) -> Iterator[ServedKind]:
    name = (group.get("metadata") or {}).get("name", "")
    for version in group.get("versions") or ():
        for resource in version.get("resources") or ():
            kind = (resource.get("responseKind") or {}).get("kind")
            if not kind:
                continue
            gvk = GroupVersionKind(name, version["version"], kind)
            names = (resource.get("singularResource", ""), *(resource.get("shortNames") or ()))
            below = [each.get("subresource") for each in resource.get("subresources") or ()]
            mapping = RESTMapping(gvk, resource["resource"], resource.get("scope") == "Namespaced")
            yield ServedKind(mapping, names, "status" in below)


async def keeps_records(client: Client, mapping: RESTMapping) -> bool:
    """Whether objects of a kind keep ``status.kopf.record``: its CRD has the field, or keeps unknown ones."""
    try:
        crd = await client.get(_CRD, f"{mapping.plural}.{mapping.gvk.group}")
    except APIError:  # built in, or without the right to look
        return False
    for version in crd["spec"].get("versions") or ():
        if version["name"] == mapping.gvk.version:
            schema: dict[str, Any] = (version.get("schema") or {}).get("openAPIV3Schema") or {}
            return _has(schema, ("status", "kopf", "record"))
    return False


def _has(schema: dict[str, Any], path: tuple[str, ...]) -> bool:
    for step in path:
        if schema.get(_UNKNOWN_KEPT):
            return True
        properties = schema.get("properties") or {}
        if step not in properties:
            return False
        schema = properties[step]
    return True

"""What `manager fleet move` reads of both data planes for a Tenant that a registry made."""

from __future__ import annotations

from typing import Final

from pydantic import ValidationError

from apis.tenancy import TenantRegistry, TenantTemplate
from ctrlruntime.api.kinds import Manifest, RESTMapping
from ctrlruntime.client.client import Client
from ctrlruntime.client.errors import NotFound
from ctrlruntime.controller.annotations import is_paused
from internal.fleet.move_state import OtherRegistry, annotations_of, is_deleting
from internal.tenancy.objects.values import SECRET
from internal.tenancy.sync.tenants import Blueprint

TEMPLATE: Final = TenantTemplate.mapping()
REGISTRY: Final = TenantRegistry.mapping()


async def other_registry(plane: Client, left: Manifest) -> OtherRegistry:
    """Return what a data plane has to make this Tenant from its row. Raises the client's errors."""
    namespace = left["metadata"]["namespace"]
    template = await _read(plane, TEMPLATE, left["spec"].get("templateRef"), namespace=namespace)
    if template is None or is_deleting(template):
        return OtherRegistry()
    try:
        revision = Blueprint.of(TenantTemplate.model_validate(template)).revision
    except ValidationError:
        return OtherRegistry()
    name = template["spec"].get("registryId")
    registry = await _read(plane, REGISTRY, name, namespace=namespace)
    return OtherRegistry(
        revision=revision,
        registry=str(name),
        found=registry is not None and not is_deleting(registry),
        paused=any(
            each is not None and is_paused(annotations_of(each)) for each in (template, registry)
        ),
    )


async def same_values(left: Client, one: Manifest, made: Client, other: Manifest) -> bool:
    """Return whether the sensitive values of two Tenants are equal. Raises the client's errors."""
    if not one["spec"].get("sensitiveVariables") or not other["spec"].get("sensitiveVariables"):
        return True  # the specs differ, or there are none
    return await _values(left, one) == await _values(made, other)


async def _values(plane: Client, tenant: Manifest) -> object:
    name = tenant["spec"]["sensitiveVariables"].get("secretName")
    found = await _read(plane, SECRET, name, namespace=tenant["metadata"]["namespace"])
    return None if found is None else found.get("data")


async def _read(
    plane: Client, mapping: RESTMapping, name: object, *, namespace: str
) -> Manifest | None:
    """Return an object, or None; also without a name."""
    if not name:
        return None
    try:
        return await plane.get(mapping, str(name), namespace=namespace)
    except NotFound:
        return None

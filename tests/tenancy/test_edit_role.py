"""Templates may make what the ClusterRole `edit` of the newest Kubernetes grants, and nothing of the manager's."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from apis.cloud import Instance
from apis.tenancy import TenantRegistry, TenantTemplate
from ctrlruntime.api.builtin import BUILTIN
from ctrlruntime.api.kinds import GroupKind, GroupVersionKind
from ctrlruntime.client.client import Client
from internal.tenancy.shared.privileges import EDITABLE, Privileges
from manager.controllers.tenancy_options import TenancyOptions
from tests.backends import SharedServer
from tests.manifests.installation import installer, manifests
from tests.tenancy.fleet import Fleet
from tests.tenancy.harness import TenancyHarness

LOOP = pytest.mark.asyncio(loop_scope="module")
ROLE = BUILTIN[GroupVersionKind("rbac.authorization.k8s.io", "v1", "ClusterRole")]
WRITES = {"create", "patch", "delete"}
Resource = tuple[str, str]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def harness(
    shared_server: None, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[TenancyHarness]:
    """A manager with its account's rights and the default options."""
    folder = tmp_path_factory.mktemp("harness")
    options = TenancyOptions(sqlite_root=folder)
    async with TenancyHarness.start(folder, options=options) as harness:
        yield harness


def granted(role: dict[str, Any], verbs: set[str]) -> set[Resource]:
    """The resources on which a role has one of the verbs, subresources aside."""
    return {
        (group, resource)
        for rule in role.get("rules") or ()
        if (verbs | {"*"}) & set(rule["verbs"])
        for group in rule.get("apiGroups", ())
        for resource in rule.get("resources", ())
        if "/" not in resource
    }


def kinds() -> dict[Resource, tuple[GroupKind, bool]]:
    """Return kind and scope of every built-in resource, of ours, and of copies of disks."""
    found = {
        (each.gvk.group, each.plural): (each.gvk.group_kind, each.namespaced)
        for each in BUILTIN.values()
    }
    for manifest in manifests():
        if manifest["kind"] == "CustomResourceDefinition":
            spec = manifest["spec"]
            kind = GroupKind(spec["group"], spec["names"]["kind"])
            found[spec["group"], spec["names"]["plural"]] = kind, spec["scope"] == "Namespaced"
    snapshots = "snapshot.storage.k8s.io"
    found[snapshots, "volumesnapshots"] = GroupKind(snapshots, "VolumeSnapshot"), True
    return found


@pytest.mark.criterion("S-F1")
async def test_templates_may_make_what_edit_grants_and_no_rule_of_the_manager_adds_to_it(
    real_server: SharedServer,
) -> None:
    async with Client.connect(real_server.config) as client:
        edit = await client.get(ROLE, "system:aggregate-to-edit")
        ours = {each: (await client.mapper.resolve(each)).plural for each in EDITABLE}
    by_edit = {each for each in granted(edit, WRITES) if each[0] != "extensions"}  # not served
    assert {(kind.group, plural) for kind, plural in ours.items()} == by_edit
    objects = [*manifests(), *installer()]
    roles = [each for each in objects if each["kind"] in ("ClusterRole", "Role")]
    written = set[Resource]().union(*(granted(role, WRITES | {"update"}) for role in roles))
    assert len(written) > 30
    for resource in written:
        if resource in by_edit:
            continue
        kind, scoped = kinds()[resource]
        assert not Privileges().allows(kind, namespaced=scoped), resource


REGISTRY = {
    "source": {"type": "sqlite", "sqlite": {"path": "x", "table": "y"}, "syncInterval": "1h"},
    "valueMappings": {"uid": "uid", "hostOrUrl": "url", "activate": "active"},
}
INSTANCE = {"version": "5.1.0", "releaseChannel": "stable", "domain": "a.example.com"}


@LOOP
@pytest.mark.criterion("S-F1")
async def test_a_template_neither_takes_over_nor_deletes_objects_of_our_kinds(
    harness: TenancyHarness,
) -> None:
    fleet = await Fleet.make(harness)
    fleet.rows("a")
    protected = {**INSTANCE, "deletionProtection": True}
    await fleet.create(Instance, "bank", protected)
    await fleet.create(TenantRegistry, "other", REGISTRY)
    bank = await fleet.read(Instance, "bank")
    other = await fleet.read(TenantRegistry, "other")
    await fleet.registry()
    for kind, name, spec in (
        (Instance, "bank", {**INSTANCE, "deletionProtection": False}),
        (TenantRegistry, "other", REGISTRY),
    ):
        manifest = {"apiVersion": kind.gvk().api_version, "kind": kind.gvk().kind, "spec": spec}
        taken = {"id": "it", "nameTemplate": name, "conflictPolicy": "Force", "spec": manifest}
        await fleet.template(manifests=[taken])
        refused = await fleet.until(
            TenantTemplate, "app", "Valid", "False", "PrivilegeRefused", message=kind.gvk().kind
        )
        assert f"--allow-kind {kind.gvk().group_kind}" in refused.message
    await harness.client.delete(TenantTemplate, "app", namespace=fleet.namespace)
    await fleet.gone(TenantTemplate.mapping(), "app")
    seen, listed = await fleet.read(Instance, "bank"), await fleet.read(TenantRegistry, "other")
    assert (seen.spec, seen.metadata.deletion_timestamp) == (bank.spec, None)
    assert (listed.spec, listed.metadata.deletion_timestamp) == (other.spec, None)

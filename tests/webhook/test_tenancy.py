"""Registries and templates that could never work are refused when they are written."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import AsyncIterator

import pytest

from apis.tenancy import Tenant, TenantRegistry, TenantTemplate
from ctrlruntime.api.kinds import GroupVersionKind, Manifest
from ctrlruntime.client.client import Client
from ctrlruntime.client.errors import Invalid
from ctrlruntime.client.patches import PatchType
from ctrlruntime.envtest import Environment
from ctrlruntime.envtest.local_webhooks import LocalWebhooks
from ctrlruntime.generate import webhook_configurations
from manager.controllers.tenancy import add_tenancy, webhooks
from manager.controllers.tenancy_options import TenancyOptions
from tests.support.manager_harness import make_manager
from tests.support.waiting import eventually
from tests.webhook.patient import patient

KINDS = (TenantRegistry, TenantTemplate, Tenant)


@contextlib.asynccontextmanager
async def running(environment: Environment, hooks: LocalWebhooks) -> AsyncIterator[None]:
    manager = make_manager(environment.config("manager"), webhook=hooks.options)
    add_tenancy(manager, TenancyOptions(webhooks=True))
    async with manager.running():
        yield


@pytest.fixture
async def namespace(environment: Environment) -> AsyncIterator[str]:
    name = f"tenancy-{secrets.token_hex(4)}"
    client = environment.client()
    await client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    yield name
    await client.delete(GroupVersionKind("", "v1", "Namespace"), name)


def registry(namespace: str, **spec: object) -> Manifest:
    source = {
        "type": "mysql",
        "mysql": {"host": "db", "username": "u", "database": "d", "table": "t"},
    }
    return {
        "apiVersion": "tenancy.ctrlruntime.dev/v1",
        "kind": "TenantRegistry",
        "metadata": {"name": "people", "namespace": namespace},
        "spec": {
            "source": {**source, "syncInterval": "24h"},
            "valueMappings": {"uid": "id", "activate": "active"},
            **spec,
        },
    }


def template(namespace: str, *resources: Manifest, name: str = "web") -> Manifest:
    return {
        "apiVersion": "tenancy.ctrlruntime.dev/v1",
        "kind": "TenantTemplate",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"registryId": "people", "configMaps": list(resources)},
    }


def resource(name: str, text: str = "x", **more: object) -> Manifest:
    spec = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": text}}
    return {"id": name, "nameTemplate": f"{{{{ uid }}}}-{name}", "spec": spec, **more}


async def refused(client: Client, manifest: Manifest) -> list[tuple[str, str]]:
    with pytest.raises(Invalid) as caught:
        await client.create(manifest, dry_run=True)
    assert "denied the request" in caught.value.message
    return [(cause.field, cause.message) for cause in caught.value.causes]


async def test_what_could_never_be_rolled_out_is_refused_field_by_field(
    environment: Environment, hooks: LocalWebhooks, namespace: str
) -> None:
    client = environment.client()
    await environment.install_crds(*KINDS)
    configurations = patient(webhook_configurations(webhooks(), validating_name=namespace))
    await hooks.install(*configurations)
    await client.create(template(namespace, resource("a", dependIds=["a"]), name="early"))
    async with running(environment, hooks):
        cycle = [resource("a", dependIds=["b"]), resource("b", dependIds=["a"])]

        async def called() -> bool:
            with contextlib.suppress(Invalid):
                await client.create(template(namespace, *cycle), dry_run=True)
                return False
            return True

        await eventually(called)
        ((field, text),) = await refused(client, template(namespace, *cycle))
        assert (field, "circular dependency detected: a -> b -> a" in text) == (
            "spec.configMaps[0]",
            True,
        )

        broken = [resource("ok"), resource("bad", "{{ uid "), resource("once", ignoreFields=["$["])]
        causes = await refused(client, template(namespace, *broken))
        assert [field for field, _ in causes] == ["spec.configMaps[1]", "spec.configMaps[2]"]

        same_column = {"secret": {"column": "id", "sensitive": True}}
        causes = await refused(client, registry(namespace, extraValueMappings=same_column))
        assert [field for field, _ in causes] == ["spec.extraValueMappings"]

        looping = registry(namespace)
        looping["spec"]["source"]["writeBack"] = {"column": "ID"}
        ((field, text),) = await refused(client, looping)
        assert field == "spec.source.writeBack.column"
        assert "'ID' is read by a mapping" in text

        await client.create(registry(namespace))
        await client.create(template(namespace, resource("a"), resource("b")))
        change = {"spec": {"configMaps": cycle}}
        with pytest.raises(Invalid, match="circular dependency"):
            await client.patch(TenantTemplate, "web", change, namespace=namespace)

        # what was let in before stays as free to be labelled, and to go, as everything else
        label = {"metadata": {"labels": {"seen": "yes"}}}
        await client.patch(TenantTemplate, "early", label, namespace=namespace)
        await client.delete(TenantTemplate, "early", namespace=namespace)

    # without a manager nobody is stopped
    await client.create(template(namespace, *cycle, name="later"))
    await client.delete(TenantTemplate, "later", namespace=namespace)
    await client.delete(TenantTemplate, "web", namespace=namespace)
    gone = [{"op": "add", "path": "/metadata/finalizers", "value": []}]
    await client.patch(TenantRegistry, "people", gone, namespace=namespace, type=PatchType.JSON)
    await client.delete(TenantRegistry, "people", namespace=namespace)


def test_the_configuration_blocks_no_other_while_the_manager_is_down() -> None:
    hooks = [hook.entry() for hook in webhooks()]
    assert len(hooks) == 3
    for hook in hooks:
        assert hook["failurePolicy"] == "Ignore"
        (rule,) = hook["rules"]
        assert rule["operations"] == ["CREATE", "UPDATE"]
        assert rule["resources"] in (["tenantregistries"], ["tenanttemplates"], ["tenants"])
        assert ("objectSelector" in hook) == (rule["resources"] == ["tenants"])

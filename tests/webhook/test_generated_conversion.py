"""G-R3: the conversion of a CRD comes from its classes, and a manager whose CRD has none is not ready."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from ctrlruntime.api import Resource
from ctrlruntime.api.kinds import GroupVersionKind
from ctrlruntime.client.patches import PatchType
from ctrlruntime.envtest import Environment
from ctrlruntime.envtest.local_webhooks import LocalWebhooks
from ctrlruntime.generate import crd_files, crd_of, webhook_conversion
from ctrlruntime.manager.health import CheckFailed
from ctrlruntime.webhook.options import WebhookOptions
from tests.support.manager_harness import make_manager
from tests.support.waiting import eventually, eventually_raises
from tests.webhook.webhook_kinds import Websites

CRD = GroupVersionKind("apiextensions.k8s.io", "v1", "CustomResourceDefinition")


def generated(
    *kinds: type[Resource[Any, Any]], service: str = "s", namespace: str = "n"
) -> dict[str, Any]:
    files = crd_files(kinds, service_name=service, service_namespace=namespace)
    (text,) = files.values()
    crd: dict[str, Any] = yaml.safe_load(text)
    return crd


@pytest.mark.criterion("G-R3")
def test_g_r3_a_kind_with_a_spoke_gets_its_conversion(sites: Websites) -> None:
    crd = generated(sites.old, sites.current, service="mine", namespace="here")
    assert crd["spec"]["conversion"] == webhook_conversion("mine", "here")
    assert "conversion" not in generated(sites.current)["spec"]


@pytest.mark.criterion("G-R3")
@pytest.mark.parametrize("environment", ["embedded", "kube-apiserver"], indirect=True)
async def test_g_r3_a_patch_by_the_old_version_loses_nothing(
    environment: Environment, hooks: LocalWebhooks, sites: Websites
) -> None:
    client = environment.client()
    definition = hooks.definition(sites.current, sites.old)
    assert generated(sites.current, sites.old)["spec"]["conversion"]["strategy"] == "Webhook"
    manager = make_manager(environment.config(), webhook=hooks.options)
    manager.webhooks.convert(sites.current, sites.old)
    async with manager.running():
        await environment.install_crds(definition)
        await client.create(sites.manifest(title="Shop", tier="large"))
        await client.patch(sites.old, "shop", {"spec": {"port": 8080}}, namespace="default")
        spec = (await client.get(sites.current, "shop", namespace="default")).spec
        assert (spec.title, spec.tier, spec.port) == ("Shop", "large", 8080)
        assert await manager.webhooks.check()
        await client.delete(sites.current, "shop", namespace="default")
        await environment.uninstall_crds(definition)


@pytest.mark.criterion("G-R3")
@pytest.mark.parametrize("environment", ["embedded", "kube-apiserver"], indirect=True)
async def test_g_r3_a_manager_whose_crd_does_not_convert_is_not_ready_and_names_the_crd(
    environment: Environment, hooks: LocalWebhooks, sites: Websites
) -> None:
    definition = crd_of([sites.current, sites.old])
    name = definition["metadata"]["name"]
    await environment.install_crds(definition)
    manager = make_manager(environment.config(), webhook=hooks.options)
    manager.webhooks.convert(sites.current, sites.old)
    async with manager.running():
        await eventually_raises(CheckFailed, manager.webhooks.check)
        with pytest.raises(CheckFailed, match="strategy None") as refused:
            await manager.webhooks.check()
        assert name in str(refused.value)
    await environment.uninstall_crds(definition)


@pytest.mark.criterion("G-R3")
@pytest.mark.parametrize("environment", ["embedded"], indirect=True)
async def test_g_r3_a_manager_is_ready_once_its_crd_converts(
    environment: Environment, sites: Websites
) -> None:
    client = environment.client()
    definition = crd_of([sites.current, sites.old])
    await environment.install_crds(definition)
    own = WebhookOptions(host="127.0.0.1", port=0, secret_namespace="default", hosts=("127.0.0.1",))
    manager = make_manager(environment.config(), webhook=own)
    manager.webhooks.convert(sites.current, sites.old)
    async with manager.running():
        await eventually_raises(CheckFailed, manager.webhooks.check)
        patch = {"spec": {"conversion": webhook_conversion()}}
        await client.patch(CRD, definition["metadata"]["name"], patch, type=PatchType.MERGE)
        await eventually(manager.webhooks.check, despite=(CheckFailed,))
        assert await manager.webhooks.check()
    await environment.uninstall_crds(definition)

"""A manager's webhooks as an API server calls them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from ctrlruntime.api import Resource
from ctrlruntime.api.kinds import GroupVersionKind
from ctrlruntime.client.client import Client
from ctrlruntime.client.errors import APIError, Conflict, Forbidden, Invalid
from ctrlruntime.client.patches import PatchType
from ctrlruntime.envtest import Environment
from ctrlruntime.envtest.local_webhooks import LocalWebhooks
from ctrlruntime.manager import Manager
from ctrlruntime.webhook.options import WebhookOptions
from tests.support.manager_harness import make_manager
from tests.support.waiting import eventually_raises
from tests.webhook.handshakes import handshake
from tests.webhook.webhook_kinds import Websites


@contextlib.asynccontextmanager
async def serving(
    environment: Environment,
    webhook: WebhookOptions,
    *kinds: type[Resource[Any, Any]],
    **options: object,
) -> AsyncIterator[Manager]:
    """A manager that serves what the kinds declare."""
    given: dict[str, Any] = options
    manager = make_manager(environment.config(), webhook=webhook, **given)
    for kind in kinds:
        manager.webhooks.register(kind)
    async with manager.running():
        yield manager


async def until_called(client: Client, sites: Websites) -> None:
    """A configuration takes effect a moment after it was stored."""
    probe = sites.manifest("probe", title="probe", port=81, tier="small")
    await eventually_raises(Invalid, lambda: client.create(probe, dry_run=True))


@pytest.mark.criterion("EN-02")
@pytest.mark.criterion("WH-03")
@pytest.mark.criterion("WH-04")
async def test_the_server_defaults_and_validates_through_the_manager(
    environment: Environment, hooks: LocalWebhooks, sites: Websites
) -> None:
    client = environment.client()
    await environment.install_crds(sites.current)
    await hooks.install(sites.current)
    async with serving(environment, hooks.options, sites.current) as manager:
        await until_called(client, sites)
        made = await client.create(sites.manifest(title="Shop", ports=[{"name": "HTTP"}]))
        assert made["spec"]["tier"] == "small"
        assert made["spec"]["ports"][0]["name"] == "http"

        with pytest.raises(Invalid) as refused:
            await client.create(sites.manifest("bad", title="x", port=81, tier="huge"))
        assert [cause.field for cause in refused.value.causes] == ["spec.adminPort", "spec.tier"]
        assert "denied the request" in refused.value.message

        with pytest.raises(Conflict, match="promised to another"):
            await client.create(sites.manifest("other", title="conflict"))
        renamed = {**made, "spec": {**made["spec"], "title": "Other"}}
        with pytest.raises(Invalid, match="is written once"):
            await client.update(renamed)

        kept = {**made, "metadata": {**made["metadata"], "annotations": {"keep": "yes"}}}
        kept = await client.update(kept)
        with pytest.raises(Forbidden, match="shop is to be kept"):
            await client.delete(sites.current, "shop", namespace="default")
        del kept["metadata"]["annotations"]
        await client.update(kept)
        await client.delete(sites.current, "shop", namespace="default")

        with pytest.raises(APIError) as crashed:
            await client.create(sites.manifest("crash", title="crash"))
        assert crashed.value.code == 500
        path = manager.webhooks.application.paths[1]
        counted = manager.metrics.registry.get_sample_value(
            "controller_runtime_webhook_requests_total", {"webhook": path, "code": "500"}
        )
        assert counted == 1
    await environment.uninstall_crds(sites.current)


@pytest.mark.criterion("EN-02")
@pytest.mark.criterion("WH-08")
async def test_the_server_converts_through_the_manager(
    environment: Environment, hooks: LocalWebhooks, sites: Websites
) -> None:
    client = environment.client()
    definition = hooks.definition(sites.current, sites.old)
    manager = make_manager(environment.config(), webhook=hooks.options)  # fmt: skip
    manager.webhooks.convert(
        sites.current, sites.old, samples=[sites.manifest(title="Shop", tier="large")]
    )
    async with manager.running():
        await environment.install_crds(definition)
        old = await client.create(sites.manifest(version="v1alpha1", headline="Shop/large"))
        assert old["spec"] == {"headline": "Shop/large", "port": 80}
        new = await client.get(sites.current, "shop", namespace="default")
        assert (new.spec.title, new.spec.tier) == ("Shop", "large")
        await client.create(sites.manifest("second", title="Second"))
        listed = await client.list(sites.old, "default")
        assert [item.spec.headline for item in listed] == ["Second", "Shop/large"]

        bad = sites.manifest("bad", version="v1alpha1", headline="x")
        bad["metadata"]["annotations"] = {"unconvertible": "yes"}
        with pytest.raises(APIError, match="bad is not to be converted"):
            await client.create(bad)
        crash = sites.manifest("crash", version="v1alpha1", headline="crash")
        with pytest.raises(APIError, match="internal error occurred during conversion"):
            await client.create(crash)
        panics = manager.metrics.registry.get_sample_value(
            "controller_runtime_conversion_webhook_panics_total"
        )
        assert panics is not None
        assert panics >= 1
        for name in ("shop", "second"):
            await client.delete(sites.current, name, namespace="default")
        await environment.uninstall_crds(definition)


@pytest.mark.criterion("WH-01")
async def test_a_kind_without_a_class_and_both_versions_of_reviews(
    environment: Environment, hooks: LocalWebhooks, sites: Websites
) -> None:
    """The server is told to prefer the older reviews; it is answered in them where it knows them."""
    client = environment.client()
    await environment.install_crds(sites.current)
    await hooks.install(sites.current)
    configurations = GroupVersionKind(
        "admissionregistration.k8s.io", "v1", "ValidatingWebhookConfiguration"
    )
    mapping = sites.current.mapping()
    name = f"v1.{mapping.plural}.{mapping.gvk.group}"
    patch = [
        {"op": "replace", "path": "/webhooks/0/admissionReviewVersions", "value": ["v1beta1", "v1"]}
    ]
    await client.patch(configurations, name, patch, type=PatchType.JSON)
    async with serving(environment, hooks.options, sites.current):
        await until_called(client, sites)
        await client.create(sites.manifest(title="Shop", tier="large"), dry_run=True)
    await environment.uninstall_crds(sites.current)


@pytest.mark.criterion("WH-09")
async def test_a_mounted_certificate_is_replaced_while_requests_run(
    environment: Environment, hooks: LocalWebhooks, sites: Websites
) -> None:
    client = environment.client()
    await environment.install_crds(sites.current)
    await hooks.install(sites.current)
    async with serving(environment, hooks.options, sites.current):
        await until_called(client, sites)
        first = await handshake(hooks.options.port)
        hooks.renew()
        requests, served = 0, first
        async with asyncio.timeout(60):
            while served == first or requests < 20:
                made = await client.create(sites.manifest(title="Shop"), dry_run=True)
                assert made["spec"]["tier"] == "small"
                requests += 1
                served = await handshake(hooks.options.port)
        for _ in range(10):
            await client.create(sites.manifest(title="Shop"), dry_run=True)
    await environment.uninstall_crds(sites.current)

"""D-23: the readiness of a manager names what it waits for and the server does not have."""

from __future__ import annotations

import secrets

import pytest

from ctrlruntime.envtest import Environment
from ctrlruntime.envtest.local_webhooks import LocalWebhooks
from ctrlruntime.generate import webhook_configurations, webhooks_of
from ctrlruntime.generate.crd import crd_of
from ctrlruntime.generate.webhook import webhook_conversion
from ctrlruntime.manager import Manager
from ctrlruntime.manager.health import CheckFailed
from ctrlruntime.webhook.injection import CRD, VALIDATING
from ctrlruntime.webhook.options import WebhookOptions
from tests.manager.support import manager
from tests.manager.test_manager import get
from tests.support.manager_harness import make_manager
from tests.support.waiting import eventually
from tests.webhook.webhook_kinds import Websites

pytestmark = pytest.mark.criterion("D-23")


async def missing(serving: Manager) -> str:
    """Return what the check of the webhooks reports."""
    try:
        await serving.webhooks.check()
    except CheckFailed as failed:
        return str(failed)
    return ""


async def test_d_23_each_configuration_and_crd_is_named_until_it_is_there_and_once_it_goes(
    environment: Environment, sites: Websites
) -> None:
    client, name = environment.client(), f"checks-{secrets.token_hex(4)}"
    definition = crd_of([sites.current, sites.old])
    definition["spec"]["conversion"] = webhook_conversion()
    crd = definition["metadata"]["name"]
    options = WebhookOptions(
        host="127.0.0.1", port=0, secret_namespace="default", validating_configurations=(name,)
    )
    serving = make_manager(environment.config(), webhook=options)
    serving.webhooks.register(sites.current)
    serving.webhooks.convert(sites.current, sites.old)
    async with serving.running():
        both = f"ValidatingWebhookConfiguration {name}, CustomResourceDefinition {crd}. Apply what"
        await eventually(lambda: missing(serving), lambda text: both in text)
        await environment.install_crds(definition)
        await eventually(lambda: missing(serving), lambda text: crd not in text and name in text)
        _, made = webhook_configurations(webhooks_of(sites.current), validating_name=name)
        await client.create(made)
        await eventually(lambda: missing(serving), lambda text: text == "")
        await client.delete(VALIDATING, name)
        assert name in await eventually(lambda: missing(serving))
        await client.delete(CRD, crd)


@pytest.mark.parametrize("environment", ["embedded"], indirect=True)
async def test_d_23_a_crd_is_named_where_the_certificate_is_mounted(
    environment: Environment, hooks: LocalWebhooks, sites: Websites
) -> None:
    serving = make_manager(environment.config(), webhook=hooks.options)
    serving.webhooks.convert(sites.current, sites.old)
    async with serving.running():
        name = crd_of([sites.current, sites.old])["metadata"]["name"]
        assert name in await eventually(lambda: missing(serving))


@pytest.mark.parametrize("environment", ["embedded"], indirect=True)
async def test_d_23_readyz_names_a_kind_that_has_no_crd_yet(
    environment: Environment, sites: Websites
) -> None:
    subject = manager(environment.config())
    subject.cache.declare(sites.current)
    async with subject.running():
        status, text = await get(subject.health_port, "/readyz?verbose")
        assert (status, "Kind=Website" in text) == (200, True)
        assert "[+]caches ok: waiting for the CRD of " in text

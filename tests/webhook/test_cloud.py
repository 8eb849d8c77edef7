"""What is refused when a FleetRollout or an Instance is written: the message names the field and the fix."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest

from apis.cloud import FleetRolloutSpec, Instance
from apis.cloud.fleetrollout import FleetRollout
from ctrlruntime.client.client import Client
from ctrlruntime.client.errors import Invalid
from ctrlruntime.envtest import Environment
from ctrlruntime.envtest.local_webhooks import LocalWebhooks
from ctrlruntime.generate import webhook_configurations
from internal.cloud.admission import shrinking_waves
from internal.cloud.labels import ALLOW_VERSION
from manager.controllers.cloud_admission import add_cloud_admission, webhooks
from manager.controllers.cloud_options import CloudOptions
from tests.support.manager_harness import make_manager
from tests.support.waiting import eventually
from tests.webhook.patient import patient

pytestmark = pytest.mark.criterion("RO-FLEET-ADMISSION")

MARS = {"schedule": "0 3 * * *", "duration": "2h", "timeZone": "Mars/Olympus"}
SOON = {"schedule": "every day", "duration": "2h"}


def rollout(**spec: object) -> dict[str, Any]:
    return {
        "apiVersion": FleetRollout.gvk().api_version,
        "kind": "FleetRollout",
        "metadata": {"name": "release", "namespace": "default"},
        "spec": {"targetVersion": "5.3.0", **spec},
    }


@pytest.mark.criterion("G-C5")
async def test_what_could_not_be_carried_out_is_refused_field_by_field(
    environment: Environment, hooks: LocalWebhooks
) -> None:
    client = environment.client()
    await environment.install_crds(FleetRollout, Instance)
    configurations = webhook_configurations(webhooks(), validating_name="cloud-admission")
    await hooks.install(*patient(configurations))
    manager = make_manager(environment.config("manager"), webhook=hooks.options)
    add_cloud_admission(manager, CloudOptions())

    async def refused(manifest: dict[str, Any]) -> list[tuple[str, str]]:
        with pytest.raises(Invalid) as caught:
            await client.create(manifest, dry_run=True)
        return [(cause.field, cause.message) for cause in caught.value.causes]

    async with manager.running():

        async def called() -> bool:
            with contextlib.suppress(Invalid):
                await client.create(rollout(maintenanceWindows=[MARS]), dry_run=True)
                return False
            return True

        await eventually(called)
        zone, cron = await refused(rollout(maintenanceWindows=[MARS, SOON]))
        assert zone[0] == "spec.maintenanceWindows[0].timeZone"
        assert "Mars/Olympus" in zone[1]
        assert cron[0] == "spec.maintenanceWindows[1].schedule"
        waves = [{"name": "first", "percent": 20}, {"name": "second", "percent": 10}]
        ((field, message),) = await refused(rollout(waves=waves))
        assert field == "spec.waves[1].percent"
        assert "write 20 or more" in message
        hook = {"name": "orders", "hook": {"url": "http://user:secret@orders"}}
        ((field, message),) = await refused(rollout(healthChecks=[hook]))
        assert field == "spec.healthChecks[0].hook.url"
        assert "without user" in message
        assert "secret" not in message
        head = {"apiVersion": Instance.gvk().api_version, "kind": "Instance"}
        metadata = {"name": "acme", "namespace": "default"}
        spec = {"version": "5.2.0", "maintenanceWindows": [MARS]}
        ((field, _),) = await refused({**head, "metadata": metadata, "spec": spec})
        assert field == "spec.maintenanceWindows[0].timeZone"
        often = {"version": "5.2.0", "driftDetection": {"schedule": "every day"}}
        ((field, message),) = await refused({**head, "metadata": metadata, "spec": often})
        assert field == "spec.driftDetection.schedule"
        assert "five" in message
        zone_of_mars = {"schedule": "@daily", "timeZone": "Mars/Olympus"}
        elsewhere = {"version": "5.2.0", "driftDetection": zone_of_mars}
        ((field, _),) = await refused({**head, "metadata": metadata, "spec": elsewhere})
        assert field == "spec.driftDetection.timeZone"
        await client.create(rollout(waves=[*reversed(waves)]), dry_run=True)
        await client.create({**head, "metadata": metadata, "spec": {"version": "5.2.0"}})
        ((field, message),) = await refused_change(client, "5.1.0")
        assert field == "spec.version"
        assert f"{ALLOW_VERSION}=5.1.0" in message
        await change(client, "5.3.0")
        await change(client, "5.1.0", {ALLOW_VERSION: "5.1.0"})


async def change(client: Client, version: str, annotations: dict[str, str] | None = None) -> None:
    patch = {"metadata": {"annotations": annotations}, "spec": {"version": version}}
    await client.patch(Instance, "acme", patch, namespace="default", dry_run=True)


async def refused_change(client: Client, version: str) -> list[tuple[str, str]]:
    with pytest.raises(Invalid) as caught:
        await change(client, version)
    return [(cause.field, cause.message) for cause in caught.value.causes]


def test_a_wave_that_does_not_name_a_group_of_an_earlier_one_is_no_step_back() -> None:
    waves = [
        {"name": "internal", "groups": {"internal": 100}},
        {"name": "trial", "groups": {"trial": 50}},
        {"name": "all", "groups": {"trial": 40, "internal": 100}},
    ]
    spec = FleetRolloutSpec.model_validate({"targetVersion": "2", "waves": waves})
    ((field, share, message),) = shrinking_waves(spec)
    assert (field, share) == ("spec.waves[2].groups[trial]", 40)
    assert "'trial' has 50 percent" in message

"""Stacks are deployed to labelled namespaces, one for each data plane, and are healthy when their controllers hold the Lease."""

from __future__ import annotations

from typing import Any

import pytest

from apis.fleet.labels import ADMISSION_URL, KUBECONFIG_PATH, KUBECONFIG_SECRET
from internal.fleet.labels import ADMISSION, KUBECONFIG_HASH
from internal.fleet.plane_check import NAMESPACE

from .harness import OBJECTS, SCALE, WORKLOADS, Hub, deployed, eventually, planes


@pytest.mark.criterion("FLEET-R6")
async def test_r06_three_workloads_are_deployed_to_each_labelled_namespace() -> None:
    async with Hub.running() as hub, planes(2) as (east, west), hub.operator():
        await hub.configure(**SCALE)
        await deployed(hub, east=east, west=west)
        for name, plane in (("east", east), ("west", west)):
            assert await hub.objects(name) == OBJECTS
            assert await hub.is_target(name)
            assert await hub.identity(name) == await plane.identity()
        assert await hub.condition("Ready") == (
            "True",
            "SuccessfulDeployment",
            "2 target namespace(s) deployed successfully",
        )
        assert {entry.message for entry in await hub.entries()} == {
            "Namespace deployed successfully"
        }


@pytest.mark.criterion("FLEET-R7")
async def test_r07_the_secret_is_mounted_in_each_pod_of_each_workload() -> None:
    async with Hub.running() as hub, planes(1) as (east,), hub.operator():
        await hub.configure(**SCALE)
        await deployed(hub, east=east)
        for mapping, workload, _ in WORKLOADS:
            found: Any = await hub.client.get(mapping, workload, namespace="east")
            template = found["spec"]["template"]
            (volume,) = template["spec"]["volumes"]
            assert volume["secret"]["secretName"] == KUBECONFIG_SECRET
            for container in template["spec"]["containers"]:
                (mount,) = container["volumeMounts"]
                assert mount["name"] == volume["name"]
                assert KUBECONFIG_PATH.startswith(mount["mountPath"])
                assert f"--data-plane-kubeconfig={KUBECONFIG_PATH}" in container["args"]
                assert f"--data-plane-id={await east.identity()}" in container["args"]
            assert len(template["metadata"]["annotations"][KUBECONFIG_HASH]) == 32


async def test_the_annotation_admission_url_rolls_the_admission_pods_and_a_bad_one_is_reported() -> (
    None
):
    async with Hub.running() as hub, planes(1) as (east,), hub.operator():
        await hub.configure(**SCALE)
        await deployed(hub, east=east)

        async def arguments() -> list[str]:
            (mapping,) = {item[0] for item in WORKLOADS if item[1] == ADMISSION}
            found: Any = await hub.client.get(mapping, ADMISSION, namespace="east")
            return list(found["spec"]["template"]["spec"]["containers"][0]["args"])

        async def annotate(value: str | None) -> None:
            patch = {"metadata": {"annotations": {ADMISSION_URL: value}}}
            await hub.client.patch(NAMESPACE, "east", patch)

        await annotate("https://admission.example.com:9443/")
        url = "--admission-url=https://admission.example.com:9443"

        async def is_rolled() -> bool:
            return url in await arguments()

        await eventually(is_rolled)
        await annotate("http://admission.example.com")
        await hub.until(east="DeploymentFailure")
        assert "admission-url: write https" in await hub.message("east")
        assert not [each for each in await arguments() if "admission-url" in each]
        await annotate(None)
        await hub.until(east="SuccessfulDeployment")


@pytest.mark.criterion("FLEET-R5")
async def test_r05_without_a_secret_nothing_is_deployed() -> None:
    async with Hub.running() as hub, hub.operator():
        await hub.configure(**SCALE)
        await hub.add("east", None)
        await hub.until(east="KubeconfigSecretMissing")
        assert (
            await hub.message("east")
            == "Data plane kubeconfig secret data-plane-kubeconfig is missing"
        )
        assert await hub.objects("east") == set()
        assert await hub.is_target("east")


async def test_a_stack_whose_pods_are_missing_is_not_available() -> None:
    async with Hub.running() as hub, planes(1) as (east,), hub.operator():
        await hub.configure(**SCALE)
        await hub.add("east", east)
        await hub.until(east="StackNotAvailable")
        assert "fleet-controllers has 0 of 2 Pods" in await hub.message("east")
        await hub.make_available("east")

        async def waits_for_lease() -> bool:
            return "hold the Lease" in await hub.message("east")

        await eventually(waits_for_lease)
        await east.renew()
        await hub.until(east="SuccessfulDeployment")
        mapping, workload, _ = WORKLOADS[0]
        late = {"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded"}
        live = await hub.client.get(mapping, workload, namespace="east")
        status = {"observedGeneration": live["metadata"]["generation"], "conditions": [late]}
        await hub.client.patch_status(mapping, workload, {"status": status}, namespace="east")
        await hub.until(east="StackNotAvailable")  # of a change, while the former Pods run
        assert "fleet-controllers has 2 of 2 Pods (its rollout exceeded" in await hub.message(
            "east"
        )

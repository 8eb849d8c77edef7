"""The steps of kopf's tutorial, and two that its handlers do not survive."""

from evc import CLAIM, EphemeralVolumeClaim, setup

from ctrlruntime.envtest.eventually import eventually


def with_size(size):
    return {"spec": {"resources": {"requests": {"storage": size}}}}


async def test_the_claim_follows_its_object(run_manager, envtest_client, namespace):
    await run_manager(setup, EphemeralVolumeClaim)
    evc = {"metadata": {"name": "my-claim", "namespace": namespace}, "spec": {"size": "1Gi"}}
    await envtest_client.create(EphemeralVolumeClaim.from_manifest(evc))
    await eventually(envtest_client, CLAIM, "my-claim", with_size("1Gi"), namespace=namespace)

    label = {"metadata": {"labels": {"application": "some-app"}}}
    await envtest_client.patch(EphemeralVolumeClaim, "my-claim", label, namespace=namespace)
    await eventually(envtest_client, CLAIM, "my-claim", label, namespace=namespace)


async def test_a_claim_that_was_deleted_by_hand_comes_back(run_manager, envtest_client, namespace):
    await run_manager(setup, EphemeralVolumeClaim)
    evc = {"metadata": {"name": "my-claim", "namespace": namespace}, "spec": {"size": "1Gi"}}
    await envtest_client.create(EphemeralVolumeClaim.from_manifest(evc))
    await eventually(envtest_client, CLAIM, "my-claim", with_size("1Gi"), namespace=namespace)
    first = await envtest_client.get(CLAIM, "my-claim", namespace=namespace)
    patch = {"metadata": {"finalizers": None}}
    await envtest_client.delete(CLAIM, "my-claim", namespace=namespace)
    if first["metadata"].get("finalizers"):
        await envtest_client.patch(CLAIM, "my-claim", patch, namespace=namespace)
    await eventually(envtest_client, CLAIM, "my-claim", with_size("1Gi"), namespace=namespace)
    again = await envtest_client.get(CLAIM, "my-claim", namespace=namespace)
    assert again["metadata"]["uid"] != first["metadata"]["uid"]

"""A Secret that an object names is used for a purpose only with the label of it (S-F5)."""

from __future__ import annotations

import re

import pytest

from apis.references import SecretKeyRef
from internal.named_secrets import SECRET, NamedKey, Purpose, labelled_secrets
from tests.cloud.taskdriver.harness import NAMESPACE, TaskDriverHarness

pytestmark = pytest.mark.criterion("S-F5")
COMMAND = re.compile(r"kubectl -n (\S+) label secret (\S+) (\S+)=(\S+)$")
OF_TASKS = [each for each in Purpose if each is not Purpose.DATABASE]


async def make_secret(harness: TaskDriverHarness, *labels: str) -> None:
    metadata = {
        "name": "payroll",
        "namespace": NAMESPACE,
        "labels": dict.fromkeys(map(str, labels), "true"),
    }
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata}
    await harness.admin.create({**secret, "stringData": {"k": "v", "other": "w"}})


@pytest.mark.parametrize("key", ["k", None], ids=["one key", "all keys"])
@pytest.mark.parametrize("purpose", OF_TASKS)
async def test_no_run_begins_until_the_command_of_the_condition_was_run(
    harness: TaskDriverHarness, purpose: Purpose, key: str | None
) -> None:
    await make_secret(harness, *(each for each in Purpose if each is not purpose))
    await harness.make()
    secrets = [NamedKey("payroll", key, purpose)]
    async with harness.life() as life:
        progress = await life.drive(secrets=secrets)
        assert harness.outside.runs == {}
        assert progress.requeue_after is not None, "it is looked at again"
        (ready,) = [c for c in progress.status.conditions if c.type == "Ready"]
        assert (ready.status, ready.reason) == ("False", "SecretNotLabelled")
        command = COMMAND.search(ready.message)
        assert command is not None, ready.message
        namespace, name, label, value = command.groups()
        patch = {"metadata": {"labels": {label: value}}}
        await harness.admin.patch(SECRET, name, patch, namespace=namespace)
        await life.drive(secrets=secrets)
    (request,) = harness.outside.requests.values()
    keys = ["k", "other"] if key is None else [key]
    assert list(request.secrets) == [SecretKeyRef(name="payroll", key=each) for each in keys]


async def test_a_label_that_is_taken_off_before_an_interrupted_start_refuses_the_run(
    harness: TaskDriverHarness,
) -> None:
    await make_secret(harness, Purpose.REQUESTS)
    await harness.make()
    secrets = [NamedKey("payroll", "k", Purpose.REQUESTS)]
    harness.outside.fail.add("start")
    async with harness.life() as life:
        with pytest.raises(Exception):  # noqa: B017 - the provider's
            await life.drive(secrets=secrets)
    patch = {"metadata": {"labels": {Purpose.REQUESTS.value: None}}}
    await harness.admin.patch(SECRET, "payroll", patch, namespace=NAMESPACE)
    async with harness.life() as life:
        progress = await life.drive(secrets=secrets)
    assert harness.outside.begun.total() == 0
    assert "kubectl -n default label secret payroll" in progress.status.message


async def test_a_missing_secret_that_comes_later_is_not_given_to_the_run(
    harness: TaskDriverHarness,
) -> None:
    await harness.make()
    async with harness.life() as life:
        await life.drive(secrets=[NamedKey("payroll", "k", Purpose.REQUESTS)])
    (request,) = harness.outside.requests.values()
    assert list(request.secrets) == []


@pytest.mark.parametrize("label", [None, *Purpose])
async def test_a_provider_reads_labelled_secrets_alone(
    harness: TaskDriverHarness, label: Purpose | None
) -> None:
    await make_secret(harness, *([] if label is None else [label]))
    found = await labelled_secrets(harness.admin)(NAMESPACE, "payroll")
    assert found == (None if label is None else {"k": b"v", "other": b"w"})


async def test_outputs_may_open_clusters_also_those_of_an_earlier_version(
    harness: TaskDriverHarness,
) -> None:
    await harness.make()
    async with harness.life() as life:
        await life.drive()
        await life.finish(secret_outputs={"kubeconfig": "hidden"})
    secret = await harness.admin.get(SECRET, "acme-outputs", namespace=NAMESPACE)
    assert secret["metadata"]["labels"][Purpose.CLUSTER] == "true"

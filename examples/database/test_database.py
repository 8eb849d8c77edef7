"""With webhooks that the API server really calls. The test does what a cluster does with StatefulSets and Jobs."""

import pytest
from database import FINALIZER, Database, OldDatabase, setup

from ctrlruntime import Invalid, Manager, ManagerOptions
from ctrlruntime.clock import utc_now
from ctrlruntime.envtest import Environment
from ctrlruntime.envtest.eventually import eventually, eventually_gone
from ctrlruntime.envtest.local_webhooks import LocalWebhooks
from ctrlruntime.kinds.apps.v1 import StatefulSet
from ctrlruntime.kinds.batch.v1 import Job
from ctrlruntime.kinds.core.v1 import Secret, Service

PLACE = {"name": "orders", "namespace": "default"}


def database(version="v2", **spec):
    head = {"apiVersion": f"data.example.com/{version}", "kind": "Database", "metadata": PLACE}
    return {**head, "spec": {"storage": {"size": "1Gi"}, **spec} if version == "v2" else spec}


def condition(kind, status, reason):
    return {"status": {"conditions": [{"type": kind, "status": status, "reason": reason}]}}


async def job_ends(client, kind):
    """Write what the Job controller does, in the two steps that the server asks for."""
    job = await eventually(client, Job, "orders-last-backup", namespace="default")
    now = utc_now().isoformat(timespec="seconds").replace("+00:00", "Z")
    head = {"status": "True", "lastTransitionTime": now, "lastProbeTime": now}
    met = {"Complete": "SuccessCriteriaMet", "Failed": "FailureTarget"}[kind]
    conditions = [{**head, "type": met}]
    status = {"startTime": now, "conditions": conditions}
    await client.patch_status(Job, job.metadata.name, {"status": status}, namespace="default")
    conditions.append({**head, "type": kind})
    if kind == "Complete":
        status["completionTime"] = now
    await client.patch_status(Job, job.metadata.name, {"status": status}, namespace="default")
    return job


@pytest.fixture
async def client(envtest_options):
    """Run the operator, and return a client."""
    async with Environment(**envtest_options) as env, LocalWebhooks(env) as hooks:
        await env.install_crds(hooks.definition(Database, OldDatabase))
        await hooks.install(Database)
        options = ManagerOptions(
            webhook=hooks.options, metrics_bind_address="0", health_bind_address="0"
        )
        manager = Manager(env.config(), options)
        setup(manager)
        async with manager.running():
            yield env.client()


async def test_a_database_is_made_and_goes_after_its_last_backup(client):
    await client.create(database(replicas=2))
    waits = condition("Ready", "False", "Waiting")
    made = await eventually(client, Database, "orders", waits, namespace="default")
    assert made.metadata.finalizers == [FINALIZER]
    assert made.spec.engine == 17
    secret = await client.get(Secret, "orders", namespace="default")
    assert len(secret.data["password"]) > 32
    await client.get(Service, "orders", namespace="default")
    found = await client.get(StatefulSet, "orders", namespace="default")
    assert found.spec.replicas == 2

    status = {"status": {"replicas": 2, "readyReplicas": 2}}
    await client.patch_status(StatefulSet, "orders", status, namespace="default")
    await eventually(
        client, Database, "orders", condition("Ready", "True", "AllReady"), namespace="default"
    )
    again = await client.get(Secret, "orders", namespace="default")
    assert again.data == secret.data

    await client.delete(Database, "orders", namespace="default")
    failed = await job_ends(client, "Failed")
    told = condition("BackedUp", "False", "Failed")
    seen = await eventually(client, Database, "orders", told, namespace="default")
    assert "kubectl delete job orders-last-backup -n default" in str(seen.status.conditions)
    await client.delete(Job, failed.metadata.name, namespace="default", propagation="Background")
    await eventually(
        client, Database, "orders", condition("BackedUp", "False", "Running"), namespace="default"
    )
    await job_ends(client, "Complete")
    await eventually_gone(client, Database, "orders", namespace="default")


async def test_a_database_that_needs_no_backup_goes_at_once(client):
    await client.create(database(lastBackup="Skip"))
    finalized = {"metadata": {"finalizers": [FINALIZER]}}
    await eventually(client, Database, "orders", finalized, namespace="default")
    await client.delete(Database, "orders", namespace="default")
    await eventually_gone(client, Database, "orders", namespace="default")
    assert await client.list(Job, "default") == []


async def test_what_cannot_be_done_is_refused_with_its_field(client):
    with pytest.raises(Invalid) as refused:
        await client.create(database(engine=9))
    assert [cause.field for cause in refused.value.causes] == ["spec.engine"]
    await client.create(database())
    for patch, field in (
        ({"engine": 16}, "spec.engine"),
        ({"storage": {"size": "2Gi"}}, "spec.storage"),
    ):
        with pytest.raises(Invalid) as refused:
            await client.patch(Database, "orders", {"spec": patch}, namespace="default")
        assert [cause.field for cause in refused.value.causes] == [field]


async def test_nothing_is_lost_between_the_versions(client):
    await client.create(database(storage={"size": "1Gi", "className": "fast"}, lastBackup="Skip"))
    old = await client.get(OldDatabase, "orders", namespace="default")
    assert old.spec.size == "1Gi"
    await client.patch(OldDatabase, "orders", {"spec": {"replicas": 3}}, namespace="default")
    new = await client.get(Database, "orders", namespace="default")
    assert new.spec.replicas == 3
    assert new.spec.storage.class_name == "fast"
    assert new.spec.last_backup == "Skip"


async def test_the_old_version_gets_the_same_defaults_and_checks(client):
    made = await client.create(database("v1", size="1Gi"))
    assert made["spec"]["engine"] == 17
    with pytest.raises(Invalid):
        await client.patch(OldDatabase, "orders", {"spec": {"size": "2Gi"}}, namespace="default")

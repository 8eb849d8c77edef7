"""A topic from its creation to its deletion, paused in between."""

from topic import Topic, Topics, setup

from ctrlruntime.envtest.eventually import eventually, eventually_gone


async def test_a_topic_is_made_paused_and_goes_once_it_is_not_read(
    run_manager, envtest_client, namespace
):
    topics = Topics({}, {})
    await run_manager(lambda manager: setup(manager, topics), Topic)
    place = {"name": "orders", "namespace": namespace}

    async def shows(kind, status, reason):
        condition = {"type": kind, "status": status, "reason": reason}
        wanted = {"status": {"conditions": [condition]}}
        await eventually(envtest_client, Topic, "orders", wanted, namespace=namespace)

    async def change(**patch):
        await envtest_client.patch(Topic, "orders", patch, namespace=namespace)

    made = await envtest_client.create(
        Topic.from_manifest({"metadata": place, "spec": {"partitions": 3}})
    )
    await shows("Ready", "True", "Reconciled")
    assert topics.broker == {made.metadata.uid: 3}

    await change(spec={"partitions": 2})
    await shows("Ready", "False", "CannotShrink")

    topics.readers[made.metadata.uid] = 1
    await change(metadata={"annotations": {"ctrlruntime.dev/paused": "true"}})
    await shows("Paused", "True", "PausedByAnnotation")
    await envtest_client.delete(Topic, "orders", namespace=namespace)
    await change(spec={"partitions": 5})
    await change(metadata={"annotations": {"ctrlruntime.dev/paused": None}})
    await shows("Ready", "False", "InUse")
    await shows("Paused", "False", "NotPaused")
    assert topics.broker == {made.metadata.uid: 3}

    topics.readers.clear()
    await change(metadata={"annotations": {"ctrlruntime.dev/reconcile-now": "1"}})
    await eventually_gone(envtest_client, Topic, "orders", namespace=namespace)
    assert topics.broker == {}

"""One process that holds every slot; four of them are in the suite of the library."""

from rooms import CONFIG_MAP, Room, setup

from ctrlruntime import ManagerOptions
from ctrlruntime.envtest.eventually import eventually
from ctrlruntime.sharding import ALL_SLOTS, SLOT_LABEL, ShardingOptions, slot_of


async def test_a_room_without_a_slot_gets_its_label_and_its_plate(
    run_manager, envtest_client, namespace
):
    sharding = ShardingOptions(group="rooms", namespace=namespace, slots=ALL_SLOTS)
    options = ManagerOptions(name="rooms", namespaces=(namespace,), sharding=sharding)
    await run_manager(setup, Room, options=options)
    head = {"metadata": {"name": "blue", "namespace": namespace}}
    await envtest_client.create(Room.from_manifest({**head, "spec": {"guests": 2}}))
    labels = {SLOT_LABEL: str(slot_of("blue", namespace=namespace))}
    expected = {"metadata": {"labels": labels}, "data": {"guests": "2"}}
    await eventually(envtest_client, CONFIG_MAP, "blue", expected, namespace=namespace)
    await eventually(
        envtest_client, Room, "blue", {"metadata": {"labels": labels}}, namespace=namespace
    )

"""A change of the FleetConfig that removes stacks of data planes waits for a person, as a set, once."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import partial

import pytest

from apis.fleet import FleetConfig
from apis.fleet.labels import DATA_PLANE, TARGET_NAMESPACE
from ctrlruntime.cache.entry import Entry, EntryDecoder
from internal.fleet.stack_removals import decide
from internal.fleet.status import INVALID
from internal.fleet.targets import TRUE, Mode

from .harness import NAMESPACE, OBJECTS, SCALE, Hub, deployed, eventually, namespace, planes
from .test_real_hub import real_hub

APPROVE = "fleet.ctrlruntime.dev/allow-delete"
NORMAL = {"targetNamespace": "switch-fleet"}


@asynccontextmanager
async def started(request: pytest.FixtureRequest, backend: str, *names: str) -> AsyncIterator[Hub]:
    """A hub on the embedded server, or on a real one, which is left without namespaces of these names."""
    if backend == "embedded":
        async with Hub.running() as hub:
            yield hub
        return
    async with real_hub(request.getfixturevalue("real_server")) as hub:
        yield hub
        for name in names:
            await hub.client.delete(NAMESPACE, name)


REAL = pytest.mark.xdist_group("real-server")
BACKENDS = ["embedded", pytest.param("real", marks=REAL)]


async def held(hub: Hub, *names: str) -> bool:
    status, _, message = await hub.condition("DeletionsHeld")
    return status == "True" and all(f"Namespace {name} (SpecChanged)" in message for name in names)


async def nothing_held(hub: Hub) -> bool:
    return (await hub.condition("DeletionsHeld"))[0] == "False"


async def is_invalid(hub: Hub) -> bool:
    status, reason, _ = await hub.condition("Ready")
    return (status, reason) == ("False", INVALID)


async def approve(hub: Hub) -> str:
    """Run the command that the condition shows; return its digest."""
    message = (await hub.condition("DeletionsHeld"))[2]
    found = re.search(rf"kubectl annotate fleetconfig fleet --overwrite {APPROVE}=(\w+)", message)
    assert found, message
    patch = {"metadata": {"annotations": {APPROVE: found[1]}}}
    await hub.client.patch(FleetConfig, "fleet", patch)
    return found[1]


@pytest.mark.criterion("G-F6")
@pytest.mark.criterion("G-T3")
@pytest.mark.parametrize("backend", BACKENDS)
async def test_a_switch_of_the_mode_removes_no_stacks_until_exactly_they_are_approved(
    backend: str, request: pytest.FixtureRequest
) -> None:
    east, west, fleet = "switch-east", "switch-west", "switch-fleet"
    names = (east, west, "switch-north", fleet)
    async with started(request, backend, *names) as hub, planes(2) as (first, second):
        async with hub.operator():
            await hub.configure(**SCALE)
            await deployed(hub, **{east: first, west: second})
            await hub.client.create(namespace(fleet))
            await hub.configure(**NORMAL)
            await hub.make_available(fleet)
            await hub.until(switch_fleet="SuccessfulDeployment")
            await eventually(partial(held, hub, east, west), hub.config)
            status, _, message = await hub.condition("TeardownComplete")
            assert status == "False"
            assert f"{east}: waits for an approval" in message
            await hub.configure(**SCALE)  # a mistake that is taken back: nothing has gone
            await eventually(partial(nothing_held, hub), hub.config)
            await hub.until_torn_down(fleet)
            assert await hub.objects(east) == await hub.objects(west) == OBJECTS
            await hub.configure(**NORMAL)
            await eventually(partial(held, hub, east, west), hub.config)
        async with hub.operator():
            # One of two loses its own label, and goes; what was held stays, though it is the only one by now.
            await hub.label(east, None)
            await hub.until_torn_down(east)
            await eventually(partial(held, hub, west), hub.config)
            assert await hub.objects(west) == OBJECTS
            used = await approve(hub)
            await hub.until_torn_down(west)
            await hub.configure(**SCALE)
            await hub.add("switch-north", None)
            await hub.run_stack(west, second)
            await hub.until(
                switch_west="SuccessfulDeployment", switch_north="KubeconfigSecretMissing"
            )
            await hub.configure(**NORMAL)  # the approval has counted once
            await eventually(partial(held, hub, west), hub.config)
            assert (await hub.config()).metadata.annotations == {APPROVE: used}
            assert await hub.objects(west) == OBJECTS
        # Neither what was held nor which approval was used is known without the status: an invalid spec hides no loss.
        await hub.configure(**SCALE, **NORMAL)
        await hub.label("switch-north", None)
        found = (await hub.config()).status.to_wire()
        await hub.client.patch_status(FleetConfig, "fleet", {"status": dict.fromkeys(found)})
        async with hub.operator():
            await eventually(partial(is_invalid, hub), hub.config)
            await hub.configure(**NORMAL)
            await eventually(partial(held, hub, west), hub.config)
            assert await hub.objects(west) == OBJECTS


@pytest.mark.criterion("G-F6")
@pytest.mark.parametrize(
    ("backend", "evidence"),
    [
        ("embedded", "of what was held"),
        ("embedded", "of an approval"),
        ("embedded", "from before any"),
        pytest.param("real", "of what was held", marks=REAL),
    ],
)
async def test_an_older_status_that_is_put_back_lets_no_stack_go(
    backend: str, evidence: str, request: pytest.FixtureRequest
) -> None:
    """While no operator runs: from before a set was held, or with stacks that were permitted to go then."""
    names = east, west, fleet = "older-east", "older-west", "older-fleet"
    normal = {"targetNamespace": fleet}
    async with started(request, backend, *names) as hub, planes(2) as (first, second):
        async with hub.operator():
            await hub.configure(**SCALE)
            await deployed(hub, **{east: first, west: second})
            await hub.client.create(namespace(fleet))
            older = (await hub.config()).status.to_wire()
            if evidence == "from before any":  # as a version before left it
                older = {key: older[key] for key in older if key != "removals"}
            await hub.configure(**normal)
            await eventually(partial(held, hub, east, west), hub.config)
            if evidence == "of an approval":
                await approve(hub)
                await hub.until_torn_down(east, west)
                older = (await hub.config()).status.to_wire()  # as before the last of them was gone
                (at,) = older["removals"]["used"].values()
                uids = [(await hub.metadata(name))["uid"] for name in (east, west)]
                older["removals"]["approved"] = dict.fromkeys(uids, at)
                await hub.configure(**SCALE)
                await hub.run_stack(west, second)
                await hub.run_stack(east, first)
                await hub.until(
                    older_east="SuccessfulDeployment", older_west="SuccessfulDeployment"
                )
                await hub.configure(**normal)
                await eventually(partial(held, hub, east, west), hub.config)
        found = await hub.client.get(FleetConfig.mapping(), "fleet")
        await hub.client.update({**found, "status": older}, subresource="status")
        if evidence != "of an approval":
            await hub.label(east, None)
        async with hub.operator():
            await eventually(partial(held, hub, west), hub.config)
            assert await hub.objects(west) == OBJECTS
            await approve(hub)
            await hub.until_torn_down(east, west)


@pytest.mark.criterion("G-F6")
async def test_two_changes_of_the_mode_remove_two_stacks_with_an_approval_alone() -> None:
    """Each change removes one; of the second one the day's budget is spent, also by the next operator."""
    east, west, fleet = "switch-east", "switch-west", "switch-fleet"
    async with Hub.running() as hub, planes(2) as (first, second):
        async with hub.operator():
            await hub.configure(**SCALE)
            await deployed(hub, **{east: first, west: second})
            await hub.client.create(namespace(fleet))
            await hub.configure(targetNamespace=east)
            await hub.until_torn_down(west)
        async with hub.operator():
            await hub.configure(**NORMAL)
            await eventually(partial(held, hub, east), hub.config)
            assert await hub.objects(east)
            await approve(hub)
            await hub.until_torn_down(east)


@pytest.mark.criterion("G-F1")
def test_g_f1_a_hold_counts_the_stacks_that_went_before_among_the_members() -> None:
    """A namespace loses its label with its stack: without it two of three would be a larger share than two of four."""
    now = datetime(2026, 1, 2, tzinfo=UTC)

    def there(name: str, **labels: str) -> Entry:
        manifest = namespace(name, **{TARGET_NAMESPACE: TRUE}, **labels)
        manifest["metadata"]["uid"] = f"uid-{name}"
        return EntryDecoder(NAMESPACE.gvk).decode_manifest(manifest)

    stacks = [there("east"), there("north"), there("west", **{DATA_PLANE: TRUE})]
    before = {"members": {"Namespace south": int(now.timestamp()) - 60}, "saved": 1}
    config = FleetConfig.model_validate(
        {"metadata": {"name": "fleet", "uid": "u"}, "spec": {}, "status": {"removals": before}}
    )
    decided = decide(config, stacks, Mode(namespace="fleet"), now)
    assert not decided.lets_go
    message = decided.conditions[0].message
    assert "2 of 4 members would have lost an object within 24 h; 1 may" in message

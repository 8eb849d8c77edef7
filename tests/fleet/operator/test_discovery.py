"""Which namespaces get a stack, in which order things come, and what a contradiction does."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import AsyncIterator

import pytest

from apis.fleet import FleetConfig
from ctrlruntime.client.errors import Invalid
from tests.cluster.support import silent_server

from .harness import (
    EVENT,
    OBJECTS,
    SCALE,
    DataPlane,
    Hub,
    config,
    deployed,
    eventually,
    kubeconfig,
    namespace,
    planes,
)


async def test_there_is_one_fleetconfig_and_another_name_is_refused() -> None:
    async with Hub.running() as hub:
        other = {**config(**SCALE), "metadata": {"name": "second"}}
        with pytest.raises(Invalid, match="there is one FleetConfig only: name it fleet"):
            await hub.client.create(other)
        await hub.client.create(config(**SCALE))
        assert [each.metadata.name for each in await hub.client.list(FleetConfig)] == ["fleet"]


@pytest.mark.criterion("FLEET-R2")
async def test_r02_a_contradicting_configuration_changes_nothing() -> None:
    async with Hub.running() as hub, planes(2) as (east, west), hub.operator():
        await hub.configure(**SCALE)
        await deployed(hub, east=east)
        mark = hub.environment.proxy.log.mark()
        before = await hub.entries()
        await hub.configure(**SCALE, targetNamespace="here")

        async def refused() -> bool:
            return (await hub.condition("Ready"))[1] == "InvalidConfiguration"

        await eventually(refused)
        await hub.add("west", west)
        await hub.client.create(namespace("here"))
        await hub.label("east", None)
        # The next of its writes is to come, and no other was before it.
        await hub.configure(**SCALE)
        await hub.until_torn_down("east")
        await hub.run_stack("west", west)
        await hub.until(west="SuccessfulDeployment")
        assert await hub.objects("here") == set()
        log = hub.environment.proxy.log.entries(mark)
        first = next(each for each in log if each.user == "operator" and each.verb == "patch")
        assert first.resource == "fleetconfigs.fleet.ctrlruntime.dev/status"
        assert [entry.name for entry in before] == ["east"]


@pytest.mark.criterion("FLEET-R3", "FLEET-R31")
async def test_r03_r31_only_labelled_namespaces_are_found() -> None:
    async with Hub.running() as hub, planes(1) as (east,), hub.operator():
        await hub.configure(**SCALE)
        for name, value in (("upper", "True"), ("off", "false")):
            await hub.add(name, east, label=value)
        await hub.client.create(namespace("bare"))
        await hub.write_secret("bare", east.kubeconfig())
        await deployed(hub, east=east)
        for name in ("upper", "off", "bare"):
            assert await hub.objects(name) == set()
            assert not await hub.is_target(name)


async def test_a_label_with_another_value_is_reported_with_what_to_do() -> None:
    async with Hub.running() as hub, hub.operator():
        await hub.configure(**SCALE)
        await hub.add("upper", None, label="True")

        async def reported() -> bool:
            events = await hub.client.list(EVENT, "default")
            notes = [each["note"] for each in events if each["reason"] == "LabelInvalid"]
            return len(notes) == 1 and notes[0].endswith('"True" and is ignored; write "true"')

        await eventually(reported)
        assert not await hub.is_target("upper")


@pytest.mark.criterion("FLEET-R4")
async def test_r04_the_namespace_is_marked_before_anything_is_made_there() -> None:
    async with Hub.running() as hub, planes(1) as (east,), hub.operator():
        await hub.configure(**SCALE)
        mark = hub.environment.proxy.log.mark()
        await deployed(hub, east=east)
        log = hub.environment.proxy.log.entries(mark)
        writes = [
            each.resource
            for each in log
            if each.user == "operator" and each.verb in {"patch", "apply", "create", "delete"}
        ]
        writes = [each for each in writes if "fleetconfigs" not in each and "events" not in each]
        assert writes[:2] == ["namespaces", "namespaces"]  # the label; then whose data plane it is
        # What the account reads, its Secrets, and the record of orphans.
        assert len(writes) == 2 + len(OBJECTS) + 3


@pytest.mark.criterion("FLEET-R8")
@pytest.mark.parametrize(
    "order", [*itertools.permutations(("namespace label", "secret", "config"))]
)
async def test_r08_every_order_ends_in_the_same_state(order: tuple[str, ...]) -> None:
    async with Hub.running() as hub, planes(1) as (east,), hub.operator():
        await hub.client.create(namespace("east"))
        for step in order:
            if step == "config":
                await hub.configure(**SCALE)
            elif step == "secret":
                await hub.write_secret("east", east.kubeconfig())
            else:
                await hub.label("east")
            if step == "namespace label" and order.index("config") < order.index(step):
                missing = order.index("secret") > order.index(step)
                if missing:
                    await hub.until(east="KubeconfigSecretMissing")
        await hub.run_stack("east", east)
        await hub.until(east="SuccessfulDeployment")
        assert await hub.objects("east") == OBJECTS


@pytest.mark.criterion("FLEET-R1", "FLEET-R18")
async def test_r18_without_scale_mode_there_is_one_stack_and_one_entry() -> None:
    async with Hub.running() as hub, hub.operator():
        await hub.configure()

        async def missed() -> bool:
            return await hub.reasons() == {"fleet": "DeploymentFailure"}

        await eventually(missed)
        assert "create it" in await hub.message("fleet")
        await hub.client.create(namespace("fleet"))
        await hub.make_available("fleet")
        await hub.until(fleet="SuccessfulDeployment")
        assert await hub.objects("fleet") == OBJECTS
        assert len(await hub.entries()) == 1


@pytest.mark.criterion("FLEET-R27")
async def test_r27_switching_modes_removes_the_old_stacks() -> None:
    async with Hub.running() as hub, planes(1) as (east,), hub.operator():
        await hub.client.create(namespace("fleet"))
        await hub.configure()
        await hub.make_available("fleet")
        await hub.until(fleet="SuccessfulDeployment")
        await hub.configure(**SCALE)
        await deployed(hub, east=east)
        await hub.until_torn_down("fleet")
        await hub.configure()
        await hub.make_available("fleet")
        await hub.until(fleet="SuccessfulDeployment")
        await hub.until_torn_down("east")
        assert await hub.objects("fleet") == OBJECTS


@pytest.mark.criterion("FLEET-R20")
async def test_r20_a_data_plane_that_does_not_answer_delays_no_other() -> None:
    async with (
        Hub.running() as hub,
        DataPlane.running() as east,
        silent() as address,
        hub.operator(concurrency=3),
    ):
        await hub.configure(**SCALE)
        for number in range(6):  # more than are worked on at once
            name = f"dead-{number}"
            await hub.client.create(namespace(name))
            await hub.write_secret(name, address)
            await hub.label(name)
        await hub.add("east", east)
        await hub.run_stack("east", east)

        async def healthy() -> bool:
            return (await hub.reasons()).get("east") == "SuccessfulDeployment"

        await eventually(healthy, hub.config)
        assert await hub.objects("east") == OBJECTS


@contextlib.asynccontextmanager
async def silent() -> AsyncIterator[str]:
    """The kubeconfig of a server that takes requests and never answers."""
    async with silent_server() as found:
        yield kubeconfig(found.host)

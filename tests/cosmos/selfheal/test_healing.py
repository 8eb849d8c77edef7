"""Self-healing against an API server, with nodes that answer over HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from apis.cosmos import CosmosFullNode
from ctrlruntime.envtest.proxy import Fail, Match
from tests.cosmos.selfheal.harness import POD, Harness, Namespace
from tests.support.waiting import eventually

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.xdist_group("self-healing")]

GIB = 1 << 30
SCALE: dict[str, Any] = {"usedSpacePercentage": 80, "increaseQuantity": "20%"}
HOURS = 3600


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def ward(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Harness]:
    async with Harness.start(tmp_path_factory.mktemp("ward")) as made:
        yield made
        assert made.refused() == []


@pytest_asyncio.fixture(loop_scope="module")
async def bed(ward: Harness) -> AsyncIterator[Namespace]:
    made = await ward.bed()
    yield made
    await made.discharge()


def fill(bed: Namespace, *ordinals: int, percent: int = 90) -> None:
    """Disks of these nodes are full to so much."""
    for ordinal in ordinals:
        bed.node(ordinal).disk_total = 100 * GIB
        bed.node(ordinal).disk_free = (100 - percent) * GIB


def scale(**more: object) -> dict[str, Any]:
    return {"pvcAutoScale": {**SCALE, **more}}


class TestDisks:
    async def test_full_ones_are_asked_to_grow_by_the_status(self, bed: Namespace) -> None:
        fill(bed, 0, 2)
        bed.node(1).disk_error = "not mounted"
        others = {"peers": ["id@peer:26656"], "scheduledSnapshotStatus": {"x": {"podCandidate": "hub-7"}}}  # fmt: skip
        await bed.admit(selfHeal=scale(), status=others)
        await bed.until_requested(pvc_hub_0="120Gi", pvc_hub_2="120Gi")
        found = await bed.get()
        asked = {each.requested_at for each in found.status.self_healing.pvc_auto_scaler.values()}
        assert asked == {bed.ward.clock.now()}
        assert found.status.peers == others["peers"]
        assert list(found.status.scheduled_snapshot_status) == ["x"]
        await bed.until_event("PVCAutoScale")
        await bed.ward.until_looked()
        events = await bed.events()
        assert {reason for reason, _ in events} == {"PVCAutoScale"}
        told = ", ".join(note for _, note in events)
        assert [each in told for each in ("pvc-hub-0 120Gi", "hub-1", "pvc-hub-2 120Gi")] == [
            True,
            False,
            True,
        ]
        assert bed.ward.comet.folders[bed.namespace, "hub-0"] == "/home/operator/cosmos"

    @pytest.mark.criterion("D5-3", "COSMOS-A5-4")
    async def test_at_the_ceiling_a_disk_is_asked_for_once(self, bed: Namespace) -> None:
        mark = bed.mark()
        fill(bed, 0)
        await bed.admit(selfHeal=scale(maxSize="110Gi", cooldownSeconds=0))
        await bed.until_requested(pvc_hub_0="110Gi")
        # The claim does not grow, and the controller looks again and again.
        bed.ward.clock.step(hours=1)
        await bed.ward.until_looked()
        fill(bed, 0, percent=99)
        await bed.ward.until_looked()
        assert [item.verb for item in bed.writes(mark)] == ["patch"]
        assert len([1 for reason, _ in await bed.events() if reason == "PVCAutoScale"]) == 1
        await bed.grow(0, "110Gi")
        await bed.ward.until_looked()
        assert len(bed.writes(mark)) == 1

    @pytest.mark.criterion("COSMOS-A5-5")
    async def test_the_next_request_waits_for_the_cooldown(self, bed: Namespace) -> None:
        fill(bed, 0)
        await bed.admit(selfHeal=scale())
        await bed.until_requested(pvc_hub_0="120Gi")
        await bed.grow(0, "120Gi")
        mark = bed.mark()
        bed.ward.clock.step(seconds=6 * HOURS - 1)
        await bed.ward.until_looked()
        assert bed.writes(mark) == []
        bed.ward.clock.step(seconds=1)
        await bed.until_requested(pvc_hub_0="144Gi")

    @pytest.mark.criterion("COSMOS-A5-6")
    async def test_a_class_that_cannot_expand_is_reported_once_and_nothing_asked(
        self, bed: Namespace
    ) -> None:
        fill(bed, 1)
        await bed.admit(selfHeal=scale(), storage_class="fixed")
        note = await bed.until_event("PVCAutoScaleCannotExpand")
        assert "pvc-hub-1" in note
        assert "StorageClass fixed does not let claims grow" in note
        fill(bed, 1, percent=95)
        await bed.ward.until_looked()
        assert len(await bed.events()) == 1
        assert await bed.requests() == {}

    @pytest.mark.criterion("COSMOS-A5-2")
    async def test_unknown_usage_is_reported_only_if_none_is_known(self, bed: Namespace) -> None:
        for ordinal in range(3):
            bed.node(ordinal).disk_error = "not mounted"
        await bed.admit(selfHeal=scale())
        note = await bed.until_event("PVCAutoScaleCollectUsage")
        assert "hub-0: The usage of the disk is not known" in note
        await bed.ward.until_looked()
        assert len(await bed.events()) == 1
        bed.node(1).disk_error = ""
        fill(bed, 1)
        await bed.until_requested(pvc_hub_1="120Gi")

    async def test_a_write_that_fails_is_reported_and_done_at_the_next_look(
        self, bed: Namespace
    ) -> None:
        proxy = bed.ward.environment.proxy
        match = Match(user="manager", verb="patch", namespace=bed.namespace)
        proxy.add(Fail(code=503), match)
        fill(bed, 0)
        await bed.admit(selfHeal=scale())
        await bed.until_event("PVCAutoScaleSignalResize")
        await bed.until_requested(pvc_hub_0="120Gi")

    @pytest.mark.criterion("COSMOS-A5-10")
    async def test_nothing_is_done_where_it_was_not_requested(self, bed: Namespace) -> None:
        mark = bed.mark()
        fill(bed, 0)
        bed.node(1).behind = 90
        await bed.admit()
        await bed.until_asked(2)
        assert bed.writes(mark) == []
        await bed.edit(selfHeal=scale())
        await bed.until_requested(pvc_hub_0="120Gi")


class TestFullDisks:
    @pytest.mark.criterion("N-A15")
    async def test_a_disk_at_its_ceiling_is_an_event_once_and_counted(self, bed: Namespace) -> None:
        fill(bed, 0, percent=97)
        await bed.admit(selfHeal=scale(maxSize="100Gi"))
        note = await bed.until_event("PVCAutoScaleAtCeiling")
        assert note.startswith("pvc-hub-0 is full and as large as selfHeal.pvcAutoScale.maxSize")
        assert bed.ward.sample("cosmos_autoscale_disks_at_ceiling") == 1
        fill(bed, 0, percent=98)
        await bed.ward.until_looked()
        assert len(await bed.events()) == 1
        await bed.edit(selfHeal=scale(maxSize="200Gi"))
        await bed.until_requested(pvc_hub_0="120Gi")
        await eventually(lambda: bed.ward.sample("cosmos_autoscale_disks_at_ceiling") == 0)

    @pytest.mark.criterion("N-A16")
    async def test_a_disk_grows_whose_node_cannot_start_for_want_of_space(
        self, bed: Namespace
    ) -> None:
        """What reports the usage runs beside the node, and so not yet. Where it does, the full disk is another one."""
        bed.node(0).unreachable = True
        await bed.admit(replicas=2, selfHeal=scale())
        await bed.until_asked(1)
        ended = {"exitCode": 1, "message": "cp: error writing: No space left on device"}
        container = {
            "name": "chain-init",
            "image": "gaia:v1",
            "imageID": "gaia:v1",
            "ready": False,
            "restartCount": 3,
            "state": {"waiting": {"reason": "CrashLoopBackOff"}},
            "lastState": {"terminated": {**ended, "reason": "Error"}},
        }
        status = {"phase": "Pending", "initContainerStatuses": [container]}
        await bed.set_pod(1, **status)
        await bed.until_event("NodeKeepsEnding")
        await bed.ward.until_looked()
        await bed.set_pod(0, **status)
        await bed.until_requested(pvc_hub_0="120Gi")

        async def notes() -> list[str]:
            found = [note for reason, note in await bed.events() if reason == "NodeKeepsEnding"]
            return [each for each in found if each.startswith("hub-0")]

        (note,) = await eventually(notes)
        assert note.startswith("hub-0 keeps ending: init container chain-init")
        assert "Raise volumeClaimTemplate" in note


HANGS = {"unresponsive": {"afterSeconds": 10}}


class TestHangs:
    @pytest.mark.criterion("N-A19")
    async def test_nodes_that_hang_are_started_again_one_at_a_time_within_the_budget(
        self, bed: Namespace
    ) -> None:
        """While another node is down none is, though it is silent."""
        mark = bed.mark()
        await bed.admit(4, selfHeal=HANGS)
        for ordinal in range(4):
            await bed.run(ordinal)
        await asyncio.gather(*(bed.until_asked(ordinal) for ordinal in range(4)))
        bed.node(
            3
        ).unreachable = True  # its machine: the container beside it does not answer either
        bed.node(1).hangs = bed.node(2).hangs = True
        await bed.until_silent(1, 2, 3, seconds=11)
        assert await bed.going() == []
        bed.node(3).unreachable = False
        (first,) = await eventually(bed.going)
        assert first in {"hub-1", "hub-2"}
        await bed.ward.until_looked()
        note = await bed.until_event("NodeUnresponsive")
        assert note.startswith(f"Deleted Pod {first}: its node has not answered since ")
        number, other = (1, 2) if first == "hub-1" else (2, 1)
        await bed.remove_pod(first)
        await bed.add_pod(number)
        await bed.run(number)
        await bed.until_asked(number)
        await bed.ward.until_looked()
        assert await bed.going() == [], "the first one does not answer yet"
        bed.node(number).hangs = False
        await bed.until_going(f"hub-{other}")
        assert [item.verb for item in bed.writes(mark)] == ["delete", "delete"]

    @pytest.mark.criterion("N-A19")
    async def test_it_can_be_switched_off_and_takes_no_disk_along(self, bed: Namespace) -> None:
        off = {"unresponsive": {"afterSeconds": 10, "restart": False}}
        await bed.admit(1, selfHeal=off)
        await bed.run(0)
        await bed.until_asked(0)
        bed.node(0).hangs = True
        await bed.until_silent(0, seconds=11)
        assert await bed.going() == []
        await bed.delete_claim(0)
        await bed.edit(selfHeal={"unresponsive": {"restart": True}})
        await bed.ward.until_looked()
        assert await bed.going() == [], "its disk would go with its Pod"
        await bed.let_claim_go(0)
        await bed.until_going("hub-0")


DRIFT = {"heightDriftMitigation": {"threshold": 10, "cooldownSeconds": 0}}


class TestHeights:
    @pytest.mark.criterion("COSMOS-A5-8")
    async def test_nodes_that_fell_behind_are_started_again_within_the_budget(
        self, bed: Namespace
    ) -> None:
        mark = bed.mark()
        bed.node(1).behind = 30
        await bed.admit(selfHeal=DRIFT)
        await bed.until_going("hub-1")
        bed.node(2).behind = 20
        await bed.until_asked(2)
        await bed.ward.until_looked()
        assert await bed.going() == ["hub-1"]
        note = await bed.until_event("HeightDriftMitigation")
        assert note == "Deleted Pod hub-1: 30 blocks behind the others"
        # Gone is as bad as going: the other one waits until the first is back and has caught up.
        await bed.remove_pod("hub-1")
        await bed.ward.until_looked()
        assert await bed.going() == []
        bed.node(1).behind, bed.node(1).catching_up = 0, True
        await bed.add_pod(1)
        await bed.until_asked(1)
        await bed.ward.until_looked()
        assert await bed.going() == []
        bed.node(1).catching_up = False
        await bed.until_going("hub-2")
        assert [item.verb for item in bed.writes(mark)] == ["delete", "delete"]

    @pytest.mark.criterion("COSMOS-A5-8")
    async def test_nodes_that_catch_up_are_left_alone(self, bed: Namespace) -> None:
        bed.node(1).behind, bed.node(1).catching_up = 50, True
        await bed.admit(selfHeal=DRIFT)
        await bed.until_asked(1)
        await bed.ward.until_looked()
        assert await bed.going() == []

    @pytest.mark.criterion("H-C5", "COSMOS-A5-9")
    async def test_h_c5_one_liar_restarts_no_node(self, bed: Namespace) -> None:
        bed.node(1).height = 9_000_000_000
        await bed.admit(selfHeal=DRIFT)
        await bed.until_asked(1)
        await bed.ward.until_looked(10)
        assert await bed.going() == []

    @pytest.mark.criterion("H-C5")
    async def test_h_c5_a_young_pod_is_not_restarted_again(self, bed: Namespace) -> None:
        bed.node(1).behind = 30
        policy = {"threshold": 10, "cooldownSeconds": 86400}
        await bed.admit(selfHeal={"heightDriftMitigation": policy})
        await bed.until_asked(1)
        await bed.ward.until_looked()
        assert await bed.going() == []
        await bed.edit(selfHeal=DRIFT)
        await bed.until_going("hub-1")

    async def test_a_paused_node_is_one_that_is_down(self, bed: Namespace) -> None:
        bed.node(1).behind = 30
        paused = {"scheduledSnapshotStatus": {"x": {"podCandidate": "hub-2"}}}
        await bed.admit(selfHeal=DRIFT, pods=2, status=paused)
        await bed.until_asked(1)
        await bed.ward.until_looked()
        assert await bed.going() == []
        await bed.set_status(scheduledSnapshotStatus={"x": None})
        await bed.add_pod(2)
        await bed.until_going("hub-1")

    async def test_a_pod_deleted_by_another_client_counts_as_down(self, bed: Namespace) -> None:
        await bed.admit(selfHeal=DRIFT)
        await bed.client.delete(POD, "hub-0", namespace=bed.namespace)
        bed.node(1).behind = 30
        await bed.until_asked(1)
        await bed.ward.until_looked()
        assert await bed.going() == ["hub-0"]

    async def test_a_delete_that_fails_is_reported_and_done_at_the_next_look(
        self, bed: Namespace
    ) -> None:
        match = Match(user="manager", verb="delete", namespace=bed.namespace)
        bed.ward.environment.proxy.add(Fail(code=500), match)
        bed.node(0).behind = 30
        await bed.admit(selfHeal=DRIFT)
        await bed.until_event("HeightDriftMitigationDeletePod")
        await bed.until_going("hub-0")


async def test_a_look_requests_nothing_of_nodes(bed: Namespace) -> None:
    fill(bed, 0)
    await bed.admit(selfHeal={**scale(), **DRIFT})
    await bed.until_requested(pvc_hub_0="120Gi")
    for ordinal in range(3):
        bed.node(ordinal).hold()
    # Each question of the background is held by now or soon; looks go on all the same.
    await eventually(lambda: bed.ward.comet.under_way == 6)
    asked = bed.ward.comet.questions
    await bed.ward.until_looked(10)
    assert bed.ward.comet.questions == asked
    for ordinal in range(3):
        bed.node(ordinal).release()


async def test_sets_are_asked_as_long_as_they_exist(bed: Namespace) -> None:
    name = f"{bed.namespace}/hub"
    await bed.admit(selfHeal=scale())
    await bed.until_asked(0)
    assert name in bed.ward.background()
    await bed.remove_pod("hub-1")
    await bed.add_pod(1)
    await bed.until_asked(1)
    await bed.client.delete(CosmosFullNode, "hub", namespace=bed.namespace)
    await eventually(lambda: name not in bed.ward.background())
    await eventually(lambda: bed.ward.comet.under_way == 0)

"""The probe strategy of sentries that exist: what an older manager made, and edits."""

from __future__ import annotations

from functools import partial

import pytest

from apis.cosmos import ProbeStrategy
from ctrlruntime.api import find_condition
from ctrlruntime.client.errors import Invalid
from ctrlruntime.json import Json
from internal.cosmos.fullnode import containers
from tests.cosmos.fullnode.harness import POD, NodeSetHarness, Place

pytestmark = [
    pytest.mark.criterion("COSMOS-A7-4"),
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.xdist_group("sets of nodes"),
]


def probed(pod: Json) -> list[str]:
    """Names of the containers with a readiness probe."""
    return [each["name"] for each in pod["spec"]["containers"] if "readinessProbe" in each]


def has_probes(expected: list[str], pod: Json) -> bool:
    """Whether there is a Pod, and its containers with a readiness probe are these."""
    return pod is not None and probed(pod) == expected


async def test_a_sentry_of_an_older_manager_keeps_its_pod_until_its_set_changes(
    harness: NodeSetHarness, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its strategy was stored as the default, InSync, and was no probe for it."""
    template = {"probes": {"strategy": "InSync"}}
    with monkeypatch.context() as older:
        older.setattr(containers, "probes_of", lambda node_set: ProbeStrategy.NONE)
        await place.apply(place.node_set(replicas=2, type="Sentry", podTemplate=template))
        await place.settled()
        await harness.stop_manager()
    before = await place.uids()
    assert probed(await place.object(POD, "hub-0")) == []
    await harness.start_manager()
    held = await place.until(
        lambda found: find_condition(found.status.conditions, "BuilderChangeHeld") is not None
    )
    assert held.spec.pod_template.probes.strategy is ProbeStrategy.IN_SYNC
    assert await place.uids() == before
    # As the notes of the upgrade advise: no Pod is replaced, and nothing is held back any more.
    await place.edit(podTemplate={"probes": {"strategy": "None"}})
    await place.until(
        lambda found: find_condition(found.status.conditions, "BuilderChangeHeld") is None
    )
    await place.settled()
    assert await place.uids() == before


async def test_an_edit_of_the_strategy_rolls_sentries_there_and_back(place: Place) -> None:
    await place.apply(place.node_set(replicas=1, type="Sentry"))
    await place.settled()
    for strategy, expected in (
        ("Reachable", ["node"]),
        ("InSync", ["node", "healthcheck"]),
        (None, []),
    ):
        before = await place.uids()
        await place.edit(podTemplate={"probes": {"strategy": strategy}})
        await place.until_object(POD, "hub-0", partial(has_probes, expected))
        await place.settled()
        assert await place.uids() != before


async def test_a_strategy_that_is_none_of_the_three_is_refused(place: Place) -> None:
    for word in ("none", "Ready", ""):
        with pytest.raises(Invalid, match=r"podTemplate\.probes\.strategy"):
            await place.apply(
                place.node_set(type="Sentry", podTemplate={"probes": {"strategy": word}})
            )

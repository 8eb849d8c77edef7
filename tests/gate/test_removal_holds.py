"""What a parent holds back: its condition and approval, and the record in its status, on a server."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pydantic import Field

from apis.cosmos import CosmosFullNode
from apis.deletions import Deletions, Removals
from ctrlruntime.api import ApiModel, Condition, Resource
from ctrlruntime.api.kinds import GroupKind, GroupVersionKind, Manifest
from ctrlruntime.cache.entry import Entry, EntryDecoder
from ctrlruntime.client.errors import NotFound
from ctrlruntime.client.object_patcher import ObjectPatcher
from ctrlruntime.envtest import Environment
from ctrlruntime.gate import (
    Cause,
    Evidence,
    Gate,
    Hold,
    ParentState,
    RecordChanged,
    Removal,
    Victim,
    decide,
)
from internal.cosmos.fullnode.disk_removals import DiskRemovals
from internal.removal_holds import (
    HELD,
    LostRecords,
    Parent,
    StatusRecords,
    allow_delete,
    refused_approval,
    report_held,
)

GROUP = "example.com"
CLAIM = GroupKind("", "PersistentVolumeClaim")
NOW = datetime(2026, 3, 1, tzinfo=UTC)
SPEC = {
    "replicas": 1,
    "chain": {
        "chainID": "hub-1",
        "network": "testnet",
        "binary": "gaiad",
        "app": {"minGasPrice": "0.1uatom"},
    },
    "podTemplate": {"image": "gaia:v1"},
    "volumeClaimTemplate": {
        "storageClassName": "standard",
        "resources": {"requests": {"storage": "1Gi"}},
    },
}


class NodesSpec(ApiModel):
    """Nothing."""


class NodesStatus(ApiModel):
    """What went."""

    removals: Removals = Field(default_factory=Removals)
    phase: str = ""


class Nodes(Resource[NodesSpec, NodesStatus], group=GROUP, version="v1"):
    """A parent."""


@pytest.fixture
async def env() -> AsyncIterator[Environment]:
    async with Environment() as made:
        await made.install_crds(Nodes)
        yield made


def claims(*names: str) -> list[Removal]:
    return [
        Removal(
            victim=Victim(CLAIM, "default", name),
            uid=f"uid-{name}",
            holds_state=True,
            cause=Cause.SPEC_CHANGED,
            evidence=Evidence.CERTAIN,
            member=name,
        )
        for name in names
    ]


async def records(env: Environment, **status: object) -> StatusRecords:
    client = env.client("manager")
    manifest = {
        "apiVersion": f"{GROUP}/v1",
        "kind": "Nodes",
        "metadata": {"name": "hub", "namespace": "default"},
        "spec": {},
    }
    try:
        found = await client.get(Nodes.mapping(), "hub", namespace="default")
    except NotFound:
        found = await client.create(manifest)

    def state(_found: Mapping[str, Any]) -> ParentState:
        return ParentState(members=10)

    return StatusRecords(
        ObjectPatcher(client, "manager"),
        Nodes.mapping(),
        "hub",
        "default",
        found["metadata"]["uid"],
        state,
        lambda: NOW,
    )


async def test_a_record_outlives_restarts_and_what_is_older_than_its_window_leaves_it(
    env: Environment,
) -> None:
    gate = Gate(budget=Deletions().budget)
    made = await decide(gate, claims("a"), await records(env), lambda: NOW)
    assert len(made.permits) == 1
    made = await decide(gate, claims("b"), await records(env), lambda: NOW)
    assert made.hold is not None
    assert "within an hour" in made.hold.reason
    later = NOW + timedelta(hours=25)
    assert (await decide(gate, claims("b"), await records(env), lambda: later)).permits
    stored = (await env.client("admin").get(Nodes, "hub", namespace="default")).status.removals
    assert list(stored.members) == ["b"]
    assert list(stored.state) == ["uid-b"]


async def test_two_managers_share_one_budget(env: Environment) -> None:
    gate = Gate(budget=Deletions().budget)
    one, other = await records(env), await records(env)
    parent, version = await one.load()
    assert (await decide(gate, claims("a"), other, lambda: NOW)).permits
    first = gate.removals(claims("b"), now=NOW, parent=parent)
    with pytest.raises(RecordChanged):
        await one.save(first.record.to_dict(), version)
    assert (await decide(gate, claims("b"), one, lambda: NOW)).hold is not None


@pytest.mark.criterion("G-T3")
async def test_g_t3_an_approval_counts_once_though_an_older_status_is_put_back(
    env: Environment,
) -> None:
    gate, client = Gate(budget=Deletions().budget), env.client("admin")
    await decide(gate, claims("a"), await records(env), lambda: NOW)
    older = await client.get(Nodes.mapping(), "hub", namespace="default")
    hold = (await decide(gate, claims("b", "c"), await records(env), lambda: NOW)).hold
    assert hold is not None
    patch = {"metadata": {"annotations": {allow_delete(GROUP): hold.digest}}}
    await client.patch(Nodes, "hub", patch, namespace="default")
    assert (await decide(gate, claims("b", "c"), await records(env), lambda: NOW)).permits
    found = await client.get(Nodes.mapping(), "hub", namespace="default")
    await client.update({**found, "status": older["status"]}, subresource="status")
    again = await decide(gate, claims("b", "c"), await records(env), lambda: NOW)
    assert again.hold is not None
    assert "was used before" in refused_approval(hold.digest, again.hold.digest, again.hold.used)


async def test_an_approval_of_the_digest_counts_once(env: Environment) -> None:
    gate = Gate(budget=Deletions().budget)
    kept = await records(env)
    hold = (await decide(gate, claims("a", "b", "c"), kept, lambda: NOW)).hold
    assert hold is not None
    patch = {"metadata": {"annotations": {allow_delete(GROUP): hold.digest}}}
    await env.client("admin").patch(Nodes, "hub", patch, namespace="default")
    assert (await decide(gate, claims("a", "b"), kept, lambda: NOW)).hold is not None
    assert len((await decide(gate, claims("a", "b", "c"), kept, lambda: NOW)).permits) == 3
    rest = await decide(gate, claims("b", "c"), await records(env), lambda: NOW)
    assert len(rest.permits) == 2
    later = NOW + timedelta(hours=1)
    assert (await decide(gate, claims("a", "b", "c"), kept, lambda: later)).hold is not None


async def test_a_parent_that_was_made_again_is_another(env: Environment) -> None:
    kept = await records(env)
    await env.client("admin").delete(Nodes, "hub", namespace="default")
    await records(env)
    with pytest.raises(RecordChanged):
        await kept.load()


def entry(manifest: Manifest) -> Entry:
    return EntryDecoder(GroupVersionKind.of(manifest)).decode_manifest(manifest)


@pytest.mark.criterion("G-T3")
@pytest.mark.parametrize("made_again", [False, True])
async def test_g_t3_the_record_of_a_parent_that_is_gone_is_read_again(
    env: Environment, made_again: bool
) -> None:
    """Nothing goes by what was read of it: not of the cache, which may be behind."""
    await records(env)
    client = env.client("manager")
    there = entry(await client.get(Nodes.mapping(), "hub", namespace="default"))
    patcher = ObjectPatcher(client, "manager")
    lost = LostRecords(patcher, Nodes.mapping(), lambda: NOW, lambda used: {"used": dict(used)})
    assert not await lost.report_older(there)
    await env.client("admin").delete(Nodes, "hub", namespace="default")
    if made_again:
        await records(env)
    assert await lost.report_older(there)
    if made_again:
        found = await client.get(Nodes.mapping(), "hub", namespace="default")
        assert "status" not in found  # it is another one, of which nothing is lost


@pytest.mark.criterion("G-N1")
@pytest.mark.parametrize("wiped", [False, True])
async def test_g_n1_an_approval_that_is_taken_back_beside_a_wipe_writes_no_record(
    env: Environment, wiped: bool
) -> None:
    """A record that is begun then would hide the loss of what it had counted."""
    await env.install_crds(CosmosFullNode)
    client, place = env.client("manager"), {"name": "hub", "namespace": "default"}
    api_version = CosmosFullNode.gvk().api_version
    manifest: Manifest = {
        "apiVersion": api_version,
        "kind": "CosmosFullNode",
        "metadata": place,
        "spec": SPEC,
    }
    made = await client.create(manifest)
    patcher, uid = ObjectPatcher(client, "manager"), made["metadata"]["uid"]
    removals = {"approved": {"uid-0": 1}, "members": {"hub-1": 1}, "saved": 1}
    status: Manifest = {"observedGeneration": 1, "removals": removals}
    await patcher.patch_status(
        CosmosFullNode.mapping(), "hub", status, namespace="default", uid=uid
    )
    read = await client.get(CosmosFullNode, "hub", namespace="default")
    if wiped:
        gone = {"status": dict.fromkeys(status)}
        await env.client("admin").patch_status(CosmosFullNode, "hub", gone, namespace="default")
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "pvc-hub-0", "namespace": "default", "uid": "uid-0"},
    }
    going = DiskRemovals(read, patcher, lambda: NOW, [entry(claim)], used=False)
    await going.take_back(["pvc-hub-0"])
    found = await client.get(CosmosFullNode, "hub", namespace="default")
    after = found.status.removals
    assert after is None if wiped else after is not None and not after.approved


def parent(**annotations: str) -> Parent:
    given = {allow_delete(GROUP): text for text in annotations.values()}
    return Parent(mapping=Nodes.mapping(), name="hub", namespace="default", annotations=given)


def report(conditions: list[Condition], whose: Parent, hold: Hold | None) -> bool:
    return report_held(conditions, whose, hold, generation=1, now=NOW)


def test_a_hold_is_a_condition_with_names_causes_and_the_command_that_approves() -> None:
    conditions: list[Condition] = []
    assert not report(conditions, parent(), None)
    assert not conditions
    hold = Hold.of(claims(*(f"disk-{number:02}" for number in range(12))), "too many")
    assert report(conditions, parent(), hold)
    assert not report(conditions, parent(), hold)
    (found,) = conditions
    assert (found.type, found.status) == (HELD, "True")
    assert "default/disk-00 (SpecChanged)" in found.message
    assert "and 2 more" in found.message
    command = (
        f"kubectl annotate nodes hub -n default --overwrite {allow_delete(GROUP)}={hold.digest}"
    )
    assert f"`{command}`" in found.message
    assert not report(conditions, parent(), None)
    assert conditions[0].status == "False"


@pytest.mark.parametrize(
    ("text", "said"), [("yes", "16 hex digits"), ("0123456789abcdef", "another set")]
)
def test_an_approval_of_something_else_is_news(text: str, said: str) -> None:
    conditions: list[Condition] = []
    hold = Hold.of(claims("a", "b"), "too many")
    assert report(conditions, parent(), hold)
    assert report(conditions, parent(given=text), hold)
    assert said in conditions[0].message

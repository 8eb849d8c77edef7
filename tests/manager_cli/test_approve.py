"""`manager approve`: what is held on any parent is listed with its digest, and approved by that alone."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import pytest
import yaml

from apis.fleet.labels import APPROVE_ORPHANS, ORPHAN_RECORD
from ctrlruntime.api.conditions import conditions_to_wire
from ctrlruntime.api.kinds import GroupKind
from ctrlruntime.envtest import Environment
from ctrlruntime.gate import Cause, Evidence, Hold, Removal, Victim
from ctrlruntime.intake import LimitExceeded
from internal.fleet.orphans import SweepRecord
from internal.fleet.plane_check import NAMESPACE
from internal.removal_holds import Parent, allow_delete, held_condition
from manager.commands.approve import PARENTS
from manager.controllers.orphan_record import OrphanRecord
from tests.docs.blocks import ROOT
from tests.manager_cli.program import Program

pytestmark = pytest.mark.criterion("G-T6")
AT = "2026-03-01T00:00:00Z"
SAMPLES = {
    manifest["kind"]: manifest
    for path in sorted((ROOT / "config" / "samples").glob("*.yaml"))
    for manifest in yaml.safe_load_all(path.read_text())
    if manifest and manifest["kind"] in {kind.gvk().kind for kind in PARENTS}
}


def name_of(kind: type[Any]) -> str:
    return str(SAMPLES[kind.gvk().kind]["metadata"]["name"])


def hold_on(kind: type[Any]) -> Hold:
    removals = [
        Removal(
            victim=Victim(GroupKind("", "PersistentVolumeClaim"), "default", f"disk-{number}"),
            uid=f"uid-{number}",
            holds_state=True,
            cause=Cause.SPEC_CHANGED,
            evidence=Evidence.CERTAIN,
            parent=kind.gvk().kind,
        )
        for number in range(12)
    ]
    return Hold.of(removals, "12 objects that hold state would go within an hour; 1 may")


async def put_held(env: Environment, kind: type[Any]) -> Hold:
    """Create the sample of a kind, whose condition shows a hold."""
    mapping, hold = kind.mapping(), hold_on(kind)
    metadata: dict[str, str] = {"name": name_of(kind)} | (
        {"namespace": "default"} if mapping.namespaced else {}
    )
    client = env.client("envtest")
    await client.create({**SAMPLES[mapping.gvk.kind], "metadata": metadata})
    parent = Parent(mapping=mapping, name=metadata["name"], namespace=metadata.get("namespace", ""))
    condition = held_condition(parent, hold, 1)
    condition.last_transition_time = datetime(2026, 3, 1, tzinfo=UTC)
    status = {"conditions": conditions_to_wire([condition])}
    namespace = metadata.get("namespace")
    await client.patch_status(kind, metadata["name"], {"status": status}, namespace=namespace)
    return hold


@pytest.fixture
async def env() -> AsyncIterator[Environment]:
    async with Environment() as made:
        await made.install_crds(*PARENTS)
        yield made


async def approve(env: Environment, *arguments: str, code: int = 0) -> str:
    kubeconfig = str(env.kubeconfig("admin"))
    async with await Program.start("approve", *arguments, "--kubeconfig", kubeconfig) as program:
        assert await program.wait() == code, program.output
        return program.output


async def test_what_is_held_on_every_kind_is_listed_and_approved_by_its_digest(
    env: Environment,
) -> None:
    held = {kind: await put_held(env, kind) for kind in PARENTS}
    listed = json.loads(await approve(env, "--list", "-o", "json"))
    assert {each["kind"]: each["digest"] for each in listed} == {
        kind.gvk().kind: hold.digest for kind, hold in held.items()
    }
    table = await approve(env, "--list", "-A")
    assert all(hold.digest in table for hold in held.values())
    for kind, hold in held.items():
        options = kind.kind_options
        assert options is not None
        refused = await approve(env, f"{options.singular}/{name_of(kind)}", code=1)
        assert f"--digest {hold.digest}" in refused
        assert "disk-0 (SpecChanged)" in refused
        assert "and 2 more" in refused
        names = (options.plural, options.singular, *options.short_names)
        await approve(env, f"{names[-1]}/{name_of(kind)}", "--digest", hold.digest)
        namespace = "default" if kind.mapping().namespaced else None
        found = await env.client("admin").get(kind.mapping(), name_of(kind), namespace=namespace)
        assert found["metadata"]["annotations"] == {allow_delete(kind.gvk().group): hold.digest}


async def test_what_a_target_namespace_holds_is_listed_and_approved_too(env: Environment) -> None:
    hold, client = hold_on(PARENTS[0]), env.client("envtest")
    await client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "plane-1"}})
    record = OrphanRecord(client, "plane-1")
    await record.save(SweepRecord(), hold, "")
    (listed,) = json.loads(await approve(env, "--list", "-A", "-o", "json"))
    assert (listed["kind"], listed["name"], listed["digest"]) == (
        "Namespace",
        "plane-1",
        hold.digest,
    )
    assert "another set" in await approve(env, "ns/plane-1", "--digest", "0" * 16, code=1)
    await approve(env, "namespace/plane-1", "--digest", hold.digest)
    found = await client.get(NAMESPACE, "plane-1")
    assert found["metadata"]["annotations"] == {APPROVE_ORPHANS: hold.digest}


async def test_a_record_that_inflates_to_more_than_one_has_is_not_read(env: Environment) -> None:
    """S-F9: who may write ConfigMaps of a target namespace had a gigabyte of a small one read by the operator of all."""
    client, packed = env.client("envtest"), zlib.compress(bytes(2**26))
    await client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "plane-2"}})
    metadata = {"name": ORPHAN_RECORD, "namespace": "plane-2"}
    data = {"record": base64.b64encode(packed).decode()}
    await client.create(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "binaryData": data}
    )
    with pytest.raises(ValueError, match="cannot be read") as caught:
        await OrphanRecord(client, "plane-2").load()
    assert isinstance(caught.value.__cause__, LimitExceeded)


async def test_another_digest_and_an_object_that_holds_nothing_are_refused(
    env: Environment,
) -> None:
    kind = PARENTS[0]
    await put_held(env, kind)
    name = f"{kind.gvk().kind}/{name_of(kind)}"
    wrong = await approve(env, name, "--digest", "0123456789abcdef", code=1)
    assert "another set is held by now" in wrong
    assert "12 objects that hold state" in wrong
    client = env.client("envtest")
    await client.patch_status(
        kind, name_of(kind), {"status": {"conditions": []}}, namespace="default"
    )
    assert "nothing that it wants to delete waits" in await approve(env, name, code=1)
    assert "approve --list" in await approve(env, code=2)
    assert "tenantregistry" in await approve(env, "deployment/web", code=2)


@pytest.mark.criterion("S-P2")
async def test_who_has_to_approve_and_who_did_are_columns(env: Environment) -> None:
    registry, node_set = PARENTS[0], PARENTS[3]
    for kind in (registry, node_set):
        await put_held(env, kind)
    client, name = env.client("envtest"), name_of(registry)
    required = {"group": "approvers", "furtherGroups": ["owners"]}
    spec = {"spec": {"requireApprovalBy": required}}
    await client.patch(registry, name, spec, namespace="default")
    given = {"annotation": "a", "value": "0123456789abcdef", "by": "bob", "at": AT}
    status = {"status": {"approvals": {"given": [given]}}}
    await client.patch_status(registry, name, status, namespace="default")
    listed = json.loads(await approve(env, "--list", "-o", "json"))
    shown = {each["kind"]: (each["needs"], each["approved"]) for each in listed}
    assert shown == {
        "TenantRegistry": ("the group 'approvers' or 'owners'", "0123456789abcdef by bob"),
        "CosmosFullNode": ("", ""),
    }
    head, first, second = (await approve(env, "--list", "-o", "wide")).splitlines()[:3]
    assert {"NEEDS", "APPROVED"} <= set(head.split())
    assert "by bob" in first + second
    assert "NEEDS" not in await approve(env, "--list")

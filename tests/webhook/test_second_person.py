"""Who approves is recorded by an API server's admission, for every kind that takes approvals."""

from __future__ import annotations

import secrets
from functools import partial
from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml

from apis.cloud import FleetRollout, Instance, InstanceTerraform
from apis.cosmos import CosmosFullNode
from apis.tenancy import TenantRegistry
from ctrlruntime.api.conditions import find_condition
from ctrlruntime.api.resource import Resource
from ctrlruntime.client.client import Client
from ctrlruntime.client.errors import Forbidden
from ctrlruntime.envtest import Environment
from ctrlruntime.envtest.server.admission import conditions_hold
from internal.approvals.rules import RECORD, REQUIRED, ApprovalRules
from internal.cloud.approvals import INSTANCE, ROLLOUT
from internal.cosmos.approvals import RULES as NODE_SET
from internal.tenancy.shared.approvals import RULES as REGISTRY
from manager.controllers.approvals import add_approvals, approval_key, record_webhooks
from manager.manifests.folders import APPROVED
from tests.support.manager_harness import make_manager
from tests.support.people import APPROVERS, let_write, person, recorded
from tests.support.waiting import eventually

SAMPLES = Path(__file__).parents[2] / "config" / "samples"
KINDS: list[tuple[type[Resource[Any, Any]], ApprovalRules]] = [
    (TenantRegistry, REGISTRY),
    (Instance, INSTANCE),
    (FleetRollout, ROLLOUT),
    (CosmosFullNode, NODE_SET),
]
WANTED = {"group": APPROVERS, "otherThanAuthor": True}
HELD = ["example.com/held"]
"""A finalizer, so that what is deleted stays."""


def sample(kind: type[Resource[Any, Any]], namespace: str) -> dict[str, Any]:
    """The sample of a kind, with approvers."""
    found = (each for path in sorted(SAMPLES.glob("*.yaml")) for each in _documents(path))
    made = next(each for each in found if each["kind"] == kind.gvk().kind)
    made["metadata"] = {"name": "one", "namespace": namespace, "finalizers": HELD}
    made["spec"][REQUIRED] = WANTED
    return made


def _documents(path: Path) -> list[dict[str, Any]]:
    return [each for each in yaml.safe_load_all(path.read_text()) if each and "kind" in each]


@pytest.mark.criterion("S-P1")
@pytest.mark.criterion("S-P2")
@pytest.mark.criterion("S-P3")
@pytest.mark.parametrize(("kind", "rules"), KINDS, ids=[kind.__name__ for kind, _ in KINDS])
async def test_admission_records_who_approves_deletes_and_lowers(
    environment: Environment, kind: type[Resource[Any, Any]], rules: ApprovalRules
) -> None:
    namespace = f"approvals-{secrets.token_hex(4)}"
    client = environment.client()
    await client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
    await environment.install_crds(kind)
    await let_write(client, ["alice", "bob", "carol", "dave"])
    async with (
        recorded(environment, record_webhooks([kind]), namespace) as hooks,
        person(environment, "alice", APPROVERS) as alice,
        person(environment, "bob", APPROVERS) as bob,
        person(environment, "carol") as carol,
        person(environment, "dave", APPROVERS) as dave,
    ):
        manager = make_manager(environment.config(), webhook=hooks.options)
        add_approvals(manager, kind, rules, approval_key(manager))
        async with manager.running():
            made = sample(kind, namespace)
            await eventually(partial(_is_recorded, alice, made))
            await alice.create(made)
            patch = partial(_patch, kind, namespace)
            annotation = min(rules.annotations - rules.of_spec)
            approval = {"metadata": {"annotations": {annotation: "all=abc"}}}
            with pytest.raises(Forbidden, match="'alice' is the author of the spec"):
                await patch(alice, approval)
            with pytest.raises(Forbidden, match="'carol' is none"):
                await patch(carol, approval)
            forged = {"metadata": {"annotations": {RECORD: "forged"}}}
            assert '"user":"alice"' in await patch(carol, forged)
            await patch(bob, approval)

            async def message() -> str:
                found = await client.get(kind, "one", namespace=namespace)
                seen = find_condition(found.status.conditions, "ApprovalsCount")
                return "" if seen is None else f"{seen.status}: {seen.message}"

            await eventually(
                message,
                lambda text: text.startswith("True") and f"{annotation}=all=abc by bob" in text,
            )
            lower: dict[str, Any] = {"spec": {REQUIRED: None}}
            with pytest.raises(Forbidden, match=f"spec.{REQUIRED} decides what needs an approval"):
                await patch(carol, lower)
            await carol.delete(kind, "one", namespace=namespace)
            await dave.delete(kind, "one", namespace=namespace)
            found = await client.get(kind, "one", namespace=namespace)
            record = orjson.loads(found.metadata.annotations[RECORD].rpartition(" ")[0])
            assert record["deletion"]["user"] == "carol"
            await patch(bob, lower)
            await eventually(message, lambda text: "everyone who may write them" in text)
            await patch(client, {"metadata": {"finalizers": None}})


async def _is_recorded(client: Client, manifest: dict[str, Any]) -> bool:
    """Whether the server calls the webhook: a configuration takes effect a moment after it was stored."""
    made = await client.create(manifest, dry_run=True)
    return RECORD in (made["metadata"].get("annotations") or {})


async def _patch(
    kind: type[Resource[Any, Any]], namespace: str, client: Client, patch: dict[str, Any]
) -> str:
    """Patch the object; the record that it then has."""
    found = await client.patch(kind, "one", patch, namespace=namespace)
    return str((found.metadata.annotations or {}).get(RECORD, ""))


@pytest.mark.criterion("S-P1")
def test_every_kind_that_takes_approvals_has_the_webhook() -> None:
    assert {kind for kind, _ in KINDS} < set(APPROVED)
    assert InstanceTerraform in APPROVED


PLAIN: dict[str, Any] = {"metadata": {"name": "a"}, "spec": {}}
NEEDS: dict[str, Any] = {**PLAIN, "spec": {REQUIRED: {"group": "a"}}}
DID: dict[str, Any] = {**PLAIN, "status": {"approvals": {}}}
FORGED: dict[str, Any] = {**PLAIN, "metadata": {"annotations": {RECORD: "x"}}}
NOTED: dict[str, Any] = {**PLAIN, "metadata": {"annotations": {"note": "x"}}}


@pytest.mark.criterion("S-P1")
@pytest.mark.parametrize("kind", APPROVED)
def test_requests_for_objects_without_approvers_do_not_wait_for_a_manager(
    kind: type[Resource[Any, Any]],
) -> None:
    hook = record_webhooks([kind])[0].entry()
    whole = kind in {each for each, _ in KINDS}
    for new, old, called in (
        (PLAIN, None, False), (NOTED, PLAIN, False), (None, PLAIN, False), (NEEDS, None, True), (PLAIN, NEEDS, True),
        (None, NEEDS, True), (PLAIN, DID, True), (None, DID, True), (FORGED, PLAIN, True),
    ):  # fmt: skip
        assert conditions_hold(hook, {"object": new, "oldObject": old}) is (called or not whole)

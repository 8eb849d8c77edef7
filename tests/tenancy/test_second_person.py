"""Approvals of a registry by a second person: recorded by admission, counted only then, on a server that calls it."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import structlog
from structlog.typing import FilteringBoundLogger

from apis.tenancy import TenantRegistry
from ctrlruntime.client.client import Client
from ctrlruntime.client.config import Config
from ctrlruntime.client.errors import Forbidden
from ctrlruntime.envtest.local_webhooks import LocalWebhooks
from ctrlruntime.manager import Manager
from ctrlruntime.webhook.injection import MUTATING
from internal.approvals.rules import RECORD
from internal.tenancy.shared.policies import ALLOW_DELETE
from manager.commands.plan_output import text as text_of
from manager.controllers.approvals import record_webhooks
from manager.controllers.tenancy_plan import PlanRequest, plan_tenants
from tests.support.manager_harness import make_manager
from tests.support.people import APPROVERS, let_write, person, recorded
from tests.tenancy.fleet import Fleet
from tests.tenancy.harness import TenancyHarness, approval_in, config_map, permissive

KINDS = [TenantRegistry]
ROBOT = "system:serviceaccount:default:robot"
REQUIRED = {"group": APPROVERS, "otherThanAuthor": True}


@dataclass(slots=True)
class RecordingHarness(TenancyHarness):
    """A harness whose manager serves the webhook that records approvals."""

    hooks: LocalWebhooks | None = None

    def make_manager(self, config: Config, logger: FilteringBoundLogger) -> Manager:
        given: dict[str, Any] = {} if self.hooks is None else {"webhook": self.hooks.options}
        return make_manager(config, logger=logger, cache=self.cache, name="manager", **given)


@contextlib.asynccontextmanager
async def approving(folder: Path) -> AsyncIterator[tuple[Fleet, Client, Client]]:
    """A fleet of which two tenants wait to be deleted, and alice and bob; alice made its registry."""
    options = replace(permissive(folder), webhooks=True)
    async with RecordingHarness.start(folder, manager=False, options=options) as harness:
        environment = harness.environment
        fleet = await Fleet.make(harness)
        await let_write(harness.client, ["alice", "bob", "carol", ROBOT])
        async with (
            recorded(environment, record_webhooks(KINDS), fleet.namespace) as hooks,
            person(environment, "alice", APPROVERS) as alice,
            person(environment, "bob", APPROVERS) as bob,
        ):
            harness.hooks = hooks
            await harness.start_manager()
            fleet.rows("a", "b", "c")
            await fleet.registry()
            await fleet.template(configMaps=[config_map("cm", "{{ .uid }}-cm")])
            await fleet.ready("a-app", "b-app", "c-app")
            await harness.eventually(partial(requires, alice, fleet, REQUIRED))
            fleet.delete_row("a")
            fleet.delete_row("b")
            yield fleet, alice, bob


async def requires(client: Client, fleet: Fleet, required: object) -> bool:
    """Set whose approvals count; whether admission recorded who did."""
    patch: dict[str, Any] = {"spec": {"requireApprovalBy": None}}
    await client.patch(TenantRegistry, "registry", patch, namespace=fleet.namespace)
    patch = {"spec": {"requireApprovalBy": required}}
    found = await client.patch(TenantRegistry, "registry", patch, namespace=fleet.namespace)
    return RECORD in (found.metadata.annotations or {})


async def digest_held(fleet: Fleet) -> str:
    held = await fleet.until(TenantRegistry, "registry", "DeletionsHeld", "True")
    return approval_in(held.message)[1]


async def approve(client: Client, fleet: Fleet, digest: str, **more: str) -> None:
    patch = {"metadata": {"annotations": {ALLOW_DELETE: digest, **more}}}
    await client.patch(TenantRegistry, "registry", patch, namespace=fleet.namespace)


@pytest.mark.criterion("S-P2")
async def test_a_removal_is_approved_by_another_member_of_the_group(tmp_path: Path) -> None:
    async with approving(tmp_path) as (fleet, alice, bob):
        digest = await digest_held(fleet)
        with pytest.raises(Forbidden, match="'alice' is the author of the spec"):
            await approve(alice, fleet, digest)
        for user, group in (("carol", ""), (ROBOT, APPROVERS)):
            async with person(fleet.harness.environment, user, group) as other:
                with pytest.raises(Forbidden, match=f"'{user}' is none"):
                    await approve(other, fleet, digest)
        await approve(bob, fleet, digest)
        await fleet.harness.eventually(fleet.tenants, ["c-app"].__eq__)
        event = await fleet.event("Approved")
        assert event["note"] == f"bob approved {ALLOW_DELETE}={digest}"
        registry = await fleet.read(TenantRegistry, "registry")
        assert registry.status.approvals is not None
        (given,) = registry.status.approvals.given
        assert (given.value, given.by) == (digest, "bob")


@pytest.mark.criterion("S-P1")
@pytest.mark.criterion("S-P3")
async def test_what_is_written_past_admission_is_reported_and_not_followed(tmp_path: Path) -> None:
    weaker = {"spec": {"deletionGuard": {"maxDeletePercent": 100}}}
    async with approving(tmp_path) as (fleet, alice, _bob):
        digest = await digest_held(fleet)
        async with person(fleet.harness.environment, "carol") as carol:
            with pytest.raises(Forbidden, match=r"spec.deletionGuard.maxDeletePercent decides"):
                await carol.patch(TenantRegistry, "registry", weaker, namespace=fleet.namespace)
        found = await fleet.read(TenantRegistry, "registry")
        text = (found.metadata.annotations or {})[RECORD]
        await fleet.harness.client.delete(MUTATING, fleet.namespace)  # no webhook is called
        await fleet.harness.eventually(partial(is_past_admission, fleet))
        await approve(alice, fleet, digest, **{RECORD: text.replace("alice", "bob")})
        await fleet.patch(TenantRegistry, "registry", weaker)
        held = await fleet.until(
            TenantRegistry, "registry", "ApprovalsCount", "False", message="was changed without"
        )
        assert f"{ALLOW_DELETE}={digest} does not count" in held.message
        await fleet.event("ApprovalNotCounted")
        await fleet.harness.idle()
        assert len(await fleet.tenants()) == 3
        planned = await plan_tenants(
            fleet.harness.environment.config("manager"),
            fleet.harness.options,
            PlanRequest(namespace=fleet.namespace, registry="registry"),
            structlog.get_logger(),
        )
        assert planned.groups == [], "what does not count for the controller does not for a plan"
        assert f"{ALLOW_DELETE}={digest} does not count" in text_of(planned)


async def is_past_admission(fleet: Fleet) -> bool:
    """Whether the server stores a record as it is sent."""
    patch = {"metadata": {"annotations": {RECORD: "probe"}}}
    made = await fleet.harness.client.patch(
        TenantRegistry, "registry", patch, namespace=fleet.namespace, dry_run=True
    )
    return (made.metadata.annotations or {}).get(RECORD) == "probe"

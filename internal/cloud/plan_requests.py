"""What a person decides about a plan that waits: one annotation on the subresource, which names the plan's digest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from internal.cloud.labels import APPROVED_PLAN, REJECTED_PLAN
from internal.cloud.subresource_requests import annotate, subresources_of

if TYPE_CHECKING:
    from apis.cloud import PlannedChange
    from ctrlruntime.client.client import Client


@dataclass(frozen=True, slots=True)
class WaitingPlan:
    """A plan that waits, and whose it is."""

    kind: str
    name: str
    plan: PlannedChange
    message: str
    """What the subresource waits for; empty: for nothing."""


async def waiting_plans(client: Client, instance: str, *, namespace: str) -> list[WaitingPlan]:
    """Return the plans of an Instance that were made and not applied. Raises what the client raises."""
    found = []
    async for subresource, each in subresources_of(client, instance, namespace):
        plan, waiting = each.status.plan, each.status.waiting
        if plan is not None:
            message = "" if waiting is None else waiting.message
            name = each.metadata.name or ""
            found.append(WaitingPlan(subresource.kind.__name__, name, plan, message))
    return found


async def decide_on_plan(
    client: Client, instance: str, *, namespace: str, digest: str, approve: bool
) -> WaitingPlan | None:
    """Approve or reject the plan with that digest. Returns it; None if no plan has the digest.

    A decision holds for that plan alone. An approval takes an earlier rejection of the same plan back, and the
    other way round. Raises what the client raises.
    """
    given, other = (APPROVED_PLAN, REJECTED_PLAN) if approve else (REJECTED_PLAN, APPROVED_PLAN)
    async for subresource, each in subresources_of(client, instance, namespace):
        plan = each.status.plan
        if plan is None or plan.digest != digest:
            continue
        if await annotate(client, subresource, each, {given: digest, other: None}):
            name = each.metadata.name or ""
            return WaitingPlan(subresource.kind.__name__, name, plan, "")
    return None

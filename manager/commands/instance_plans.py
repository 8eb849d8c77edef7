"""`manager instance approve` and `reject`: what a person decides about a plan that waits."""

from __future__ import annotations

from pathlib import Path

import click

from apis.cloud import PlannedChange, TaskOperation
from ctrlruntime.api import format_time
from ctrlruntime.client.client import Client
from internal.cloud.plan_requests import WaitingPlan, decide_on_plan, waiting_plans
from manager.commands.output import echo
from manager.flags.cluster import cluster_options, talk

_PLAN_OPTION = click.option(
    "--plan", "digest", default="", help="The digest of the plan, as it is shown and in the status."
)


@click.command()
@click.argument("name")
@_PLAN_OPTION
@cluster_options
def approve(
    name: str, digest: str, kubeconfig: Path | None, context: str | None, namespace: str
) -> None:
    """Show the plan that waits for an instance, and approve it if --plan names its digest.

    The approval is for this plan: one that is made later needs an approval of its own. Ends with 1 if nothing
    is approved. A freeze or a closed maintenance window holds an approved plan until it ends.
    """
    found = talk(kubeconfig, context, lambda client: _decide(client, name, namespace, digest, True))
    echo(f"{found.kind} {found.name}: plan {digest} is approved")


@click.command()
@click.argument("name")
@_PLAN_OPTION
@cluster_options
def reject(
    name: str, digest: str, kubeconfig: Path | None, context: str | None, namespace: str
) -> None:
    """Show the plan that waits for an instance, and give it up if --plan names its digest.

    Nothing is applied, and no other plan is made until the spec changes or a retry is requested. Ends with 1 if
    nothing is rejected.
    """
    found = talk(
        kubeconfig, context, lambda client: _decide(client, name, namespace, digest, False)
    )
    echo(f"{found.kind} {found.name}: plan {digest} is rejected")
    echo(f"To plan again: manager instance retry {name}")


async def _decide(
    client: Client, name: str, namespace: str, digest: str, approves: bool
) -> WaitingPlan:
    """Print what waits, and record the decision. Raises ClickException if there is no plan of that digest."""
    plans = await waiting_plans(client, name, namespace=namespace)
    for each in plans:
        echo(plan_text(each))
    if not plans:
        raise click.ClickException(
            f"{name}: no plan waits; `manager instance describe {name}` shows its tasks"
        )
    if not digest:
        word = "approve" if approves else "reject"
        raise click.ClickException(
            f"nothing was decided: `manager instance {word} {name} --plan DIGEST` names the plan"
        )
    named = next((item.plan for item in plans if item.plan.digest == digest), None)
    if named is None:
        raise click.ClickException(f"{name}: no plan {digest} waits, nothing was decided")
    if named.operation is TaskOperation.PLAN:
        raise click.ClickException(
            f"{name}: plan {digest} is only a plan: set spec.terraformRuns.operation of the Instance to Apply"
        )
    done = await decide_on_plan(client, name, namespace=namespace, digest=digest, approve=approves)
    if done is None:
        raise click.ClickException(f"{name}: plan {digest} has just been superseded")
    return done


def plan_text(waiting: WaitingPlan) -> str:
    """Return a plan for people: its numbers, what it destroys, where it can be looked at."""
    plan = waiting.plan
    lines = [
        f"{waiting.kind} {waiting.name}: plan {plan.digest}, since {format_time(plan.since)}",
        f"  {plan.add} to add, {plan.change} to change, {plan.destroy} to destroy, {plan.replace} of them replaced",
        *(f"  {address}" for address in plan.destroys),
        *_further(plan),
    ]
    return "\n".join([*lines, f"  {plan.link}"] if plan.link else lines)


def _further(plan: PlannedChange) -> list[str]:
    more = plan.destroy - len(plan.destroys)
    return [f"  and {more} more that are destroyed or replaced"] if more > 0 else []

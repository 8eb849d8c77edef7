"""`manager tenant`: one tenant and what became of each of its resources, with the user's own rights."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import click
import yaml

from apis.tenancy import Tenant
from manager.cluster_flags import cluster_options, talk
from manager.summaries import summary_of
from manager.tables import Column, output_option, print_rows

RESOURCES: Final = (Column("RESOURCE", "resource"), Column("STATE", "state"), Column("WHY", "why"))
CONDITIONS: Final = (
    Column("CONDITION", "type"),
    Column("STATUS", "status"),
    Column("REASON", "reason"),
    Column("SINCE", "lastTransitionTime", wide=True),
    Column("MESSAGE", "message"),
)


@click.command()
@click.argument("name")
@output_option
@cluster_options
def tenant(
    name: str, output: str, kubeconfig: Path | None, context: str | None, namespace: str
) -> None:
    """Show a tenant: its state, its conditions, and each of its resources. Values are not shown."""
    found = talk(kubeconfig, context, lambda c: c.get(Tenant, name, namespace=namespace))
    conditions = [
        item.model_dump(mode="json", by_alias=True, exclude_none=True)
        for item in found.status.conditions
    ]
    shown = {**_header(found), "conditions": conditions, "resources": resource_rows(found)}
    if output == "json":
        click.echo(json.dumps(shown, indent=2))
    elif output == "yaml":
        click.echo(yaml.safe_dump(shown, sort_keys=False).rstrip())
    else:
        for key, value in _header(found).items():
            click.echo(f"{key}: {value}")
        click.echo("")
        print_rows(conditions, CONDITIONS, output)
        click.echo("")
        print_rows(shown["resources"], RESOURCES, output)


def _header(found: Tenant) -> dict[str, Any]:
    spec, status = found.spec, found.status
    return {
        "name": found.metadata.name,
        "namespace": found.metadata.namespace,
        "state": summary_of(found.to_manifest()).state,
        "uid": spec.uid,
        "template": spec.template_ref,
        "revision": spec.template_revision or "",
        "registry": spec.registry_id or "",
        "ready": f"{status.ready_resources} of {status.desired_resources}",
    }


def resource_rows(found: Tenant) -> list[dict[str, str]]:
    """Return a row for each resource: what failed, was skipped or waits first, then what was applied."""
    status = found.status
    rows = [
        {"resource": item, "state": state, "why": why}
        for state, why, ids in (
            ("Failed", "it failed, or was not ready in time", status.failed_resource_ids),
            (
                "Conflicted",
                "another owner has it, or a field of it",
                status.conflicted_resource_ids,
            ),
            ("Skipped", "one that it depends on failed", status.skipped_resource_ids),
        )
        for item in ids
    ]
    rows += [
        {"resource": item.resource, "state": "RemovalPending", "why": item.reason}
        for item in status.pending_removals
    ]
    named = {row["resource"] for row in rows}
    rows += [
        {"resource": key, "state": "Applied", "why": ""}
        for key in status.applied_resources
        if key not in named and key.rpartition("@")[2] not in named
    ]
    return rows

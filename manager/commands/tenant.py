"""`manager tenant`: one tenant and what became of each of its resources, with the user's own rights."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import click
import yaml

from apis.tenancy import ResourcePhase, Tenant, TenantStatus
from manager.commands.output import echo
from manager.commands.summaries import summary_of
from manager.commands.tables import Column, output_option, print_fields, print_rows
from manager.flags.cluster import cluster_options, talk

AVAILABLE: Final = ResourcePhase.AVAILABLE
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
        echo(json.dumps(shown, indent=2))
    elif output == "yaml":
        echo(yaml.safe_dump(shown, sort_keys=False).rstrip())
    else:
        print_fields(_header(found))
        print_rows(conditions, CONDITIONS, output)
        echo("")
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
    """Return a row for each resource: what is not available first, with what it lacks, then what is."""
    status = found.status
    keys = {key.rpartition("@")[2]: key for key in status.applied_resources}
    conflicted = set(status.conflicted_resource_ids)
    rows = [
        {
            "resource": keys.get(item.id, item.id),
            "state": "Conflicted" if item.id in conflicted else item.phase.value,
            "why": item.message or _waits_for(item.waits_for),
        }
        for item in sorted(status.resources, key=lambda each: each.phase is AVAILABLE)
    ]
    listed = {item.id for item in status.resources}
    rows += [
        {"resource": name, "state": state, "why": why}
        for state, why, names in _troubles(status)
        for name in names
        if name not in listed
    ]
    rows += [
        {"resource": item.resource, "state": "RemovalPending", "why": item.reason}
        for item in status.pending_removals
    ]
    named = listed | {row["resource"].rpartition("@")[2] for row in rows}
    rows += [
        {"resource": key, "state": "Applied", "why": ""}
        for name, key in keys.items()
        if name not in named
    ]
    return rows


def _troubles(status: TenantStatus) -> list[tuple[str, str, list[str]]]:
    return [
        ("Failed", "it failed, or was not ready in time", status.failed_resource_ids),
        ("Conflicted", "another owner has it, or a field of it", status.conflicted_resource_ids),
        ("Skipped", "one that it depends on failed", status.skipped_resource_ids),
    ]


def _waits_for(names: Sequence[str]) -> str:
    return f"waits for {', '.join(names)}" if names else ""

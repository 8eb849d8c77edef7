"""`manager instance list` and `describe`: instances as tables, with the user's own rights."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import click
import yaml

from apis.cloud import Instance, TaskPriority
from ctrlruntime.client.client import Client
from internal.cloud.bulk import type_of
from manager.commands.output import echo
from manager.commands.summaries import summary_of
from manager.commands.tables import Column, output_option, print_fields, print_rows
from manager.flags.cluster import cluster_options, talk

LIST: Final = (
    Column("NAMESPACE", "namespace", wide=True),
    Column("NAME", "name"),
    Column("STATE", "state"),
    Column("TYPE", "type"),
    Column("VERSION", "version"),
    Column("WANTED", "wanted"),
    Column("ROLLOUT", "rollout", wide=True),
    Column("TASK", "task"),
    Column("WAITING", "waiting"),
    Column("PRIORITY", "priority"),
    Column("SINCE", "since", wide=True),
    Column("MESSAGE", "message"),
)
CHILDREN: Final = (
    Column("KIND", "kind"),
    Column("NAME", "name"),
    Column("PHASE", "phase"),
    Column("READY", "ready"),
    Column("RUN", "runID"),
    Column("MESSAGE", "message"),
)


@click.command("list")
@click.option("-A", "--all-namespaces", is_flag=True, help="Instances of every namespace.")
@click.option("--not-ready", is_flag=True, help="Only those that are not Ready.")
@output_option
@cluster_options
def list_instances(
    all_namespaces: bool,
    not_ready: bool,
    output: str,
    kubeconfig: Path | None,
    context: str | None,
    namespace: str,
) -> None:
    """List instances: state, version, the version wanted, what is under way."""

    async def read(client: Client) -> list[Instance]:
        return list(await client.list(Instance, None if all_namespaces else namespace))

    rows = [instance_row(item) for item in talk(kubeconfig, context, read)]
    rows.sort(key=lambda row: (row["namespace"], row["name"]))
    print_rows([row for row in rows if not (not_ready and row["state"] == "Ready")], LIST, output)


@click.command()
@click.argument("name")
@output_option
@cluster_options
def describe(
    name: str, output: str, kubeconfig: Path | None, context: str | None, namespace: str
) -> None:
    """Show one instance: its state, why it has its version, and each subresource."""
    found = talk(kubeconfig, context, lambda c: c.get(Instance, name, namespace=namespace))
    row, status = instance_row(found), found.status
    assigned = status.assigned_version
    shown: dict[str, Any] = {
        **row,
        "assigned": "" if assigned is None else assigned.message,
        "domains": list(status.domains),
    }
    children = [item.model_dump(mode="json", by_alias=True) for item in status.children]
    if output in {"json", "yaml"}:
        whole = {**shown, "children": children}
        text = json.dumps(whole, indent=2) if output == "json" else yaml.safe_dump(whole)
        echo(text.rstrip())
        return
    print_fields({key: value for key, value in shown.items() if value})
    print_rows(children, CHILDREN, output)


def instance_row(found: Instance) -> dict[str, Any]:
    """Return an instance as a row. Outputs of subresources are not part of it."""
    status, summary = found.status, summary_of(found.to_manifest())
    assigned, waiting = status.assigned_version, status.waiting
    return {
        "namespace": summary.namespace,
        "name": summary.name,
        "state": summary.state,
        "type": type_of(found),
        "version": status.version,
        "wanted": found.spec.wanted_version if assigned is None else assigned.version,
        "rollout": "" if assigned is None else assigned.rollout,
        "task": status.task,
        "waiting": "" if waiting is None else waiting.reason.value,
        "priority": _priority(found),
        "since": summary.since,
        "message": summary.message,
    }


def _priority(found: Instance) -> str:
    """Return the priority with which an instance waits, or else that of its spec; empty for Normal."""
    waiting = found.status.waiting
    given = (waiting and waiting.priority) or found.spec.priority
    return "" if given in (None, TaskPriority.NORMAL) else given.value

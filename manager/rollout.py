"""`manager rollout`: watch, hold and undo the rollouts of templates, with the user's own rights."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import click

from apis.tenancy import RolloutStatus, TenantTemplate
from ctrlruntime.client.client import Client, PatchType
from internal.tenancy.labels import RESUMED_AT, TEMPLATE
from internal.tenancy.naming import label_value
from internal.tenancy.template_revisions import CONTROLLER_REVISION, recorded_lists
from internal.tenancy.tenants import LISTS_EXCLUDED, Blueprint
from manager.cluster_flags import cluster_options, talk
from manager.tables import Column, output_option, print_rows


@click.group()
def rollout() -> None:
    """Rollouts of templates: status, history, pause, resume, undo."""


@dataclass(frozen=True, slots=True)
class _Revision:
    """A recorded revision of a template."""

    number: int
    version: str
    lists: dict[str, Any]
    created: str


_STATUS: Final = (
    Column("NAMESPACE", "namespace", wide=True),
    Column("NAME", "name"),
    Column("PHASE", "phase"),
    Column("REVISION", "targetRevision"),
    Column("TOTAL", "total"),
    Column("UPDATED", "updated"),
    Column("CHANGING", "changing"),
    Column("FAILED", "failed"),
    Column("WAITING", "waiting"),
    Column("ROLLED BACK", "rolledBack", wide=True),
    Column("KEPT", "kept", wide=True),
    Column("UNTIL", "waitingUntil", wide=True),
    Column("MESSAGE", "message"),
)
_HISTORY: Final = (
    Column("NUMBER", "number"),
    Column("REVISION", "revision"),
    Column("PRESENT", "present"),
    Column("CREATED", "created"),
)


@rollout.command()
@click.argument("name", required=False)
@click.option("-A", "--all-namespaces", is_flag=True, help="Templates of every namespace.")
@output_option
@cluster_options
def status(
    name: str | None,
    all_namespaces: bool,
    output: str,
    kubeconfig: Path | None,
    context: str | None,
    namespace: str,
) -> None:
    """Show how far templates with a rollout have come."""

    async def read(client: Client) -> list[TenantTemplate]:
        if name is not None:
            return [await client.get(TenantTemplate, name, namespace=namespace)]
        return list(await client.list(TenantTemplate, None if all_namespaces else namespace))

    found = talk(kubeconfig, context, read)
    staged = [item for item in found if item.spec.rollout is not None]
    if name is not None and not staged:
        raise click.ClickException(_no_rollout(name))
    staged.sort(key=lambda item: (item.metadata.namespace or "", item.metadata.name or ""))
    print_rows([_row(item) for item in staged], _STATUS, output)


@rollout.command()
@click.argument("name")
@output_option
@cluster_options
def history(
    name: str, output: str, kubeconfig: Path | None, context: str | None, namespace: str
) -> None:
    """Show the recorded revisions of a template, the newest last."""

    async def read(client: Client) -> tuple[TenantTemplate, list[_Revision]]:
        template = await client.get(TenantTemplate, name, namespace=namespace)
        return template, await _revisions(client, template)

    template, found = talk(kubeconfig, context, read)
    present = Blueprint.of(template).revision
    rows = [
        {
            "number": item.number,
            "revision": item.version,
            "present": item.version == present,
            "created": item.created,
        }
        for item in found
    ]
    print_rows(rows, _HISTORY, output)


@rollout.command()
@click.argument("name")
@cluster_options
def pause(name: str, kubeconfig: Path | None, context: str | None, namespace: str) -> None:
    """Change no more tenants of a template; those that are changing finish."""
    _patch_rollout(kubeconfig, context, name, namespace, {"spec": {"rollout": {"pause": True}}})
    click.echo(f"{name}: paused")


@rollout.command()
@click.argument("name")
@cluster_options
def resume(name: str, kubeconfig: Path | None, context: str | None, namespace: str) -> None:
    """Continue a rollout that is paused, halted or rolled back: what failed until now does not count."""
    patch = {
        "metadata": {"annotations": {RESUMED_AT: datetime.now(UTC).isoformat()}},
        "spec": {"rollout": {"pause": False}},
    }
    _patch_rollout(kubeconfig, context, name, namespace, patch)
    click.echo(f"{name}: resumed")


@rollout.command()
@click.argument("name")
@click.option(
    "--to-revision",
    type=click.IntRange(min=1),
    help="Number of the revision; default: the newest one that is not the present content.",
)
@cluster_options
def undo(
    name: str,
    to_revision: int | None,
    kubeconfig: Path | None,
    context: str | None,
    namespace: str,
) -> None:
    """Write recorded content back into a template; its tenants then change by its rollout."""

    async def write(client: Client) -> _Revision:
        template = await client.get(TenantTemplate, name, namespace=namespace)
        chosen = _choose(await _revisions(client, template), template, to_revision)
        gone = template.spec.to_wire().keys() - LISTS_EXCLUDED - chosen.lists.keys()
        patch = {
            "metadata": {"resourceVersion": template.metadata.resource_version},
            "spec": {**dict.fromkeys(gone), **chosen.lists},
        }
        await client.patch(TenantTemplate, name, patch, namespace=namespace, type=PatchType.MERGE)
        return chosen

    chosen = talk(kubeconfig, context, write)
    click.echo(f"{name}: back to revision {chosen.number} ({chosen.version})")


def _row(template: TenantTemplate) -> dict[str, Any]:
    status = template.status.rollout
    shown = {} if status is None else status.to_wire()
    for field in RolloutStatus.model_fields.values():
        if isinstance(field.default, int):
            shown.setdefault(field.alias or "", field.default)
    place = {"namespace": template.metadata.namespace, "name": template.metadata.name}
    return {**place, **shown}


def _patch_rollout(
    kubeconfig: Path | None, context: str | None, name: str, namespace: str, patch: dict[str, Any]
) -> None:
    """Patch a template that has a rollout."""

    async def write(client: Client) -> None:
        template = await client.get(TenantTemplate, name, namespace=namespace)
        if template.spec.rollout is None:
            raise click.ClickException(_no_rollout(name))
        await client.patch(TenantTemplate, name, patch, namespace=namespace, type=PatchType.MERGE)

    talk(kubeconfig, context, write)


async def _revisions(client: Client, template: TenantTemplate) -> list[_Revision]:
    """The recorded revisions of a template that are what their names say, by number."""
    name, uid = template.metadata.name or "", template.metadata.uid
    objects = await client.list(
        CONTROLLER_REVISION,
        template.metadata.namespace,
        labels=f"{TEMPLATE}={label_value(name)}",
    )
    found = []
    for item in objects:
        metadata = item["metadata"]
        owners = {each.get("uid") for each in metadata.get("ownerReferences") or ()}
        recorded = recorded_lists(metadata["name"], item.get("data"), name)
        if uid in owners and recorded is not None:
            version, lists = recorded
            created = str(metadata.get("creationTimestamp", ""))
            found.append(_Revision(int(item.get("revision", 0)), version, lists, created))
    return sorted(found, key=lambda each: each.number)


def _choose(found: list[_Revision], template: TenantTemplate, number: int | None) -> _Revision:
    """The revision to go back to. Raises ClickException if there is none."""
    name, present = template.metadata.name, Blueprint.of(template).revision
    if number is not None:
        chosen = [item for item in found if item.number == number]
    else:
        chosen = [item for item in found if item.version != present]
    if not chosen:
        known = ", ".join(str(item.number) for item in found) or "none"
        raise click.ClickException(
            f"template {name!r} has no such revision; recorded with other content or number: {known}"
        )
    if chosen[-1].version == present:
        raise click.ClickException(
            f"template {name!r} has the content of revision {number} already"
        )
    return chosen[-1]


def _no_rollout(name: str) -> str:
    return f"template {name!r} has no spec.rollout: a change reaches all of its tenants at once"

"""`manager approve`: what waits for a person, and the approval of one such set."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

import click

from apis.cloud import Instance
from apis.cosmos import CosmosFullNode, ScheduledVolumeSnapshot, StatefulJob
from apis.fleet import FleetConfig
from apis.fleet.labels import APPROVE_ORPHANS, ORPHAN_RECORD
from apis.tenancy import TenantRegistry, TenantTemplate
from ctrlruntime.client.client import Client, PatchType
from ctrlruntime.client.errors import Forbidden, NoKindMatch, NotFound
from internal.approvals.counted import STATUS
from internal.approvals.rules import REQUIRED, Policy
from internal.fleet.plane_check import NAMESPACE
from internal.removal_holds import HELD, allow_delete
from manager.commands.output import echo
from manager.commands.rollout import approve_wave
from manager.commands.tables import Column, output_option, print_rows
from manager.controllers.orphan_record import CONFIG_MAP
from manager.controllers.orphan_record import HELD as ORPHANS_HELD
from manager.flags.cluster import cluster_options, talk

PARENTS: Final[tuple[type[Any], ...]] = (
    TenantRegistry,
    TenantTemplate,
    Instance,
    CosmosFullNode,
    ScheduledVolumeSnapshot,
    StatefulJob,
    FleetConfig,
)
"""Kinds whose condition DeletionsHeld names what waits."""
_COLUMNS: Final = (
    Column("KIND", "kind"),
    Column("NAMESPACE", "namespace"),
    Column("NAME", "name"),
    Column("DIGEST", "digest"),
    Column("REASON", "reason", wide=True),
    Column("SINCE", "since", wide=True),
    Column("NEEDS", "needs", wide=True),
    Column("APPROVED", "approved", wide=True),
    Column("MESSAGE", "message"),
)
TARGET: Final = "Namespace"
"""Kind of a data plane's place on the hub, which holds what is gone from there."""
_ROLLOUTS: Final = frozenset({"fleetrollout", "fleetrollouts", "template"})
_APPROVES: Final = re.compile(
    r"([a-z.]+/(?:allow-delete|database-restored))=([0-9a-f]{16})\b", re.ASCII
)
"""Annotation and digest of the command that a message has."""


@dataclass(frozen=True, slots=True)
class HeldSet:
    """Deletions that wait for an approval."""

    kind: str
    namespace: str
    name: str
    digest: str
    """Empty where no approval lifts the hold."""
    reason: str
    since: str
    message: str
    needs: str = ""
    """The groups of which one has to approve; empty: everyone who may write it."""
    approved: str = ""
    """Who gave the approvals that counted last."""


@click.command()
@click.argument("target", metavar="[KIND/NAME | NAME]", required=False)
@click.option("--list", "only_list", is_flag=True, help="List the deletions that wait.")
@click.option("-A", "--all-namespaces", is_flag=True, help="With --list: those of every namespace.")
@click.option("--digest", help="Approve only the set, or the wave, of this digest.")
@click.option("--wave", help="The wave of a FleetRollout; default: the one in progress.")
@output_option
@cluster_options
def approve(
    target: str | None,
    only_list: bool,
    all_namespaces: bool,
    digest: str | None,
    wave: str | None,
    output: str,
    kubeconfig: Path | None,
    context: str | None,
    namespace: str,
) -> None:
    """Let held deletions happen, once, or a wave of a FleetRollout begin.

    KIND/NAME is an object whose condition DeletionsHeld shows the --digest of what is held, such as
    tenantregistry/customers, or the namespace of a data plane. NAME alone is a FleetRollout.
    """
    if only_list:
        place = None if all_namespaces else namespace
        held, unread = talk(kubeconfig, context, lambda client: held_sets(client, place))
        print_rows([asdict(each) for each in held], _COLUMNS, output)
        for each in unread:
            echo(f"{each}: you may not list them here", err=True)
        return
    if target is None:
        raise click.UsageError("name what is approved; `manager approve --list` shows what waits")
    word, slash, name = target.partition("/")
    if slash and word.lower() in {"namespace", "namespaces", "ns"}:
        orphans = talk(kubeconfig, context, lambda client: _approve_orphans(client, name, digest))
        echo(f"{target}: approved once: {orphans.message}")
        return
    kind = _parent(word) if slash else None
    if kind is None and slash and word.lower() not in _ROLLOUTS:
        known = ", ".join(sorted(["namespace", *(each.kind_options.singular for each in PARENTS)]))
        raise click.UsageError(f"{word!r} holds no deletions; what does: {known}")
    if kind is None:
        approve_wave(target, wave, digest, kubeconfig, context, namespace)
        return
    found = talk(
        kubeconfig, context, lambda client: _approve(client, kind, name, namespace, digest)
    )
    echo(f"{target}: approved once: {found.message}")


async def held_sets(client: Client, namespace: str | None) -> tuple[list[HeldSet], list[str]]:
    """Return what waits for an approval, and the kinds that the user may not list."""
    found: list[HeldSet] = []
    unread: list[str] = []
    for kind in PARENTS:
        gvk = kind.gvk()
        try:
            listed = await client.list(gvk, namespace if kind.mapping().namespaced else None)
        except (NotFound, NoKindMatch):
            continue
        except Forbidden:
            unread.append(gvk.kind)
            continue
        found += [held for item in listed if (held := _held(gvk.kind, item)) is not None]
    try:
        found += await _held_orphans(client, namespace)
    except Forbidden:
        unread.append("ConfigMap")
    return sorted(found, key=lambda each: (each.kind, each.namespace, each.name)), unread


async def _held_orphans(client: Client, namespace: str | None) -> list[HeldSet]:
    """Return what target namespaces hold of owners that are gone from their data planes."""
    records = await client.list(CONFIG_MAP, namespace, fields=f"metadata.name={ORPHAN_RECORD}")
    return [
        _set(TARGET, "", record["metadata"]["namespace"], message, reason="Orphans")
        for record in records
        if (message := (record.get("data") or {}).get(ORPHANS_HELD))
    ]


def _held(kind: str, manifest: Mapping[str, Any]) -> HeldSet | None:
    """Return what the object's condition holds."""
    metadata = manifest["metadata"]
    for condition in (manifest.get("status") or {}).get("conditions") or ():
        if condition.get("type") == HELD and condition.get("status") == "True":
            found = _set(
                kind,
                metadata.get("namespace", ""),
                metadata["name"],
                str(condition.get("message", "")),
                reason=str(condition.get("reason", "")),
                since=str(condition.get("lastTransitionTime", "")),
            )
            policy = Policy.of((manifest.get("spec") or {}).get(REQUIRED))
            known = (manifest["status"].get(STATUS) or {}).get("given") or ()
            given = [f"{each['value']} by {each['by']}" for each in known]
            return replace(found, needs=str(policy or ""), approved=", ".join(given))
    return None


def _set(
    kind: str, namespace: str, name: str, message: str, *, reason: str, since: str = ""
) -> HeldSet:
    """Return a held set; its digest is that of the command in the message."""
    digest = _APPROVES.search(message)
    return HeldSet(kind, namespace, name, digest[2] if digest else "", reason, since, message)


def _parent(word: str) -> type[Any] | None:
    """Return the kind of that name, in the words that kubectl takes."""
    for kind in PARENTS:
        options = kind.kind_options
        if word.lower() in {options.singular, options.plural, *options.short_names}:
            return kind
    return None


async def _approve(
    client: Client, kind: type[Any], name: str, namespace: str, digest: str | None
) -> HeldSet:
    mapping = kind.mapping()
    place = namespace if mapping.namespaced else None
    manifest = await client.get(mapping, name, namespace=place)
    found = _checked(name, _held(mapping.gvk.kind, manifest), digest)
    command = _APPROVES.search(found.message)
    annotation = allow_delete(mapping.gvk.group) if command is None else command[1]
    if (manifest["metadata"].get("annotations") or {}).get(annotation) == found.digest:
        gone = {
            "metadata": {"annotations": {annotation: None}}
        }  # else who approves is not recorded
        await client.patch(mapping, name, gone, namespace=place, type=PatchType.MERGE)
    patch = {"metadata": {"annotations": {annotation: found.digest}}}
    await client.patch(mapping, name, patch, namespace=place, type=PatchType.MERGE)
    return found


async def _approve_orphans(client: Client, name: str, digest: str | None) -> HeldSet:
    found = _checked(name, next(iter(await _held_orphans(client, name)), None), digest)
    patch = {"metadata": {"annotations": {APPROVE_ORPHANS: found.digest}}}
    await client.patch(NAMESPACE, name, patch, type=PatchType.MERGE)
    return found


def _checked(name: str, found: HeldSet | None, digest: str | None) -> HeldSet:
    """Return the set that the digest names. Raises ClickException for any other."""
    if found is None:
        raise click.ClickException(f"{name}: nothing that it wants to delete waits")
    if not found.digest:
        raise click.ClickException(f"{name}: no digest approves this: {found.message}")
    if digest != found.digest:
        wrong = "another set is held by now" if digest else "name the set that you have read"
        raise click.ClickException(
            f"{name}: {wrong}: {found.message} Approve it with --digest {found.digest}"
        )
    return found

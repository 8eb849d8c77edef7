"""What to run next for an object, ready to be pasted into a shell. Pure."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from typing import Any, Final

from apis.health import Health
from ctrlruntime.cache.entry import Entry
from manager.console.paths import PLURALS, RUNS
from manager.console.rows import Row

Command = tuple[str, str]
"""What it is for, and the command."""
_APPROVES: Final = re.compile(r"/(?:allow-delete|database-restored)=([0-9a-f]{16})\b", re.ASCII)
"""The digest in a condition that holds deletions."""
ROLLED: Final = {"TenantTemplate": "template", "FleetRollout": "fleetrollout"}
"""Kinds that have rollouts, as `manager rollout` names them."""


def commands_for(entry: Entry, row: Row) -> list[Command]:
    """Return the commands, what the state of the object needs before what only shows it."""
    status: Mapping[str, Any] = entry.field("status") or {}
    return [*_to_act(entry, row, status), *_to_show(entry, row)]


def _to_act(entry: Entry, row: Row, status: Mapping[str, Any]) -> Iterator[Command]:
    kind, name, place = entry.kind, shlex.quote(entry.name), _place(entry)
    failing = row.summary.health is Health.FAILING
    if digest := _held(status):
        target = f"{kind.lower()}/{name} --digest {digest}"
        yield "See what is held", "manager approve --list" + place
        yield "Let it happen, once", f"manager approve {target}{place}"
    if kind in ROLLED:
        phase, target = _phase(kind, status), f"{ROLLED[kind]}/{name}"
        if phase == "WaitingForApproval":
            yield "Let the wave in progress begin", f"manager rollout approve {target}{place}"
        if phase in {"Halted", "Paused", "Aborted", "RolledBack"}:
            yield "Let it go on", f"manager rollout resume {target}{place}"
    if kind == "Instance" or kind in RUNS:
        owner = _instance(entry)
        if (status.get("waiting") or {}).get("reason") == "Approval":
            yield (
                "See the plan that waits, and approve it",
                f"manager instance approve {owner}{place}",
            )
        if failing:
            yield "Read the log of what failed", f"manager instance logs {owner}{place}"
            yield "Try it again", f"manager instance retry {owner}{place}"
        if row.summary.state == "Paused":
            yield "Go on with it", f"manager instance resume {owner}{place}"
    if kind == "ChangeFreeze" and row.summary.state == "Active":
        yield "End it: changes go on within seconds", f"manager freeze end {name}"


def _to_show(entry: Entry, row: Row) -> Iterator[Command]:
    kind, name, place = entry.kind, shlex.quote(entry.name), _place(entry)
    if kind == "Tenant":
        yield "See each of its resources", f"manager tenant {name}{place}"
        yield "Draw what waits for what", f"manager graph {name} --tenant" + place
    if kind == "TenantTemplate":
        yield "Draw what waits for what", f"manager graph {name}{place}"
    if kind == "TenantRegistry":
        yield "See what the next sync would do", f"manager plan --registry {name}{place}"
    if kind in ROLLED and (kind == "FleetRollout" or _phase(kind, entry.field("status") or {})):
        yield "See how far it has come", f"manager rollout status {ROLLED[kind]}/{name}{place}"
        if _phase(kind, entry.field("status") or {}) in {"Progressing", "WaitingForWindow"}:
            yield "Hold it", f"manager rollout pause {ROLLED[kind]}/{name}{place}"
    if kind == "Instance" or kind in RUNS:
        yield "See it with its subresources", f"manager instance describe {_instance(entry)}{place}"
    if kind == "ChangeFreeze":
        yield "See what is frozen", "manager freeze list"
    if kind == "FleetConfig":
        yield "See the data planes", "manager fleet top"
    if not row.summary.is_good or entry.deletion_timestamp:
        yield "See its events", f"kubectl events --for {kind}/{name}{place}"
    resource = f"{PLURALS[kind]}.{entry.api_version.partition('/')[0]}"
    yield "See all of it", f"kubectl get {resource} {name}{place} -o yaml"


def _place(entry: Entry) -> str:
    return f" -n {shlex.quote(entry.namespace)}" if entry.namespace else ""


def _phase(kind: str, status: Mapping[str, Any]) -> str:
    found = (status.get("rollout") or {}) if kind == "TenantTemplate" else status
    return str(found.get("phase") or "")


def _held(status: Mapping[str, Any]) -> str:
    """Return the digest of the deletions that are held; empty for none."""
    for item in status.get("conditions") or ():
        if (item.get("type"), item.get("status")) == ("DeletionsHeld", "True"):
            found = _APPROVES.search(str(item.get("message", "")))
            return found[1] if found else ""
    return ""


def _instance(entry: Entry) -> str:
    """Return the name of the Instance that a subresource is of, or the object is."""
    owner = next((each.name for each in entry.owners if each.kind == "Instance"), entry.name)
    return shlex.quote(owner)

"""The pages of one object each: where it stands, what it belongs to, what it is made of, what happened, what to run next."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from aiohttp import web

from apis.cloud import Instance
from apis.tenancy import Tenant
from ctrlruntime.api.kinds import GroupKind
from ctrlruntime.cache.entry import Entry
from internal.cloud.run_tails import LogSource, NoLog
from manager.commands.instance_views import instance_row
from manager.console import charts, rollout_view, samples, tenant_view, timeline, tree
from manager.console.access import CLAIMS, EVENTS, PODS, Sight
from manager.console.commands import commands_for
from manager.console.fleet_view import States, line
from manager.console.index import KindIndex
from manager.console.paths import PLURALS, RUNS, rollout_path, yaml_path
from manager.console.rendering import link
from manager.console.rows import ENDED, Row
from manager.console.scopes import namespace_of
from manager.console.state import ConsoleState

FIELDS: Final = (
    *("runID", "state", "outcome", "operation", "attempt", "message", "logs", "createdAt"),
    *("startedAt", "finishedAt", "deadline", "interruptAt", "retryAt", "inputsVersion"),
)
"""What of a run is shown."""
_COUNTS: Final = ("add", "change", "destroy", "replace")
PLAN_FIELDS: Final = ("digest", *_COUNTS, "link", "since", "checkedAt")
"""What of a plan that waits is shown, besides the addresses."""
_FAILURE: Final = re.compile(r"\b(error|fatal|panic|failed|failure|exception)\b", re.IGNORECASE)
"""What a line of a log has that reports a failure."""
STEPS: Final = ("Pending", "Creating", "Created", "Started", "Done")

Model = dict[str, Any]
Special = Callable[[ConsoleState, Entry, Sight], Awaitable[Model]]
_POD: Final = GroupKind("", "Pod")
_CLAIM: Final = GroupKind("", "PersistentVolumeClaim")
_SCALARS: Final = (str, int, bool)


def object_page(
    special: Special,
) -> Callable[[ConsoleState, web.Request, Sight], Awaitable[Model]]:
    """Return what makes the model of an object's page. `special`: makes what only its kind has."""

    async def model(state: ConsoleState, request: web.Request, seen: Sight) -> Model:
        entry, row = _found(seen, request)
        status: Mapping[str, Any] = entry.field("status") or {}
        happened = state.journal.of(entry.kind, entry.namespace, entry.name)
        events = EVENTS in seen.parts
        return {
            "kind": entry.kind,
            "name": entry.name,
            "place": entry.namespace,
            "plural": PLURALS[entry.kind],
            "row": row,
            "message": _message(row, status),
            "yaml": yaml_path(entry.kind, entry.namespace, entry.name),
            "rollout_page": _rollout_page(entry, status),
            "tree": _tree(state, entry, row, seen),
            "groups": list(_groups(entry, seen)),
            "conditions": list(status.get("conditions") or ()),
            "commands": commands_for(entry, row),
            "moments": timeline.timeline_of(
                entry, (each for each in happened if events or not each.is_event)
            ),
            **(await special(state, entry, seen)),
        }

    return model


async def manifest_page(state: ConsoleState, request: web.Request, seen: Sight) -> Model:
    """Return the model of the page with an object's manifest."""
    from manager.console.manifest_view import manifest_text

    entry, row = _found(seen, request)
    text, is_cut = await asyncio.to_thread(manifest_text, entry)
    return {
        "kind": entry.kind,
        "name": entry.name,
        "text": text,
        "is_cut": is_cut,
        "commands": commands_for(entry, row)[-1:],
        "row": row,
    }


# -- what only some kinds have --------------------------------------------------------------------


async def of_tenant(_state: ConsoleState, entry: Entry, _seen: Sight) -> Model:
    """Return the graph of a tenant's resources."""
    from internal.tenancy.objects.graph import load

    tenant = entry.typed(Tenant)
    await load()
    nodes = tenant_view.nodes_of(tenant)
    status = tenant.status
    return {
        "facts": {
            "row": tenant.spec.uid,
            "template revision": tenant.spec.template_revision or "",
            "ready": f"{status.ready_resources} of {status.desired_resources} resources",
        },
        "nodes": nodes,
        "picture": tenant_view.picture_of(nodes),
        "removals": status.pending_removals,
    }


async def of_instance(_state: ConsoleState, entry: Entry, _seen: Sight) -> Model:
    """Return an instance's version, why it has it, and its subresources."""
    instance = entry.typed(Instance)
    row = instance_row(instance)
    assigned = instance.status.assigned_version
    return {
        "facts": {
            **{key: row[key] for key in ("type", "version", "wanted", "task", "waiting")},
            "assigned": "" if assigned is None else assigned.message,
        },
        "children": instance.status.children,
    }


async def of_run(state: ConsoleState, entry: Entry, seen: Sight) -> Model:
    """Return the run of an object's task, with its log."""
    status = entry.field("status") or {}
    return {"output": await _output(state, entry, seen), **run_page(status)}


async def of_rollout(state: ConsoleState, entry: Entry, _seen: Sight) -> Model:
    """Return a rollout with its waves. Raises HTTPNotFound for a template that has none."""
    progress = rollout_view.rollout_row(entry, state.estimates, state.clock())
    if progress is None:
        raise web.HTTPNotFound
    lines = state.history.lines(samples.rollout_chart(rollout_view.rollout_key(entry)))
    return {
        "progress": progress,
        "strategy": rollout_view.strategy_of(entry),
        "waves": rollout_view.planned_waves(entry, progress),
        "chart": charts.chart_of("Members updated", lines),
    }


async def of_other(state: ConsoleState, entry: Entry, _seen: Sight) -> Model:
    """Return the plain settings of an object, and the heights of a set of nodes."""
    lines = state.history.lines(samples.heights_chart(entry.namespace, entry.name))
    return {
        "chart": charts.chart_of("Height of each node", lines, from_zero=False),
        "facts": await asyncio.to_thread(_settings, entry),
    }


async def _output(state: ConsoleState, entry: Entry, seen: Sight) -> Model:
    """Return the last lines that the run of an object printed, or why there are none."""
    source = _log_source(entry)
    if source is None:
        return {"lines": (), "note": ""}
    if not seen.logs:
        note = f"It takes the right to get pods/log in namespace {entry.namespace}."
        return {"lines": (), "note": note}
    try:
        tail = await state.run_tails.read(source)
    except NoLog as error:
        return {"lines": (), "note": str(error)}
    note = "" if tail.lines else "The run has printed nothing."
    return {"lines": log_lines(tail.lines), "note": note}


def _log_source(entry: Entry) -> LogSource | None:
    run = (entry.field("status") or {}).get("run")
    return LogSource.of(entry.namespace, entry.uid, run) if run else None


def followed_log(request: web.Request, seen: Sight) -> LogSource | None:
    """Return the log of a run that is under way, for whom logs may be shown."""
    entry = seen.kinds[0].get(namespace_of(request), request.match_info["name"])
    if entry is None or not seen.logs:
        return None
    run = (entry.field("status") or {}).get("run") or {}
    return _log_source(entry) if run.get("logs") and run.get("state") not in ENDED else None


# -- what all have --------------------------------------------------------------------------------


def _found(seen: Sight, request: web.Request) -> tuple[Entry, Row]:
    namespace, name = namespace_of(request), request.match_info["name"]
    entry, row = seen.kinds[0].get(namespace, name), seen.kinds[0].row(namespace, name)
    if entry is None or row is None:
        raise web.HTTPNotFound
    return entry, row


def _message(row: Row, status: Mapping[str, Any]) -> str:
    """Return why an object is where it is, whole: a row has the beginning alone."""
    texts = [str(status.get("message") or ""), str(status.get("status") or "")]
    texts += [str(item.get("message") or "") for item in status.get("conditions") or ()]
    head = row.summary.message.removesuffix("…")
    return next((text for text in texts if head and text.startswith(head)), row.summary.message)


def _settings(entry: Entry) -> dict[str, str]:
    """Return the plain values of an object's spec, by name: what is nested or may be secret is left out."""
    from manager.console.manifest_view import HIDDEN, shown

    spec: Mapping[str, Any] = shown(entry).get("spec") or {}
    return {
        key: str(value).lower() if isinstance(value, bool) else str(value)
        for key, value in spec.items()
        if isinstance(value, _SCALARS) and value not in ("", HIDDEN)
    }


def _rollout_page(entry: Entry, status: Mapping[str, Any]) -> str:
    if entry.kind == "TenantTemplate" and status.get("rollout"):
        return rollout_path(entry.kind, entry.namespace, entry.name)
    return ""


def _tree(state: ConsoleState, entry: Entry, row: Row, seen: Sight) -> tree.Node:
    """Return the object below what it belongs to, and above what it is made of."""
    own = tree.node_of(row, _children(state, entry, row, seen))
    parents = [
        tree.named(kind, place, name, _row(seen, kind, place, name))
        for kind, place, name in _parents(entry)
    ]
    return tree.below(parents, replace(own, current=True))


def _parents(entry: Entry) -> Iterator[tuple[str, str, str]]:
    """Yield kind, namespace and name of what an object belongs to, the outermost first."""
    spec: Mapping[str, Any] = entry.field("spec") or {}
    place = entry.namespace
    named: list[tuple[str, str, object]] = []
    match entry.kind:
        case "Tenant":
            named.append(("TenantRegistry", place, spec.get("registryId")))
            named.append(("TenantTemplate", place, spec.get("templateRef")))
        case "TenantTemplate":
            named.append(("TenantRegistry", place, spec.get("registryId")))
        case "Instance":
            assigned = (entry.field("status") or {}).get("assignedVersion") or {}
            named.append(("FleetRollout", place, assigned.get("rollout")))
        case "ScheduledVolumeSnapshot":
            reference = spec.get("fullNodeRef") or {}
            of_set = str(reference.get("namespace") or place)
            named.append(("CosmosFullNode", of_set, reference.get("name")))
    known = {(kind, str(name)) for kind, _, name in named if name}
    named += [
        (owner.kind, place, owner.name)
        for owner in entry.owners
        if (owner.kind, owner.name) not in known
    ]
    return ((kind, where, str(name)) for kind, where, name in named if name)


def _children(state: ConsoleState, entry: Entry, row: Row, seen: Sight) -> Iterable[tree.Node]:
    if entry.kind == "CosmosFullNode":
        return _of_set(state, entry, seen)
    if entry.kind == "Tenant":
        return tree.resource_nodes(tenant_view.nodes_of(entry.typed(Tenant)))
    if entry.kind in RUNS:
        return tree.run_nodes(row)
    if entry.kind == "Instance":
        return _of_instance(entry, seen)
    if entry.kind == "TenantRegistry":
        templates = _index(seen, "TenantTemplate")
        found = () if templates is None else templates.entries(entry.namespace)
        names = [each.name for each in found if _registry(each) == entry.name]
        rows = [(name, _row(seen, "TenantTemplate", entry.namespace, name)) for name in names]
        return [tree.named("TenantTemplate", entry.namespace, *each) for each in rows]
    return [tree.node_of(each) for index in seen.related for each in index.owned(entry.uid)]


def _of_instance(entry: Entry, seen: Sight) -> Iterator[tree.Node]:
    """Yield the subresources in the order of their work, each with its run; then others that the instance owns."""
    order = (entry.field("status") or {}).get("children") or ()
    shown: set[tuple[str, str]] = set()
    for child in order:
        kind, name = str(child.get("kind", "")), str(child.get("name", ""))
        found = _row(seen, kind, entry.namespace, name)
        shown.add((kind, name))
        if found is None:
            yield tree.reported(kind, entry.namespace, child)
        else:
            yield tree.node_of(found, tree.run_nodes(found))
    for index in seen.related:
        for row in index.owned(entry.uid):
            if (row.summary.kind, row.summary.name) not in shown:
                yield tree.node_of(row, tree.run_nodes(row))


def _of_set(state: ConsoleState, entry: Entry, seen: Sight) -> Iterator[tree.Node]:
    """Yield the nodes of a set with their claims, then what copies their disks."""
    pods = state.owned_parts(_POD, entry.uid) if PODS in seen.parts else ()
    claims = state.owned_parts(_CLAIM, entry.uid) if CLAIMS in seen.parts else ()
    yield from tree.chain_nodes(entry.field("status") or {}, pods, claims)
    for index in seen.related:
        for each in index.entries(entry.namespace):
            reference = (each.field("spec") or {}).get("fullNodeRef") or {}
            row = index.row(each.namespace, each.name)
            if row is not None and reference.get("name") == entry.name:
                yield tree.node_of(row)


def _groups(entry: Entry, seen: Sight) -> Iterator[Model]:
    """Yield what there is too much of for a tree: counts by state, each a link to the list."""
    kind = {"TenantTemplate": "Tenant", "FleetRollout": "Instance"}.get(entry.kind, "")
    index = _index(seen, kind)
    if index is None:
        return
    states: States = States()
    for (place, group, _, state, health), count in index.counts.items():
        if (place, group) == (entry.namespace, entry.name):
            states[state, health] += count
    path = f"/objects/{PLURALS[kind]}"
    yield {
        "title": f"{kind}s",
        "line": line(kind, states),
        "path": link(path, namespace=entry.namespace, group=entry.name),
    }


def _registry(template: Entry) -> str:
    return str((template.field("spec") or {}).get("registryId") or "")


def _index(seen: Sight, kind: str) -> KindIndex | None:
    return next((each for each in seen.related if each.kind == kind), None)


def _row(seen: Sight, kind: str, namespace: str, name: str) -> Row | None:
    index = _index(seen, kind)
    return None if index is None else index.row(namespace, name)


def run_fields(run: Mapping[str, Any] | None) -> dict[str, str]:
    """Return what of a run is shown, by name; empty for none."""
    return {name: str(run[name]) for name in FIELDS if run.get(name)} if run else {}


def run_page(status: Mapping[str, Any]) -> dict[str, Any]:
    """Return the model of the page, from the status of the object whose task runs."""
    run = run_fields(status.get("run"))
    waiting = status.get("waiting") or {}
    return {
        "phase": str(status.get("phase", "")),
        "message": str(status.get("message", "")),
        "run": run,
        "step": STEPS.index(run["state"]) if run.get("state") in STEPS else 0,
        "steps": len(STEPS) - 1,
        "plan": _plan(status.get("plan")),
        "waiting": {key: str(value) for key, value in waiting.items() if value},
        "log": [
            {
                key: str(item.get(key, ""))
                for key in ("lastTransitionTime", "type", "status", "reason", "message", "runID")
            }
            for item in status.get("taskConditions") or []
        ],
        "history": [run_fields(item) for item in status.get("history") or []],
    }


def log_lines(lines: Iterable[str]) -> list[tuple[str, bool]]:
    """Return the lines of a log, each with whether it reports a failure."""
    return [(line, _FAILURE.search(line) is not None) for line in lines]


def _plan(plan: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return a plan that waits: its facts, and the addresses of what it destroys or replaces."""
    if not plan:
        return None
    given = {**dict.fromkeys(_COUNTS, 0), **plan}
    facts = {name: str(given[name]) for name in PLAN_FIELDS if given.get(name) is not None}
    return {"facts": facts, "destroys": [str(item) for item in plan.get("destroys") or ()]}

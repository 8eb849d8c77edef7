"""The pages: what each shows, and so what right it takes. Models are made from the cache alone."""

from __future__ import annotations

import heapq
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from aiohttp import web

from apis.cloud import Instance
from apis.health import Health
from apis.tenancy import Tenant
from ctrlruntime.cache.entry import Entry
from internal.cloud.run_tails import LogSource, NoLog
from manager.console import fleet_view, process_view, rollout_view, run_view, tenant_view
from manager.console.access import Scope, Sight
from manager.console.index import KindIndex
from manager.console.rows import ENDED, Row
from manager.instance_views import instance_row
from manager.summaries import urgency

if TYPE_CHECKING:
    from manager.console.state import ConsoleState

PER_PAGE: Final = 50
"""Rows of a page: with messages of the longest allowed it stays below 100 KiB."""
ROLLOUTS: Final = ("TenantTemplate", "FleetRollout")
RUNS: Final = (
    *("InstanceTerraform", "UpgradeInstanceTask", "InstanceKubernetes"),
    *("InstanceKubernetesPVC", "InstanceInvariants"),
)

Model = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Page:
    """One page: its path, template, what it shows, and how its model is made."""

    path: str
    template: str
    title: str
    scope: Callable[[ConsoleState, web.Request], Scope]
    model: Callable[[ConsoleState, web.Request, Sight], Awaitable[Model]]
    in_menu: bool = True
    log: Callable[[web.Request, Sight], LogSource | None] = lambda _request, _seen: None
    """The log that its stream follows, if any."""


# -- what the pages show --------------------------------------------------------------------------


def namespace_of(request: web.Request) -> str:
    """Return the namespace that a page is of; empty for all."""
    return request.match_info.get("namespace") or request.query.get("namespace", "").strip()


def _of_kinds(*kinds: str) -> Callable[[ConsoleState, web.Request], Scope]:
    def scope(state: ConsoleState, request: web.Request) -> Scope:
        found = state.indexes if not kinds else state.of_kinds(kinds)
        return Scope(kinds=tuple(found), namespace=namespace_of(request))

    return scope


def _of_plural(*kinds: str, logs: bool = False) -> Callable[[ConsoleState, web.Request], Scope]:
    def scope(state: ConsoleState, request: web.Request) -> Scope:
        index = state.of_plural(request.match_info["plural"])
        if index is None or (kinds and index.kind not in kinds):
            raise web.HTTPNotFound
        name = request.match_info.get("name", "")
        return Scope(kinds=(index,), namespace=namespace_of(request), name=name, logs=logs)

    return scope


def _of_object(kind: str) -> Callable[[ConsoleState, web.Request], Scope]:
    def scope(state: ConsoleState, request: web.Request) -> Scope:
        found = state.of_kinds((kind,))
        if not found:
            raise web.HTTPNotFound
        name = request.match_info["name"]
        return Scope(kinds=tuple(found), namespace=namespace_of(request), name=name)

    return scope


def _of_process(_state: ConsoleState, _request: web.Request) -> Scope:
    return Scope(process=True)


def _of_planes(state: ConsoleState, _request: web.Request) -> Scope:
    return Scope(kinds=tuple(state.of_kinds(("FleetConfig",))), process=True)


# -- models ---------------------------------------------------------------------------------------


async def _fleet(state: ConsoleState, request: web.Request, seen: Sight) -> Model:
    namespace = namespace_of(request)
    kinds = [
        fleet_view.KindCounts(each.kind, each.mapping.plural, each.counts) for each in seen.kinds
    ]
    counts = {each.kind: each.counts for each in kinds}
    rollouts = _rollout_rows(state, seen.kinds, namespace)
    return {
        "kinds": fleet_view.kind_lines(kinds, namespace),
        "versions": fleet_view.grouped(counts.get("Instance", {}), namespace, by_version=True),
        "templates": fleet_view.grouped(counts.get("Tenant", {}), namespace, by_version=False),
        "waves": fleet_view.waves_in_progress(rollouts)[: fleet_view.MOST_GROUPS],
        "rows": fleet_view.worst(_urgent(seen, namespace)),
        "failing": sum(1 for _ in _urgent(seen, namespace)),
        "waits": fleet_view.worst(_at_work(seen, namespace)),
        "waiting": sum(1 for _ in _at_work(seen, namespace)),
    }


async def _failures(_state: ConsoleState, request: web.Request, seen: Sight) -> Model:
    return {
        **paged(request, _urgent(seen, namespace_of(request)), urgency),
        "caption": "What has failed or was not observed, the oldest first",
        "nothing": "Nothing has failed.",
    }


async def _waiting(_state: ConsoleState, request: web.Request, seen: Sight) -> Model:
    return {
        **paged(request, _at_work(seen, namespace_of(request)), urgency),
        "caption": "What is at work or waits, the oldest first",
        "nothing": "Nothing is at work, and nothing waits.",
    }


def _urgent(seen: Sight, namespace: str) -> Iterable[Row]:
    return (row for row in _not_good(seen, namespace) if row.summary.health is not Health.WAITING)


def _at_work(seen: Sight, namespace: str) -> Iterable[Row]:
    return (row for row in _not_good(seen, namespace) if row.summary.health is Health.WAITING)


def _not_good(seen: Sight, namespace: str) -> Iterable[Row]:
    return _in_namespace((row for each in seen.kinds for row in each.not_good.values()), namespace)


async def _objects(_state: ConsoleState, request: web.Request, seen: Sight) -> Model:
    query = request.query
    wanted = [(read, query[key]) for key, read in _FILTERS.items() if key in query]
    text = query.get("q", "").strip()
    rows = [
        row
        for row in seen.kinds[0].rows(namespace_of(request))
        if text in row.summary.name and all(read(row) == value for read, value in wanted)
    ]
    model = paged(request, rows, lambda item: (item.namespace, item.name))
    return {**model, "kind": seen.kinds[0].kind, "plural": seen.kinds[0].mapping.plural}


_FILTERS: Final[Mapping[str, Callable[[Row], str]]] = {
    "state": lambda row: row.summary.state,
    "version": lambda row: row.summary.version,
    "group": lambda row: row.group,
}


async def _tenant(_state: ConsoleState, request: web.Request, seen: Sight) -> Model:
    from internal.tenancy.graph import load

    tenant = _entry(seen, request).typed(Tenant)
    await load()
    nodes = tenant_view.nodes_of(tenant)
    status = tenant.status
    return {
        "name": tenant.metadata.name,
        "facts": {
            "template": tenant.spec.template_ref,
            "template revision": tenant.spec.template_revision or "",
            "registry": tenant.spec.registry_id or "",
            "ready": f"{status.ready_resources} of {status.desired_resources} resources",
        },
        "conditions": _conditions(status.conditions),
        "nodes": nodes,
        "picture": tenant_view.picture_of(nodes),
        "removals": status.pending_removals,
    }


async def _instance(_state: ConsoleState, request: web.Request, seen: Sight) -> Model:
    instance = _entry(seen, request).typed(Instance)
    row = instance_row(instance)
    assigned = instance.status.assigned_version
    return {
        "name": row["name"],
        "facts": {
            **{key: row[key] for key in ("state", "type", "version", "wanted", "task", "waiting")},
            "message": row["message"],
            "assigned": "" if assigned is None else assigned.message,
        },
        "rollout": row["rollout"],
        "conditions": _conditions(instance.status.conditions),
        "children": instance.status.children,
    }


async def _runs(_state: ConsoleState, request: web.Request, seen: Sight) -> Model:
    rows = _in_namespace(
        (row for each in seen.kinds for row in each.active.values()), namespace_of(request)
    )
    return paged(request, rows, lambda item: (item.state != "Running", *urgency(item)))


async def _run(state: ConsoleState, request: web.Request, seen: Sight) -> Model:
    entry = _entry(seen, request)
    status = entry.field("status") or {}
    return {
        "name": entry.name,
        "kind": entry.kind,
        "output": await _output(state, entry, seen),
        **run_view.run_page(status),
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
    return {"lines": tail.lines, "note": "" if tail.lines else "The run has printed nothing."}


def _log_source(entry: Entry) -> LogSource | None:
    run = (entry.field("status") or {}).get("run")
    return LogSource.of(entry.namespace, entry.uid, run) if run else None


def _followed_log(request: web.Request, seen: Sight) -> LogSource | None:
    """Return the log of a run that is under way, for whom logs may be shown."""
    entry = seen.kinds[0].get(namespace_of(request), request.match_info["name"])
    if entry is None or not seen.logs:
        return None
    run = (entry.field("status") or {}).get("run") or {}
    return _log_source(entry) if run.get("logs") and run.get("state") not in ENDED else None


async def _rollouts(state: ConsoleState, request: web.Request, seen: Sight) -> Model:
    rows = _rollout_rows(state, seen.kinds, namespace_of(request))
    number, pages = _page_of(request, len(rows))
    return {
        "rollouts": rows[(number - 1) * PER_PAGE : number * PER_PAGE],
        "total": len(rows),
        "page": number,
        "pages": pages,
    }


async def _rollout(state: ConsoleState, request: web.Request, seen: Sight) -> Model:
    entry = _entry(seen, request)
    row = rollout_view.rollout_row(entry, state.estimates, state.clock())
    if row is None:
        raise web.HTTPNotFound
    return {
        "name": entry.name,
        "row": row,
        "strategy": rollout_view.strategy_of(entry),
        "waves": rollout_view.planned_waves(entry, row),
    }


async def _held(_state: ConsoleState, request: web.Request, seen: Sight) -> Model:
    rows = _in_namespace(
        (row for each in seen.kinds for row in each.held.values()), namespace_of(request)
    )
    return paged(request, rows, lambda item: (item.kind, item.namespace, item.name))


async def _queues(state: ConsoleState, _request: web.Request, _seen: Sight) -> Model:
    return process_view.queues(state.manager)


async def _planes(state: ConsoleState, _request: web.Request, seen: Sight) -> Model:
    configs = [entry for each in seen.kinds for entry in each.entries()]
    clusters = process_view.clusters(state.manager) if seen.process else []
    return {
        "planes": process_view.planes(configs),
        "has_config": bool(seen.kinds),
        "clusters": clusters,
    }


# -- parts ----------------------------------------------------------------------------------------


def paged(request: web.Request, rows: Iterable[Row], order: Callable[[Any], Any]) -> Model:
    """Return one page of rows, and how many there are."""
    found = list(rows)
    number, pages = _page_of(request, len(found))
    last = number * PER_PAGE
    key = lambda row: order(row.summary)  # noqa: E731 - of two sorts
    few = last * 20 < len(found)
    first = heapq.nsmallest(last, found, key=key) if few else sorted(found, key=key)
    shown = first[last - PER_PAGE : last]
    return {"rows": shown, "total": len(found), "page": number, "pages": pages}


def _page_of(request: web.Request, total: int) -> tuple[int, int]:
    pages = max(-(-total // PER_PAGE), 1)
    asked = request.query.get("page", "1")
    return min(max(int(asked) if asked.isdecimal() and len(asked) < 9 else 1, 1), pages), pages


def _in_namespace(rows: Iterable[Row], namespace: str) -> Iterable[Row]:
    return (row for row in rows if namespace in {"", row.summary.namespace})


def _entry(seen: Sight, request: web.Request) -> Entry:
    found = seen.kinds[0].get(namespace_of(request), request.match_info["name"])
    if found is None:
        raise web.HTTPNotFound
    return found


def _rollout_rows(
    state: ConsoleState, kinds: Iterable[KindIndex], namespace: str
) -> list[dict[str, Any]]:
    rows = (
        rollout_view.rollout_row(entry, state.estimates, state.clock())
        for each in kinds
        if each.kind in ROLLOUTS
        for entry in each.entries(namespace)
    )
    found = [row for row in rows if row is not None]
    return sorted(found, key=lambda row: (row["phase"] in _OVER, row["namespace"], row["name"]))


_OVER: Final = frozenset({"Complete", "Superseded", "Aborted", "RolledBack"})


def _conditions(conditions: Iterable[Any]) -> list[dict[str, Any]]:
    return [item.model_dump(mode="json", by_alias=True, exclude_none=True) for item in conditions]


PAGES: Final = (
    Page("/", "fleet.html", "Fleet", _of_kinds(), _fleet),
    Page("/failures", "failures.html", "Failures", _of_kinds(), _failures),
    Page("/waiting", "failures.html", "At work", _of_kinds(), _waiting),
    Page("/rollouts", "rollouts.html", "Rollouts", _of_kinds(*ROLLOUTS), _rollouts),
    Page("/runs", "runs.html", "Runs", _of_kinds(*RUNS), _runs),
    Page("/held", "held.html", "Held deletions", _of_kinds(), _held),
    Page("/queues", "queues.html", "Queues", _of_process, _queues),
    Page("/data-planes", "planes.html", "Data planes", _of_planes, _planes),
    Page("/objects/{plural}", "objects.html", "Objects", _of_plural(), _objects, in_menu=False),
    Page(
        path="/tenants/{namespace}/{name}",
        template="tenant.html",
        title="Tenant",
        scope=_of_object("Tenant"),
        model=_tenant,
        in_menu=False,
    ),
    Page(
        path="/instances/{namespace}/{name}",
        template="instance.html",
        title="Instance",
        scope=_of_object("Instance"),
        model=_instance,
        in_menu=False,
    ),
    Page(
        path="/runs/{plural}/{namespace}/{name}",
        template="run.html",
        title="Run",
        scope=_of_plural(*RUNS, logs=True),
        model=_run,
        in_menu=False,
        log=_followed_log,
    ),
    Page(
        path="/rollouts/{plural}/{namespace}/{name}",
        template="rollout.html",
        title="Rollout",
        scope=_of_plural(*ROLLOUTS),
        model=_rollout,
        in_menu=False,
    ),
)
"""All pages; those of the menu in its order."""

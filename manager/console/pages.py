"""The pages: what each shows, and so what right it takes. Models are made from the cache alone."""

from __future__ import annotations

import heapq
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from math import isnan
from typing import Any, Final

from aiohttp import web

from apis.health import Health
from ctrlruntime.cache.entry import Entry
from ctrlruntime.manager import Manager
from ctrlruntime.sharding.slots import format_slots
from internal.cloud.run_tails import LogSource
from manager.commands.summaries import urgency
from manager.console import (
    charts,
    fleet_view,
    history,
    object_pages,
    rollout_view,
    samples,
    timeline,
)
from manager.console.access import EVENTS, LOGS, Sight
from manager.console.history import Line
from manager.console.index import KindIndex
from manager.console.paths import RUNS
from manager.console.rollout_view import ROLLOUTS
from manager.console.rows import Row
from manager.console.scopes import (
    ScopeOf,
    namespace_of,
    of_kinds,
    of_object,
    of_planes,
    of_plural,
    of_process,
)
from manager.console.state import ConsoleState

PER_PAGE: Final = 50
"""Rows of a page: with messages of the longest allowed it stays below 120 KiB."""

MOST_WORDS: Final = 8
"""Words of a search that count."""
Model = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Page:
    """One page: its path, template, what it shows, and how its model is made."""

    path: str
    template: str
    title: str
    scope: ScopeOf
    model: Callable[[ConsoleState, web.Request, Sight], Awaitable[Model]]
    in_menu: bool = True
    log: Callable[[web.Request, Sight], LogSource | None] = lambda _request, _seen: None
    """The log that its stream follows, if any."""


# -- models ---------------------------------------------------------------------------------------


async def _fleet(state: ConsoleState, request: web.Request, seen: Sight) -> Model:
    namespace = namespace_of(request)
    kinds = [
        fleet_view.KindCounts(each.kind, each.mapping.plural, each.counts) for each in seen.kinds
    ]
    counts = {each.kind: each.counts for each in kinds}
    rollouts = _rollout_rows(state, seen.kinds, namespace)
    return {
        "chart": charts.chart_of(
            "Objects by what their state means", _fleet_lines(state, seen, namespace), _HEALTHS
        ),
        "kinds": fleet_view.kind_lines(kinds, namespace),
        "versions": fleet_view.grouped(counts.get("Instance", {}), namespace, by_version=True),
        "templates": fleet_view.grouped(counts.get("Tenant", {}), namespace, by_version=False),
        "waves": fleet_view.waves_in_progress(rollouts)[: fleet_view.MOST_GROUPS],
        "rows": fleet_view.worst(_urgent(seen, namespace)),
        "failing": sum(1 for _ in _urgent(seen, namespace)),
        "waits": fleet_view.worst(_at_work(seen, namespace)),
        "waiting": sum(1 for _ in _at_work(seen, namespace)),
    }


_HEALTHS: Final = ("bad", "unknown", "open", "good")
"""Classes of the lines of the fleet's chart, in the order of Health."""


def _fleet_lines(state: ConsoleState, seen: Sight, namespace: str) -> list[history.Line]:
    """Return how many objects are good, wait and fail, of the kinds that the user may see."""
    keys = [samples.fleet_chart(each.kind, namespace) for each in seen.kinds]
    found = {line.name: line for line in history.summed([state.history.lines(key) for key in keys])}
    return [found[health.value] for health in Health if health.value in found]


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
    return {
        **model,
        "caption": "Objects by namespace and name",
        "kind": seen.kinds[0].kind,
        "plural": seen.kinds[0].mapping.plural,
    }


_FILTERS: Final[Mapping[str, Callable[[Row], str]]] = {
    "state": lambda row: row.summary.state,
    "version": lambda row: row.summary.version,
    "group": lambda row: row.group,
}


async def _runs(_state: ConsoleState, request: web.Request, seen: Sight) -> Model:
    rows = _in_namespace(
        (row for each in seen.kinds for row in each.active.values()), namespace_of(request)
    )
    return paged(request, rows, lambda item: (item.state != "Running", *urgency(item)))


async def _rollouts(state: ConsoleState, request: web.Request, seen: Sight) -> Model:
    rows = _rollout_rows(state, seen.kinds, namespace_of(request))
    number, pages = _page_of(request, len(rows))
    return {
        "rollouts": rows[(number - 1) * PER_PAGE : number * PER_PAGE],
        "total": len(rows),
        "page": number,
        "pages": pages,
    }


async def _held(_state: ConsoleState, request: web.Request, seen: Sight) -> Model:
    rows = _in_namespace(
        (row for each in seen.kinds for row in each.held.values()), namespace_of(request)
    )
    return paged(request, rows, lambda item: (item.kind, item.namespace, item.name))


async def _search(state: ConsoleState, request: web.Request, seen: Sight) -> Model:
    """Return the objects of all kinds that have every word in what a list shows of them."""
    words = request.query.get("q", "").lower().split()[:MOST_WORDS]
    found: list[Row] = []
    if words:
        for index in seen.kinds:
            for row in list(index.rows(namespace_of(request))):
                if fleet_view.has_words(row, words):
                    found.append(row)
                await state.manager.pace.maybe_yield()
    return {**paged(request, found, urgency), "sought": " ".join(words)}


async def _timeline(state: ConsoleState, request: web.Request, seen: Sight) -> Model:
    """Return what this process saw happen to objects that the user may see, the latest first."""
    kinds, namespace = {each.kind for each in seen.kinds}, namespace_of(request)
    found = [
        each
        for each in state.journal.all()
        if each.kind in kinds
        and namespace in {"", each.namespace}
        and (EVENTS in seen.parts or not each.is_event)
    ]
    number, pages = _page_of(request, len(found))
    found.sort(key=lambda each: each.at, reverse=True)
    shown = found[(number - 1) * PER_PAGE : number * PER_PAGE]
    return {
        "happened": [(each, timeline.moment_of(each)) for each in shown],
        "events": EVENTS in seen.parts,
        "total": len(found),
        "page": number,
        "pages": pages,
    }


async def _queues(state: ConsoleState, _request: web.Request, _seen: Sight) -> Model:
    model = queues(state.manager)
    names = {each.name for each in model["queues"]}
    lines = [
        history.Line(name, line.values)
        for name in sorted(names)
        for line in state.history.lines(("queue", name))
    ]
    busiest = sorted(lines, key=most, reverse=True)[: charts.MOST]
    return {**model, "chart": charts.chart_of("Items of the busiest queues", busiest)}


async def _shards(state: ConsoleState, _request: web.Request, _seen: Sight) -> Model:
    return shards(state.manager)


async def _planes(state: ConsoleState, _request: web.Request, seen: Sight) -> Model:
    configs = [entry for each in seen.kinds for entry in each.entries()]
    return {
        "planes": planes(configs),
        "has_config": bool(seen.kinds),
        "clusters": clusters(state.manager) if seen.process else [],
    }


# -- parts ----------------------------------------------------------------------------------------


_SORTS: Final[Mapping[str, Callable[[Row], Any]]] = {
    "kind": lambda row: (row.summary.kind, row.summary.namespace, row.summary.name),
    "namespace": lambda row: (row.summary.namespace, row.summary.name),
    "name": lambda row: (row.summary.name, row.summary.namespace),
    "state": lambda row: (row.summary.health.rank, row.summary.state, row.summary.name),
    "version": lambda row: (row.summary.version, row.summary.name),
    "since": lambda row: (row.summary.since, row.summary.name),
    "created": lambda row: (row.created, row.summary.name),
}
"""Columns that lists are sorted by; `-` before the name of one reverses it."""


def paged(request: web.Request, rows: Iterable[Row], order: Callable[[Any], Any]) -> Model:
    """Return one page of rows, in the order that the query wants or else a given one, and how many there are."""
    found = list(rows)
    number, pages = _page_of(request, len(found))
    last = number * PER_PAGE
    wanted = request.query.get("sort", "")
    by = _SORTS.get(wanted.removeprefix("-"))
    if by is not None:
        first = sorted(found, key=by, reverse=wanted.startswith("-"))
    elif last * 20 < len(found):
        first = heapq.nsmallest(last, found, key=lambda row: order(row.summary))
    else:
        first = sorted(found, key=lambda row: order(row.summary))
    shown = first[last - PER_PAGE : last]
    sort = "" if by is None else wanted
    return {"rows": shown, "total": len(found), "page": number, "pages": pages, "sort": sort}


def _page_of(request: web.Request, total: int) -> tuple[int, int]:
    pages = max(-(-total // PER_PAGE), 1)
    asked = request.query.get("page", "1")
    return min(max(int(asked) if asked.isdecimal() and len(asked) < 9 else 1, 1), pages), pages


def _in_namespace(rows: Iterable[Row], namespace: str) -> Iterable[Row]:
    return (row for row in rows if namespace in {"", row.summary.namespace})


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


def _of_one(
    path: str,
    template: str,
    title: str,
    scope: ScopeOf,
    special: object_pages.Special,
) -> Page:
    model = object_pages.object_page(special)
    return Page(f"{path}/{{namespace}}/{{name}}", template, title, scope, model, in_menu=False)


_RUN: Final = replace(
    _of_one(
        "/runs/{plural}", "run.html", "Run", of_object(*RUNS, parts=(LOGS,)), object_pages.of_run
    ),
    log=object_pages.followed_log,
)
_MANIFEST: Final = "/yaml/{plural}/{namespace}/{name}"
PAGES: Final = (
    Page("/", "fleet.html", "Fleet", of_kinds(), _fleet),
    Page("/failures", "failures.html", "Failures", of_kinds(), _failures),
    Page("/waiting", "failures.html", "At work", of_kinds(), _waiting),
    Page("/rollouts", "rollouts.html", "Rollouts", of_kinds(*ROLLOUTS), _rollouts),
    Page("/runs", "runs.html", "Runs", of_kinds(*RUNS), _runs),
    Page("/held", "held.html", "Held deletions", of_kinds(), _held),
    Page("/timeline", "timeline.html", "Timeline", of_kinds(parts=(EVENTS,)), _timeline),
    Page("/queues", "queues.html", "Queues", of_process, _queues),
    Page("/shards", "shards.html", "Shards", of_process, _shards),
    Page("/data-planes", "planes.html", "Data planes", of_planes, _planes),
    Page("/search", "search.html", "Search", of_kinds(), _search, in_menu=False),
    Page("/objects/{plural}", "objects.html", "Objects", of_plural, _objects, in_menu=False),
    _of_one("/objects/{plural}", "object.html", "Object", of_object(), object_pages.of_other),
    _of_one("/tenants", "tenant.html", "Tenant", of_object("Tenant"), object_pages.of_tenant),
    _of_one(
        "/instances", "instance.html", "Instance", of_object("Instance"), object_pages.of_instance
    ),
    _of_one(
        "/rollouts/{plural}",
        "rollout.html",
        "Rollout",
        of_object(*ROLLOUTS),
        object_pages.of_rollout,
    ),
    _RUN,
    Page(
        path=_MANIFEST,
        template="manifest.html",
        title="YAML",
        scope=of_object(alone=True),
        model=object_pages.manifest_page,
        in_menu=False,
    ),
)
"""All pages; those of the menu in its order."""


def queues(manager: Manager) -> dict[str, Any]:
    """Return the work queues, those with the longest running item first, and the cache by kind."""
    states = sorted(manager.metrics.queue_states(), key=lambda each: (-each.longest, each.name))
    informers = sorted(manager.cache.stats(), key=lambda each: str(each.gvk))
    return {"queues": states, "informers": informers, "leading": manager.elected.is_set()}


def most(line: Line) -> float:
    """Return the largest value of a line."""
    return max((value for value in line.values if not isnan(value)), default=0.0)


def shards(manager: Manager) -> dict[str, Any]:
    """Return the members that share objects with their slots, and slots without an owner; nothing of a manager alone."""
    if manager.shards is None:
        return {"shared": False}
    owned = manager.shards.owned
    return {
        "shared": True,
        "whole": owned.is_whole,
        "message": owned.message,
        "oldest": owned.oldest,
        "epoch": owned.epoch,
        "members": [
            {"name": name, "slots": format_slots(slots), "count": len(slots)}
            for name, slots in sorted(owned.held.items())
        ],
        "unowned": [
            {"slots": format_slots(each.slots), "owner": each.owner, "seconds": each.seconds}
            for each in sorted(owned.unowned, key=lambda each: -each.seconds)
        ],
        "kept": [
            {"slots": format_slots(each.slots), "member": each.member, "seconds": each.seconds}
            for each in owned.kept
        ],
    }


def clusters(manager: Manager) -> list[dict[str, Any]]:
    """Return the clusters that the process is connected to."""
    return [
        {
            "name": each.name or "own cluster",
            "synced": each.cache.synced,
            "objects": sum(stats.objects for stats in each.cache.stats()),
            "waiting": ", ".join(str(kind) for kind in each.cache.unsynced()),
        }
        for each in (manager.cluster, *manager.engaged_clusters())
    ]


def planes(configs: Iterable[Entry]) -> list[dict[str, str]]:
    """Return the data planes of FleetConfigs, those with trouble first."""
    found = [
        {
            key: str(item.get(key, ""))
            for key in ("name", "result", "reason", "message", "lastTransitionTime")
        }
        for entry in configs
        for item in (entry.field("status") or {}).get("targetNamespaces") or []
    ]
    return sorted(found, key=lambda each: (each["result"] == "Success", each["name"]))

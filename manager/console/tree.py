"""Trees of objects: what an object is of, and what it is made of, with state and reason on each node. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from apis.health import CLOUD_PHASES, Health
from ctrlruntime.cache.entry import Entry
from manager.console.paths import object_path
from manager.console.rendering import RESOURCE_HEALTH
from manager.console.rows import LONGEST, Row
from manager.console.tenant_view import Node as Resource

DEEPEST: Final = 20
"""Levels of resources below one another; a tenant may have some hundred in a row."""
MOST: Final = 60
"""Children of a node that are shown; of more, those that are not good come first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """An object of a tree."""

    kind: str
    name: str
    path: str = ""
    """Of its page; empty without one."""
    state: str = ""
    """Empty where it is not known, or not for the reader."""
    health: Health = Health.UNKNOWN
    why: str = ""
    current: bool = False
    """Whether it is the object of the page."""
    children: tuple[Node, ...] = ()


def node_of(row: Row, children: Iterable[Node] = ()) -> Node:
    """Return the node of an object of the product."""
    found = row.summary
    return Node(
        kind=found.kind,
        name=found.name,
        path=object_path(found.kind, found.namespace, found.name),
        state=found.state,
        health=found.health,
        why="" if found.is_good else found.message,
        children=few(children),
    )


def named(kind: str, namespace: str, name: str, row: Row | None) -> Node:
    """Return the node of an object that another one names, also where only its name is known."""
    if row is not None:
        return node_of(row)
    return Node(kind=kind, name=name, path=object_path(kind, namespace, name))


def reported(kind: str, namespace: str, child: Mapping[str, Any]) -> Node:
    """Return the node of a subresource of which only the status of its instance is shown."""
    phase, name = str(child.get("phase") or ""), str(child.get("name") or "")
    health = CLOUD_PHASES.health(phase)
    return Node(
        kind=kind,
        name=name,
        path=object_path(kind, namespace, name),
        state=phase,
        health=health,
        why="" if health is Health.GOOD else _short(str(child.get("message") or "")),
    )


def below(parents: Sequence[Node], node: Node) -> Node:
    """Return the tree of a node below its parents, the outermost first."""
    for parent in reversed(parents):
        node = replace(parent, children=(node,))
    return node


def few(nodes: Iterable[Node]) -> tuple[Node, ...]:
    """Return as many nodes as are shown, the worst of them at least, in their order."""
    found = list(nodes)
    if len(found) <= MOST:
        return tuple(found)
    worst = sorted(range(len(found)), key=lambda place: (found[place].health.rank, place))[:MOST]
    rest = Node(kind="", name=f"and {len(found) - MOST} more")
    return (*(found[place] for place in sorted(worst)), rest)


def resource_nodes(resources: Sequence[Resource]) -> tuple[Node, ...]:
    """Return the resources of a tenant, each below the one that it comes after; what would be deeper beside that."""
    children: dict[str, list[Resource]] = {}
    levels = {each.id: each.level for each in resources}
    places: dict[str, tuple[str, int]] = {}
    for each in resources:
        before = [name for name in each.needs if levels.get(name, each.level) < each.level]
        parent = max(before, key=lambda name: levels[name], default="")
        above, depth = places.get(parent, ("", 0))
        places[each.id] = (above, depth) if depth >= DEEPEST else (parent, depth + 1)
        children.setdefault(places[each.id][0], []).append(each)

    def made(parent: str) -> tuple[Node, ...]:
        return few(_resource_node(each, made(each.id)) for each in children.get(parent, ()))

    return made("")


def _resource_node(resource: Resource, children: tuple[Node, ...]) -> Node:
    waits = f"waits for {', '.join(resource.waits_for)}" if resource.waits_for else ""
    health = RESOURCE_HEALTH.get(resource.state, Health.WAITING)
    why = "; ".join(part for part in (resource.why, waits) if part)
    return Node(
        kind=resource.kind,
        name=resource.id,
        state=resource.state,
        health=health,
        why="" if health is Health.GOOD else why,
        children=children,
    )


def run_nodes(row: Row | None) -> tuple[Node, ...]:
    """Return the last run of an object's task."""
    run = None if row is None else row.run
    if row is None or run is None or not run.id:
        return ()
    path = object_path(row.summary.kind, row.summary.namespace, row.summary.name)
    failed = run.outcome not in ("", "Succeeded")
    health = Health.FAILING if failed else Health.WAITING if run.is_running else Health.GOOD
    return (
        Node(
            kind="Run",
            name=run.id,
            path=f"{path}#output",
            state=run.outcome or run.state,
            health=health,
            why="" if health is Health.GOOD else run.message,
        ),
    )


def chain_nodes(
    status: Mapping[str, Any], pods: Iterable[Entry], claims: Iterable[Entry]
) -> tuple[Node, ...]:
    """Return the nodes of a set: their Pods with their claims, and those of which only the status reports."""
    disks = {each.name: each for each in claims}
    found = {each.name: _pod_node(each, status, disks) for each in pods}
    used = {child.name for node in found.values() for child in node.children}
    for name, item in (status.get("sync") or {}).items():
        if name not in found:
            found[name] = _silent_node(name, item)
    unused = [_claim_node(disks[name]) for name in sorted(disks.keys() - used)]
    return few([*(found[name] for name in sorted(found, key=_by_number)), *unused])


def _pod_node(pod: Entry, status: Mapping[str, Any], disks: Mapping[str, Entry]) -> Node:
    from internal.cosmos.workload.pod_trouble import pod_trouble  # of one system alone

    trouble = pod_trouble(pod)
    polled = (status.get("sync") or {}).get(pod.name) or {}
    about: Mapping[str, Any] = pod.field("status") or {}
    conditions = {str(item.get("type")): item for item in about.get("conditions") or ()}
    is_ready = conditions.get("Ready", {}).get("status") == "True"
    state = "Deleting" if pod.deletion_timestamp else str(about.get("phase") or "Unknown")
    health = Health.FAILING if trouble else Health.GOOD if is_ready else Health.WAITING
    why = trouble or str(polled.get("error") or "")
    height = (status.get("height") or {}).get(pod.name)
    volumes = (pod.field("spec") or {}).get("volumes") or ()
    names = [str((item.get("persistentVolumeClaim") or {}).get("claimName")) for item in volumes]
    return Node(
        kind="Pod",
        name=pod.name,
        state=state if is_ready or state != "Running" else "NotReady",
        health=health,
        why=_short(why) or ("" if height is None else f"height {height}"),
        children=tuple(_claim_node(disks[name]) for name in names if name in disks),
    )


def _silent_node(name: str, item: Mapping[str, Any]) -> Node:
    error = str(item.get("error") or "")
    in_sync = item.get("inSync")
    health = Health.FAILING if error else Health.GOOD if in_sync else Health.WAITING
    state = "Silent" if error else "InSync" if in_sync else "CatchingUp"
    height = item.get("height")
    why = _short(error) or ("" if height is None else f"height {height}")
    return Node(kind="Pod", name=name, state=state, health=health, why=why)


def _claim_node(claim: Entry) -> Node:
    phase = str((claim.field("status") or {}).get("phase") or "Unknown")
    health = Health.GOOD if phase == "Bound" else Health.WAITING
    return Node(kind="PersistentVolumeClaim", name=claim.name, state=phase, health=health)


def _by_number(name: str) -> tuple[str, int, str]:
    head, _, number = name.rpartition("-")
    return (head, int(number), "") if number.isdecimal() and len(number) < 9 else (name, 0, "")


def _short(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"

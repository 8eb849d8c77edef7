"""ResourceQuotas: how many objects a namespace may have.

Objects are counted when one is created; nothing keeps `status.used`, and amounts (cpu, memory, storage) and
scopes are not enforced.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from ctrlruntime.api.kinds import Manifest
from ctrlruntime.envtest.schema.quantity import value_of
from ctrlruntime.envtest.server.errors import forbidden
from ctrlruntime.envtest.server.kinds import Kind
from ctrlruntime.envtest.server.state import State
from ctrlruntime.envtest.server.storage import Record

_BY_NAME: Final = frozenset(
    {
        "configmaps",
        "persistentvolumeclaims",
        "replicationcontrollers",
        "resourcequotas",
        "secrets",
        "services",
    }
)
_ENDED: Final = frozenset({"Succeeded", "Failed"})
_WITH_PORTS: Final = frozenset({"NodePort", "LoadBalancer"})
Counts = Callable[[Manifest], int]


def check(state: State, kind: Kind, obj: Manifest) -> None:
    """Raise Forbidden where one more object would exceed a quota of its namespace."""
    namespace = obj["metadata"].get("namespace", "")
    if not namespace:
        return
    names = _counters(kind)
    quotas = list(state.storage.bucket("resourcequotas").scan(namespace))
    if not quotas:
        return
    present = state.bucket(kind)
    for quota in quotas:
        spec = quota.obj.get("spec") or {}
        if spec.get("scopes") or spec.get("scopeSelector"):
            continue
        hard = spec.get("hard") or {}
        exceeded = []
        for name in sorted(names.keys() & hard.keys()):
            wanted = names[name](obj)
            used = sum(names[name](record.obj) for record in present.scan(namespace))
            if wanted and used + wanted > value_of(hard[name]):
                exceeded.append((name, wanted, used, hard[name]))
        if exceeded:
            raise forbidden(
                kind.group, kind.plural, obj["metadata"]["name"], _excess(quota, exceeded)
            )


def _excess(quota: Record, exceeded: Iterable[tuple[str, int, int, Any]]) -> str:
    listed = list(exceeded)
    requested = ",".join(f"{name}={wanted}" for name, wanted, _, _ in listed)
    used = ",".join(f"{name}={count}" for name, _, count, _ in listed)
    limited = ",".join(f"{name}={limit}" for name, _, _, limit in listed)
    return f"exceeded quota: {quota.name}, requested: {requested}, used: {used}, limited: {limited}"


def _counters(kind: Kind) -> Mapping[str, Counts]:
    """Return the names that a quota counts objects of the kind by, and what one object counts."""
    found: dict[str, Counts] = {f"count/{kind.resource}": lambda _: 1}
    if kind.resource in _BY_NAME:
        found[kind.resource] = lambda _: 1
    if kind.resource == "pods":
        found["pods"] = _runs
    if kind.resource == "services":
        found["services.loadbalancers"] = lambda obj: int(_type(obj) == "LoadBalancer")
        found["services.nodeports"] = _node_ports
    return found


def _runs(pod: Manifest) -> int:
    return int((pod.get("status") or {}).get("phase") not in _ENDED)


def _type(service: Manifest) -> str:
    return str((service.get("spec") or {}).get("type"))


def _node_ports(service: Manifest) -> int:
    if _type(service) not in _WITH_PORTS:
        return 0
    return len((service.get("spec") or {}).get("ports") or ())

"""What the account of each shipped installation can read, make and change, from its roles and bindings. No server.

`table()` is the table of docs/operations/manager-token.md; tests/manifests/test_account_powers.py tries each power on
the real server as that account.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple

from internal.fleet.stack_bindings import build_bindings
from tests.audit.rights import Right, granted
from tests.manifests.installation import installer, kustomized

Manifest = dict[str, Any]
Reach = Literal["all", "named", "by name", ""]
"""In every namespace, in the namespaces of the installation, objects of some names, or not at all."""

TARGET: Final = "plane-a"
PARALLEL: Final = "shops"
READS: Final = ("get", "list", "watch")
CHANGES: Final = ("update", "patch", "delete")
WORKLOADS: Final = ("deployments.apps", "daemonsets.apps", "jobs.batch", "cronjobs.batch")
SHOWN: Final = {"all": "all", "named": "its own", "by name": "by name", "": "-"}


class Power(NamedTuple):
    """What an attacker with the account's token tries: one of these verbs on one of these resources."""

    title: str
    verbs: tuple[str, ...]
    resources: tuple[str, ...]
    namespaced: bool = True


def _own(group: str, *plurals: str) -> tuple[str, ...]:
    return tuple(f"{plural}.{group}.ctrlruntime.dev" for plural in plurals)


POWERS: Final = (
    Power("read Secrets", READS, ("secrets",)),
    Power("read ConfigMaps", READS, ("configmaps",)),
    Power("read logs of Pods", ("get",), ("pods/log",)),
    Power("make Secrets, tokens of any account among them", ("create",), ("secrets",)),
    Power("make Pods", ("create",), ("pods",)),
    Power("make workloads, and by them Pods of any account", ("create",), WORKLOADS),
    Power("make service accounts", ("create",), ("serviceaccounts",)),
    Power("make Roles, of rights that it has", ("create",), ("roles.rbac.authorization.k8s.io",)),
    Power(
        "make ClusterRoles or their bindings",
        ("create",),
        ("clusterroles.rbac.authorization.k8s.io", "clusterrolebindings.rbac.authorization.k8s.io"),
        namespaced=False,
    ),
    Power("make Namespaces", ("create",), ("namespaces",), namespaced=False),
    Power("request tokens", ("create",), ("serviceaccounts/token",)),
    Power("run programs in Pods", ("create", "get"), ("pods/exec",)),
    Power("change or delete Secrets", CHANGES, ("secrets",)),
    Power("change or delete ConfigMaps", CHANGES, ("configmaps",)),
    Power("change or delete volume claims", CHANGES, ("persistentvolumeclaims",)),
    Power("change or delete workloads", CHANGES, WORKLOADS),
    Power("change or delete Namespaces", CHANGES, ("namespaces",), namespaced=False),
    Power(
        "change or delete CRDs",
        CHANGES,
        ("customresourcedefinitions.apiextensions.k8s.io",),
        namespaced=False,
    ),
    Power(
        "change or delete webhooks",
        CHANGES,
        ("validatingwebhookconfigurations.admissionregistration.k8s.io",),
        namespaced=False,
    ),
    Power("change or delete Tenants", CHANGES, _own("tenancy", "tenants")),
    Power("change or delete Instances", CHANGES, _own("cloud", "instances")),
    Power("change or delete CosmosFullNodes", CHANGES, _own("cosmos", "cosmosfullnodes")),
    Power("end a ChangeFreeze", CHANGES, _own("operations", "changefreezes"), namespaced=False),
    Power("act as others", ("impersonate",), ("users", "serviceaccounts"), namespaced=False),
    Power(
        "bind or extend roles beyond its own rights",
        ("bind", "escalate"),
        ("clusterroles.rbac.authorization.k8s.io",),
        namespaced=False,
    ),
)
"""In the order of the table: reads, what it makes, changes."""


@dataclass(frozen=True, slots=True)
class Install:
    """One way to install, whose account has these roles and bindings."""

    name: str
    objects: Callable[[], list[Manifest]]
    namespaces: tuple[str, ...] = ()
    """Where rights of single namespaces hold, apart from those of its own work."""


def _of_folder(folder: str) -> Callable[[], list[Manifest]]:
    return lambda: roles_and_bindings(kustomized(folder))


def _of_system(system: str) -> Callable[[], list[Manifest]]:
    return lambda: of_account(installer(), f"ctrlruntime-{system}-controller-manager")


def _stack(*, restricted: bool) -> Callable[[], list[Manifest]]:
    def objects() -> list[Manifest]:
        roles = [each for each in kustomized("operator") if each["kind"] == "ClusterRole"]
        made = build_bindings(TARGET, [PARALLEL], restrict_secrets=restricted)
        return roles_and_bindings([*roles, *(each.manifest for each in made)])

    return objects


INSTALLS: Final = (
    Install("tenancy", _of_system("tenancy")),
    Install("cloud", _of_system("cloud")),
    Install("cosmos", _of_system("cosmos")),
    Install("one account", _of_folder("with-webhooks")),
    Install("namespaced", _of_folder("namespaced"), ("default",)),
    Install("operator", _of_folder("operator")),
    Install("stack", _stack(restricted=False), (TARGET, PARALLEL)),
    Install("stack, restricted", _stack(restricted=True), (TARGET, PARALLEL)),
    Install("data-plane", _of_folder("data-plane")),
)


def roles_and_bindings(objects: Iterable[Manifest]) -> list[Manifest]:
    """Return the roles and what binds them, without roles that only collect what others have."""
    found = [each for each in objects if each["kind"].endswith(("Role", "RoleBinding"))]
    collected = {each["metadata"]["name"] for each in found if "aggregationRule" in each}
    return [
        each
        for each in found
        if each["metadata"]["name"] not in collected
        and each.get("roleRef", {}).get("name") not in collected
    ]


def of_account(objects: Iterable[Manifest], account: str) -> list[Manifest]:
    """Return the roles of one account, and what binds them to it."""
    found = roles_and_bindings(objects)
    bound = [e for e in found if account in {s["name"] for s in e.get("subjects") or ()}]
    named = {(each["roleRef"]["kind"], each["roleRef"]["name"]) for each in bound}
    roles = [each for each in found if (each["kind"], each["metadata"]["name"]) in named]
    return [*roles, *bound]


class Rights(NamedTuple):
    """The rights of an account: those to any object, and those to objects of some names."""

    any: frozenset[Right]
    by_name: frozenset[Right]


def rights_of(objects: Iterable[Manifest]) -> Rights:
    """Return what the bindings give."""
    known = list(objects)
    whole = granted(_with_rules(known, named=False))
    return Rights(whole, granted(_with_rules(known, named=True)) - whole)


def _with_rules(objects: Iterable[Manifest], *, named: bool) -> Iterator[Manifest]:
    for each in objects:
        rules = [r for r in each.get("rules") or () if bool(r.get("resourceNames")) is named]
        yield {**each, "rules": rules} if each["kind"].endswith("Role") else each


def reach(rights: Rights, power: Power, namespaces: Iterable[str] = ()) -> Reach:
    """Return how far a power goes; single namespaces count if the account watches them."""
    wanted = {(verb, resource) for verb in power.verbs for resource in power.resources}
    places = {r.namespace for r in rights.any if (r.verb, r.resource) in wanted}
    if "" in places:
        return "all"
    if places & set(namespaces):
        return "named"
    return "by name" if any((r.verb, r.resource) in wanted for r in rights.by_name) else ""


def powers_of(install: Install) -> dict[str, Reach]:
    """Return how far each power of the account goes, by its title."""
    rights = rights_of(install.objects())
    return {power.title: reach(rights, power, install.namespaces) for power in POWERS}


def is_cluster_admin(powers: dict[str, Reach]) -> bool:
    """Return whether two steps lead to every right: a token of a stronger account, and its use.

    The token is that of a Secret made for the account and read, or is mounted into a Pod of it.
    """
    by_pod = (POWERS[4].title, POWERS[5].title)
    by_secret = (POWERS[0].title, POWERS[3].title)
    return any(powers[title] == "all" for title in by_pod) or all(
        powers[title] == "all" for title in by_secret
    )


def table() -> list[tuple[str, ...]]:
    """Return the rows of the table, its head first."""
    found = [powers_of(install) for install in INSTALLS]
    head = ("the account can", *(install.name for install in INSTALLS))
    rows = [(p.title, *(SHOWN[each[p.title]] for each in found)) for p in POWERS]
    worth = (
        "cluster-admin in two steps",
        *("yes" if is_cluster_admin(each) else "no" for each in found),
    )
    return [head, *rows, worth]

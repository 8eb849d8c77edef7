"""What roles let an account do, and what requests take of it. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

Manifest = dict[str, Any]


class Right(NamedTuple):
    """One verb on one resource, written as the request log writes it: ``deployments.apps/status``.

    Without a namespace it holds everywhere.
    """

    verb: str
    resource: str
    namespace: str = ""

    def __str__(self) -> str:
        where = f" in {self.namespace}" if self.namespace else ""
        return f"{self.verb} {self.resource}{where}"

    @property
    def plural(self) -> str:
        """The resource without a subresource."""
        return self.resource.partition("/")[0]


def taken(verb: str, resource: str, namespace: str, code: int) -> list[Right]:
    """The rights that a request of the log takes: an apply is a patch, and a create where it made one.

    None for what is no resource, and for what was refused.
    """
    if resource.startswith("/") or code == 403:
        return []
    verbs = ["patch" if verb == "apply" else verb]
    if verb == "apply" and code == 201:
        verbs.append("create")
    return [Right(verb, resource, namespace) for verb in verbs]


def granted(manifests: Iterable[Manifest]) -> frozenset[Right]:
    """What roles let the subjects of their bindings do.

    A role that nobody is bound to gives nothing, nor does one that only collects what others say.
    """
    known = list(manifests)
    roles = {_key(each): each for each in known}
    rights: set[Right] = set()
    for bound in known:
        if bound["kind"] not in ("ClusterRoleBinding", "RoleBinding"):
            continue
        reference = bound["roleRef"]
        namespace = bound["metadata"]["namespace"] if bound["kind"] == "RoleBinding" else ""
        where = namespace if reference["kind"] == "Role" else ""
        role = roles[reference["kind"], where, reference["name"]]
        for rule in role.get("rules") or ():
            rights.update(rights_of(rule, namespace))
    return frozenset(rights)


def rights_of(rule: Manifest, namespace: str = "") -> Iterator[Right]:
    """A rule of a role, taken apart; names of single objects are left aside."""
    for group in rule.get("apiGroups") or ():
        for resource in rule["resources"]:
            for verb in rule["verbs"]:
                yield Right(verb, resource_of(group, resource), namespace)


def resource_of(group: str, resource: str) -> str:
    """``deployments.apps/status`` of a rule's group and resource."""
    plural, slash, subresource = resource.partition("/")
    return f"{plural}.{group}{slash}{subresource}" if group else resource


def _key(manifest: Manifest) -> tuple[str, str, str]:
    metadata = manifest["metadata"]
    return manifest["kind"], metadata.get("namespace", ""), metadata["name"]

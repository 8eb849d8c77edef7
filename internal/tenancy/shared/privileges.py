"""What templates may not do, however they were written: the kinds and places of others.

Whoever may write templates in a namespace has the manager write objects there. That must give them
no more than the ClusterRole `edit` in this namespace, so what reaches further is refused unless the manager is
configured to allow it. See docs/decisions/template-privileges.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any, Final

from ctrlruntime.api import BUILTIN, GroupKind, GroupVersionKind
from ctrlruntime.client.protected_namespaces import matches
from internal.tenancy.shared.policies import NAMESPACE

_EDIT_ROLE: Final = {
    "": (
        "ConfigMap",
        "Event",
        "PersistentVolumeClaim",
        "Pod",
        "ReplicationController",
        "Secret",
        "Service",
        "ServiceAccount",
    ),
    "apps": ("DaemonSet", "Deployment", "ReplicaSet", "StatefulSet"),
    "autoscaling": ("HorizontalPodAutoscaler",),
    "batch": ("CronJob", "Job"),
    "coordination.k8s.io": ("Lease",),
    "events.k8s.io": ("Event",),
    "networking.k8s.io": ("Ingress", "NetworkPolicy"),
    "policy": ("PodDisruptionBudget",),
    "resource.k8s.io": ("ResourceClaim", "ResourceClaimTemplate"),
}
EDITABLE: Final = frozenset(
    GroupKind(group, kind) for group, kinds in _EDIT_ROLE.items() for kind in kinds
)
"""What `system:aggregate-to-edit` of the newest supported Kubernetes grants; a test compares the two."""

TOKEN_SECRET: Final = "kubernetes.io/service-account-token"  # noqa: S105 - a type of Secret
"""Type of Secrets that the API server fills with a token of any account of the namespace."""

_SECRET = GroupKind("", "Secret")


ALWAYS_PROTECTED: Final = ("kube-*",)
"""Patterns of namespaces that are protected without any option."""

OWN: Final = "own"
"""Word of the option `--allow-foreign-namespaces` for namespaces that the tenant itself makes."""


class PrivilegeRefused(ValueError):
    """The manager does not let a template do this; the message names what would."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignNamespaces:
    """The namespaces besides the tenant's own that templates may write to. By default, none."""

    patterns: frozenset[str] = frozenset()
    """Names, or shell patterns of names."""
    own: bool = False
    """Namespaces whose Namespace object is a resource of the same tenant, and is owned by it."""

    @classmethod
    def parse(cls, words: AbstractSet[str]) -> ForeignNamespaces:
        """Return what the words of the option allow: `own`, names and patterns."""
        return cls(patterns=frozenset(words - {OWN}), own=OWN in words)

    @property
    def any(self) -> bool:
        """Whether any foreign namespace may be allowed."""
        return self.own or bool(self.patterns)

    def lists(self, namespace: str) -> bool:
        """Whether a name or pattern of the list matches."""
        return matches(namespace, self.patterns)


@dataclass(frozen=True, slots=True, kw_only=True)
class Privileges:
    """What templates may do beyond the namespace of their tenants. By default, nothing."""

    foreign: ForeignNamespaces = field(default_factory=ForeignNamespaces)
    """Other namespaces, objects in them as well as the Namespaces themselves."""
    kinds: frozenset[GroupKind] = frozenset()
    """Kinds that the ClusterRole `edit` does not grant, and cluster-scoped kinds, that are allowed."""
    protected: frozenset[str] = frozenset()
    """Names or shell patterns of namespaces that are never affected, besides `kube-*`."""
    default_account: str = ""
    """The service account, in the tenant's namespace, by which a tenant is written that names none; empty: the manager."""
    instead: str = ""
    """What to do instead of using foreign namespaces, with `{name}`, where no option allows them; empty: an option does."""

    def is_protected(self, namespace: str) -> bool:
        """Whether nothing may be written to the namespace, nor to its Namespace object."""
        return matches(namespace, (*ALWAYS_PROTECTED, *self.protected))

    def protects(self, kind: GroupKind, name: str) -> bool:
        """Whether the object is the Namespace object of a protected namespace."""
        return kind == NAMESPACE and self.is_protected(name)

    def check_kind(self, kind: GroupKind, *, namespaced: bool) -> None:
        """Raise PrivilegeRefused."""
        if kind in self.kinds:
            return
        if kind == NAMESPACE:
            if not self.foreign.any:
                raise PrivilegeRefused(f"templates may not make Namespaces; {self._remedy('NAME')}")
            return
        if not namespaced:
            raise PrivilegeRefused(
                f"templates may not name the cluster-scoped kind {kind}; {_allow_kind(kind)}"
            )
        if kind not in EDITABLE:
            raise PrivilegeRefused(
                f"templates may not name the kind {kind}, which the ClusterRole edit of Kubernetes "
                f"does not grant; {_allow_kind(kind)}"
            )

    def allows(self, kind: GroupKind, *, namespaced: bool = True) -> bool:
        """Whether a kind may be named at all."""
        try:
            self.check_kind(kind, namespaced=namespaced)
        except PrivilegeRefused:
            return False
        return True

    def check_place(
        self, namespace: str, home: str, *, made: AbstractSet[str] | None = None
    ) -> None:
        """Check where a namespaced object is written. Raises PrivilegeRefused.

        `namespace`: of the object, empty for the tenant's own; `home`: the tenant's; `made`: the
        names of the Namespaces that are resources of the same tenant, None while they are unknown.
        """
        for place in (home, namespace):
            self._check_protected(place)
        if not namespace or namespace == home or self.foreign.lists(namespace):
            return
        if self.foreign.own and (made is None or namespace in made):
            return
        hint = self._remedy(namespace)
        if self.foreign.own:
            hint = f"{hint}, or make the Namespace a resource of the same template"
        raise PrivilegeRefused(
            f"the namespace {namespace!r} is not the tenant's own ({home!r}); {hint}"
        )

    def check_cluster_scoped(self, manifest: Mapping[str, Any], kind: GroupKind, home: str) -> None:
        """Check what a cluster-scoped object affects. Raises PrivilegeRefused.

        A Namespace affects the namespace of its name; every other kind the namespaces that its
        fields named `namespace` give: subjects, Services of webhooks, claims of volumes.
        """
        self._check_protected(home)
        if kind != NAMESPACE:
            for place in sorted(set(_named_namespaces(manifest))):
                self._check_protected(place)
            return
        name = str((manifest.get("metadata") or {}).get("name") or "")
        self._check_protected(name)
        if not (self.foreign.own or self.foreign.lists(name)):
            raise PrivilegeRefused(
                f"the Namespace {name!r} is not among the foreign namespaces; {self._remedy(name)}"
            )

    def _remedy(self, name: str) -> str:
        """Return what allows a foreign namespace, or what to do where nothing does."""
        return self.instead.format(name=name) or _allow("--allow-foreign-namespaces")

    def must_own(self, namespace: str, home: str) -> bool:
        """Whether the tenant may write there only while it owns the Namespace object."""
        return bool(namespace) and namespace != home and not self.foreign.lists(namespace)

    def _check_protected(self, namespace: str) -> None:
        if namespace and self.is_protected(namespace):
            raise PrivilegeRefused(
                f"the namespace {namespace!r} is protected: nothing is written to kube-*, to the "
                "manager's own namespace, or to those of the option --protected-namespace"
            )

    def check(self, manifest: Mapping[str, Any], kind: GroupKind, *, namespaced: bool) -> None:
        """Kind and content of a rendered object. Raises PrivilegeRefused."""
        self.check_kind(kind, namespaced=namespaced)
        if kind == _SECRET and manifest.get("type") == TOKEN_SECRET:
            raise PrivilegeRefused(
                f"templates may not make Secrets of type {TOKEN_SECRET}: each holds the rights of "
                "a service account"
            )

    def check_template(self, manifest: Mapping[str, Any], home: str) -> None:
        """Check what can be known before anything is rendered. Raises PrivilegeRefused."""
        gvk = GroupVersionKind.of(manifest)
        known = BUILTIN.get(gvk)
        self.check(manifest, gvk.group_kind, namespaced=known is None or known.namespaced)
        metadata = manifest.get("metadata") or {}
        if known is not None and not known.namespaced:
            if not _is_templated(metadata.get("name")):
                self.check_cluster_scoped(manifest, gvk.group_kind, home)
            return
        namespace = metadata.get("namespace")
        written_out = isinstance(namespace, str) and not _is_templated(namespace)
        self.check_place(str(namespace) if written_out else "", home)


def _is_templated(text: object) -> bool:
    return isinstance(text, str) and ("{{" in text or "{%" in text)


def _named_namespaces(value: object) -> Iterator[str]:
    """Yield every text under a key `namespace`, at any depth."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            if key == "namespace" and isinstance(item, str):
                yield item
            else:
                yield from _named_namespaces(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _named_namespaces(item)


def parse_kind(text: str) -> GroupKind:
    """`ClusterRole.rbac.authorization.k8s.io` or `PersistentVolume`. Raises ValueError."""
    kind, _, group = text.partition(".")
    if not kind[:1].isupper() or not kind.isalnum():
        raise ValueError(
            f"{text!r} is not a kind; write for example Role.rbac.authorization.k8s.io"
        )
    return GroupKind(group, kind)


def _allow(flag: str) -> str:
    return f"the manager's option {flag} allows it"


def _allow_kind(kind: GroupKind) -> str:
    return _allow(f"--allow-kind {kind}")

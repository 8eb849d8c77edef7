"""What templates may not do, however they were written: the kinds and places of others.

Whoever may write templates in a namespace has the manager write objects there. That must give them
no more than this namespace, so what reaches further is refused unless the manager was told to allow
it. See docs/decisions/template-privileges.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from ctrlruntime.api.builtin import BUILTIN
from ctrlruntime.api.kinds import GroupKind, GroupVersionKind
from internal.tenancy.policies import NAMESPACE

PRIVILEGED_GROUPS: Final = frozenset(
    {
        "admissionregistration.k8s.io",
        "apiextensions.k8s.io",
        "apiregistration.k8s.io",
        "authentication.k8s.io",
        "authorization.k8s.io",
        "certificates.k8s.io",
        "rbac.authorization.k8s.io",
    }
)
"""Groups whose kinds give rights, or change what the API server does for everybody."""

TOKEN_SECRET: Final = "kubernetes.io/service-account-token"  # noqa: S105 - a type of Secret
"""Type of Secrets that the API server fills with a token of any account of the namespace."""

_SECRET = GroupKind("", "Secret")


class Refused(ValueError):
    """The manager does not let a template do this; the message says what would."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Privileges:
    """What templates may do beyond the namespace of their tenants. By default, nothing."""

    foreign_namespaces: bool = False
    """Objects in other namespaces, and Namespaces themselves."""
    kinds: frozenset[GroupKind] = frozenset()
    """Kinds of the privileged groups, and cluster-scoped kinds, that are allowed all the same."""
    protected: frozenset[str] = frozenset()
    """Namespaces that nothing may be written to, in any case: the manager's own."""

    def check_kind(self, kind: GroupKind, *, namespaced: bool) -> None:
        """Raises Refused."""
        if kind in self.kinds:
            return
        if kind == NAMESPACE:
            if not self.foreign_namespaces:
                raise Refused(
                    f"templates may not make Namespaces; {_allow('--allow-foreign-namespaces')}"
                )
            return
        if kind.group in PRIVILEGED_GROUPS:
            raise Refused(f"templates may not name the kind {kind}; {_allow_kind(kind)}")
        if not namespaced:
            raise Refused(
                f"templates may not name the cluster-scoped kind {kind}; {_allow_kind(kind)}"
            )

    def allows(self, kind: GroupKind, *, namespaced: bool = True) -> bool:
        """Whether a kind may be named at all."""
        try:
            self.check_kind(kind, namespaced=namespaced)
        except Refused:
            return False
        return True

    def check_place(self, namespace: str, home: str) -> None:
        """`namespace`: of the object; `home`: the tenant's. Raises Refused."""
        for place in (home, namespace):
            if place in self.protected:
                raise Refused(
                    f"nothing is written to {place!r}, the manager's own namespace: its service "
                    "account could be used by whoever writes templates there"
                )
        if namespace and namespace != home and not self.foreign_namespaces:
            raise Refused(
                f"the namespace {namespace!r} is not the tenant's own ({home!r}); "
                f"{_allow('--allow-foreign-namespaces')}"
            )

    def check(self, manifest: Mapping[str, Any], kind: GroupKind, *, namespaced: bool) -> None:
        """Kind and content of a rendered object. Raises Refused."""
        self.check_kind(kind, namespaced=namespaced)
        if kind == _SECRET and manifest.get("type") == TOKEN_SECRET:
            raise Refused(
                f"templates may not make Secrets of type {TOKEN_SECRET}: each holds the rights of "
                "a service account"
            )

    def check_template(self, manifest: Mapping[str, Any], home: str) -> None:
        """What can be said before anything is rendered. Raises Refused."""
        gvk = GroupVersionKind.of(manifest)
        known = BUILTIN.get(gvk)
        self.check(manifest, gvk.group_kind, namespaced=known is None or known.namespaced)
        if known is not None and not known.namespaced:
            return
        namespace = (manifest.get("metadata") or {}).get("namespace")
        if isinstance(namespace, str) and "{{" not in namespace and "{%" not in namespace:
            self.check_place(namespace, home)
        else:
            self.check_place("", home)


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

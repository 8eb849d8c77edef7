"""Namespaces in which nothing is written for the objects of a controller."""

from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final

from ctrlruntime.api.kinds import GroupKind
from ctrlruntime.client.errors import Forbidden

__all__ = ["KUBERNETES_NAMESPACES", "NamespaceProtected", "ProtectedNamespaces"]

KUBERNETES_NAMESPACES: Final = frozenset({"kube-system", "kube-public", "kube-node-lease"})
"""Namespaces of Kubernetes itself."""
_NAMESPACE: Final = GroupKind("", "Namespace")


class NamespaceProtected(Forbidden):
    """A write to a protected namespace, refused before it is sent. The message names what allows it."""

    default_reason = "NamespaceProtected"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtectedNamespaces:
    """The rule, and the exceptions from it."""

    patterns: frozenset[str] = KUBERNETES_NAMESPACES
    """Names, or shell patterns of names."""
    allowed: frozenset[str] = frozenset()
    """Names that are not protected, whatever the patterns say."""
    remedy: str = "add {namespace} to ProtectedNamespaces.allowed of the manager"
    """What allows writes, with `{namespace}` in place of the name."""

    def is_protected(self, namespace: str) -> bool:
        """Whether nothing is written there. Never so for the empty name, of cluster-scoped objects."""
        return (
            bool(namespace) and namespace not in self.allowed and matches(namespace, self.patterns)
        )

    def refusal(self, namespace: str) -> str:
        """Return why nothing is written to a namespace, and what allows it; empty if it is not protected."""
        if not self.is_protected(namespace):
            return ""
        remedy = self.remedy.format(namespace=namespace)
        return (
            f"The namespace {namespace!r} is protected: nothing is made, changed or deleted there. Use"
            f" another namespace, or {remedy}."
        )

    def check(self, kind: GroupKind, name: str, *, namespace: str) -> None:
        """Check an object that is to be written; a Namespace counts as in itself. Raises NamespaceProtected."""
        refusal = self.refusal(name if kind == _NAMESPACE else namespace)
        if refusal:
            raise NamespaceProtected(refusal)


def matches(namespace: str, patterns: Iterable[str]) -> bool:
    """Whether a name or pattern of a list matches."""
    return any(fnmatchcase(namespace, pattern) for pattern in patterns)

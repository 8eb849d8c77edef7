"""Names of kinds and the paths under which an API server serves them.

Independent of pydantic and of any particular kind. The terms are those of apimachinery:
a *group kind* names a type, a *group version kind* one of its wire forms, and a *REST mapping* adds
what a URL needs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

__all__ = ["GroupKind", "GroupVersion", "GroupVersionKind", "Manifest", "RESTMapping"]

Manifest = dict[str, Any]
"""A Kubernetes object as plain JSON data."""

_PATH_SAFE = ":@!$&'()*+,;=~"
_UNQUOTED = re.compile(r"[A-Za-z0-9_.:@!$&'()*+,;=~-]*").fullmatch
"""Matches what `quote` would leave as it is; nearly every name."""


@dataclass(frozen=True, slots=True, order=True)
class GroupKind:
    """A kind in its API group, whatever the version. The core group is the empty string."""

    group: str
    kind: str
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_hash", hash((self.group, self.kind)))

    def __hash__(self) -> int:
        return self._hash

    def __str__(self) -> str:
        return f"{self.kind}.{self.group}" if self.group else self.kind


_GROUP = r"(?P<group>[a-z0-9]([-a-z0-9.]*[a-z0-9])?)"
_VERSION = r"(?P<version>v[0-9]+((alpha|beta)[0-9]+)?)"
_KIND = r"(?P<kind>[A-Z][A-Za-z0-9]*)"
_SLASHES = re.compile(rf"({_GROUP}/)?{_VERSION}/{_KIND}")
_DOTS = re.compile(rf"{_KIND}\.{_VERSION}(\.{_GROUP})?")


@dataclass(frozen=True, slots=True, order=True)
class GroupVersion:
    """One version of an API group; a module's constant ``API`` for all the kinds in it.

    ::

        API = GroupVersion("example.com", "v1")

        class Website(Resource[WebsiteSpec], api=API): ...
    """

    group: str
    version: str

    def __str__(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    def kind(self, kind: str) -> GroupVersionKind:
        """Return a kind in this version."""
        return GroupVersionKind(self.group, self.version, kind)


@dataclass(frozen=True, slots=True, order=True)
class GroupVersionKind:
    """A kind in one version of its API group."""

    group: str
    version: str
    kind: str
    api_version: str = field(init=False, repr=False, compare=False)
    """The ``apiVersion`` of a manifest: ``apps/v1``, or ``v1`` in the core group."""
    group_kind: GroupKind = field(init=False, repr=False, compare=False)
    """The kind without its version. Made once: every request looks something up by it."""

    def __post_init__(self) -> None:
        api_version = f"{self.group}/{self.version}" if self.group else self.version
        object.__setattr__(self, "api_version", api_version)
        object.__setattr__(self, "group_kind", GroupKind(self.group, self.kind))

    @classmethod
    def parse(cls, api_version: str, kind: str) -> GroupVersionKind:
        """From the two fields of a manifest.

        Raises ValueError if either is empty or ``api_version`` has more than one slash.
        """
        group, slash, version = api_version.rpartition("/")
        if not version or not kind or "/" in group or (slash and not group):
            raise ValueError(
                f"not a kind: apiVersion {api_version!r}, kind {kind!r}; "
                'expected for example apiVersion "apps/v1" and kind "Deployment"'
            )
        return cls(group, version, kind)

    @classmethod
    def from_string(cls, text: str) -> GroupVersionKind:
        """From ``apps/v1/Deployment`` or ``Deployment.v1.apps``; in the core group ``v1/Pod`` or ``Pod.v1``.

        Raises ValueError for anything else, a kind without its version included.
        """
        if found := _SLASHES.fullmatch(text) or _DOTS.fullmatch(text):
            return cls(found["group"] or "", found["version"], found["kind"])
        raise ValueError(
            f"{text!r} does not name one kind: write group, version and kind, as in "
            '"apps/v1/Deployment" or "Deployment.v1.apps", and "v1/Pod" in the core group'
        )

    @classmethod
    def of(cls, manifest: Mapping[str, Any]) -> GroupVersionKind:
        """Return the kind of a manifest. Raises ValueError if it does not say what it is."""
        api_version, kind = manifest.get("apiVersion"), manifest.get("kind")
        if not isinstance(api_version, str) or not isinstance(kind, str):
            raise ValueError("a manifest needs the string fields apiVersion and kind")
        return cls.parse(api_version, kind)

    def __str__(self) -> str:
        return f"{self.api_version}, Kind={self.kind}"


@dataclass(frozen=True, slots=True, order=True)
class RESTMapping:
    """How a kind is served: its plural name and whether it lives in namespaces."""

    gvk: GroupVersionKind
    plural: str
    namespaced: bool
    root: str = field(init=False, repr=False, compare=False)
    """The path of the group version: ``/api/v1`` or ``/apis/apps/v1``."""

    def __post_init__(self) -> None:
        gvk = self.gvk
        root = f"/apis/{gvk.group}/{gvk.version}" if gvk.group else f"/api/{gvk.version}"
        object.__setattr__(self, "root", root)

    @property
    def resource(self) -> str:
        """``deployments.apps``, or ``configmaps`` in the core group (also the name of a CRD)."""
        return f"{self.plural}.{self.gvk.group}" if self.gvk.group else self.plural

    def path(
        self,
        name: str | None = None,
        subresource: str | None = None,
        *,
        namespace: str | None = None,
    ) -> str:
        """Return the path of a collection or, with ``name``, of one object.

        ``namespace`` None on a namespaced kind is the collection across all namespaces; on a
        cluster-scoped kind the namespace is ignored, as in client-go. Raises ValueError for a
        named object of a namespaced kind without a namespace, for an empty name, and for a
        subresource without a name.
        """
        parts = [self.root]
        if self.namespaced and namespace:
            parts += ["namespaces", _quoted(namespace)]
        elif self.namespaced and name is not None:
            raise ValueError(f"{self.resource} {name!r}: a namespace is needed to name one object")
        parts.append(self.plural)
        if name is not None:
            if not name or name in {".", ".."}:
                raise ValueError(f"{self.resource}: {name!r} is not a name")
            parts.append(_quoted(name))
        if subresource is not None:
            if name is None:
                raise ValueError(f"{self.resource}: a subresource belongs to a named object")
            parts.append(subresource)
        return "/".join(parts)


def _quoted(segment: str) -> str:
    return segment if _UNQUOTED(segment) else quote(segment, safe=_PATH_SAFE)

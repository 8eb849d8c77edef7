"""What the server holds of a kind: names, scope, versions, subresources and write rules."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from ctrlruntime.api.kinds import GroupVersionKind
from ctrlruntime.envtest.server.kinds.builtin import Builtin

NameRule = Literal["subdomain", "label", "path", "none"]

ALL_VERBS: Final = (
    "create",
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "update",
    "watch",
)
CUSTOM_VERBS: Final = (
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "create",
    "update",
    "watch",
)
"""The same, in the order in which custom resources are described."""
DEFAULT_FIELDS: Final = ("metadata.name", "metadata.namespace")
EXTENSION: Final[dict[str, Any]] = {
    "namespaced": False,
    "generation": True,
    "unconditional_update": False,
    "categories": ("api-extensions",),
}
"""What the kinds that extend the server have in common."""


@dataclass(frozen=True, slots=True)
class ScalePaths:
    """Where a kind keeps what its scale subresource shows; dotted, without the leading dot."""

    spec: str = "spec.replicas"
    status: str = "status.replicas"
    selector: str = "status.labelSelector"


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One resource. Objects of all its versions share one storage, kept in `storage_version`."""

    group: str
    kind: str
    plural: str
    versions: tuple[str, ...] = ("v1",)
    storage_version: str = "v1"
    namespaced: bool = True
    singular: str = ""
    list_kind: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ALL_VERBS
    subresources: tuple[str, ...] = ()
    scale: ScalePaths | None = None
    generation: bool = False
    create_on_update: bool = False
    unconditional_update: bool = True
    name_rule: NameRule = "subdomain"
    fields: tuple[str, ...] = DEFAULT_FIELDS
    custom: bool = False
    create_only: bool = False
    """A review: it is answered, never stored."""
    builtin: Builtin = field(default=Builtin(), compare=False)
    """Of a built-in kind: defaults, rules and the like."""
    schemas: Mapping[str, Mapping[str, Any]] = field(default_factory=dict, compare=False)
    """Of a custom kind: the version entries of its definition, by name."""
    definition: Mapping[str, Any] | None = field(default=None, compare=False)
    """Of a custom kind: the CustomResourceDefinition."""

    @property
    def resource(self) -> str:
        """`deployments.apps`, or `configmaps` in the core group."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def bucket(self) -> str:
        """The storage of the kind; the two event groups share one."""
        return self.plural if self.group == "events.k8s.io" else self.resource

    @property
    def epoch(self) -> int:
        """Generation of the definition of a custom kind; 0 of a built-in one."""
        if self.definition is None:
            return 0
        return int(self.definition["metadata"]["generation"])

    @property
    def has_status(self) -> bool:
        return "status" in self.subresources

    @property
    def list_name(self) -> str:
        return self.list_kind or f"{self.kind}List"

    @property
    def singular_name(self) -> str:
        return self.singular or self.kind.lower()

    def gvk(self, version: str) -> GroupVersionKind:
        return GroupVersionKind(self.group, version, self.kind)

    def api_version(self, version: str) -> str:
        return f"{self.group}/{version}" if self.group else version

    def version_entry(self, version: str) -> Mapping[str, Any]:
        return self.schemas[version]


class Catalog:
    """All kinds now served, by the parts of a URL."""

    def __init__(self, kinds: Iterable[Kind]) -> None:
        self._by_resource: dict[tuple[str, str], Kind] = {}
        self.revision = 0
        for kind in kinds:
            self._by_resource[kind.group, kind.plural] = kind

    def __iter__(self) -> Iterator[Kind]:
        return iter(self._by_resource.values())

    def find(self, group: str, version: str, plural: str) -> Kind | None:
        kind = self._by_resource.get((group, plural))
        return kind if kind is not None and version in kind.versions else None

    def resource(self, group: str, plural: str) -> Kind | None:
        return self._by_resource.get((group, plural))

    def by_kind(self, group: str, kind: str) -> Kind | None:
        for item in self._by_resource.values():
            if item.group == group and item.kind == kind:
                return item
        return None

    def put(self, kind: Kind) -> None:
        self._by_resource[kind.group, kind.plural] = kind
        self.revision += 1

    def remove(self, group: str, plural: str) -> None:
        self._by_resource.pop((group, plural), None)
        self.revision += 1

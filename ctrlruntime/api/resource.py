"""``Resource[Spec, Status]``: the type of a kind of one's own.

    class Website(
        Resource[WebsiteSpec, WebsiteStatus],
        group="example.com",
        version="v1",
        plural="websites",
    ):
        \"\"\"A website.\"\"\"

The class is what the client returns, what a controller names, and what the CRD is generated from.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, Never, Self, TypeAlias, cast

import orjson
from pydantic import Field, PydanticUserError, ValidationError, model_validator
from pydantic.fields import FieldInfo
from pydantic_core import InitErrorDetails, PydanticCustomError
from typing_extensions import TypeVar

from .kinds import GroupVersion, GroupVersionKind, Manifest, RESTMapping
from .markers import PrintColumn
from .model import ApiModel
from .objectmeta import ObjectMeta, OwnerReference

if TYPE_CHECKING:
    from .markers import CEL

__all__ = [
    "ApiModel",
    "KindOptions",
    "KindRef",
    "NoStatus",
    "ObjectMeta",
    "OwnerReference",
    "Resource",
    "Scale",
    "TypedKindRef",
    "UntypedKindRef",
    "assumed_mapping",
    "gvk_of",
    "mapping_of",
]


class NoStatus(ApiModel):
    """The status of a kind that has none."""


SpecT = TypeVar("SpecT", bound=ApiModel)
StatusT = TypeVar("StatusT", bound=ApiModel, default=NoStatus)

Scope = Literal["Namespaced", "Cluster"]


@dataclass(frozen=True, slots=True)
class Scale:
    """Where the scale subresource finds its numbers (JSON paths under ``.spec`` and ``.status``)."""

    spec_replicas_path: str = ".spec.replicas"
    status_replicas_path: str = ".status.replicas"
    label_selector_path: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class KindOptions:
    """What the class keywords of a kind say."""

    gvk: GroupVersionKind
    plural: str
    singular: str
    list_kind: str
    scope: Scope = "Namespaced"
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    print_columns: tuple[PrintColumn, ...] = ()
    status: bool = True
    scale: Scale | None = None
    storage: bool = True
    served: bool = True
    deprecated: bool | str = False
    skip: bool = False
    selectable_fields: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    mapping: RESTMapping = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        mapping = RESTMapping(self.gvk, self.plural, self.scope == "Namespaced")
        object.__setattr__(self, "mapping", mapping)


class Resource(ApiModel, Generic[SpecT, StatusT]):
    """A kind: type it with its spec and, where it has one, its status.

    Class keywords (``group`` and ``version``, or both as ``api=GroupVersion(...)``, make the class a
    kind, the others have defaults):

    - ``kind``: the class name. Another class of the same kind, in a second version, names it.
    - ``plural``: the English plural of the kind, lower case. ``singular``: the kind, lower case.
    - ``scope``: ``Namespaced`` (default) or ``Cluster``.
    - ``short_names``, ``categories``: further names for kubectl.
    - ``print_columns``: ``PrintColumn(name, json_path, type)``; or annotate the field itself.
    - ``status``: whether status is a subresource; default: if the class has a status type.
    - ``scale``: a ``Scale`` if the kind has a scale subresource.
    - ``storage``, ``served``, ``deprecated`` (True or the warning): of this version.
    - ``skip``: the version is known here, but is in no CRD.
    - ``selectable_fields``: JSON paths usable in field selectors, at most 8.
    - ``labels``, ``annotations``: of the CRD itself.
    - ``rules``: CEL rules on the whole object.
    """

    kind_options: ClassVar[KindOptions | None] = None
    builtin: ClassVar[bool] = False
    """Whether the API server has the kind without a CRD."""

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = Field(default_factory=ObjectMeta)
    spec: SpecT
    status: StatusT = None  # type: ignore[assignment]  # made by _complete; typed for the reader

    @classmethod
    def __pydantic_init_subclass__(
        cls,
        *,
        api: GroupVersion | None = None,
        group: str | None = None,
        version: str | None = None,
        kind: str | None = None,
        plural: str | None = None,
        singular: str | None = None,
        list_kind: str | None = None,
        scope: Scope = "Namespaced",
        short_names: Sequence[str] = (),
        categories: Sequence[str] = (),
        print_columns: Sequence[PrintColumn] = (),
        status: bool | None = None,
        scale: Scale | None = None,
        storage: bool = True,
        served: bool = True,
        deprecated: bool | str = False,
        skip: bool = False,
        selectable_fields: Sequence[str] = (),
        labels: Mapping[str, str] | None = None,
        annotations: Mapping[str, str] | None = None,
        rules: tuple[CEL, ...] = (),
        **kwargs: Never,
    ) -> None:
        super().__pydantic_init_subclass__(rules=rules, **kwargs)
        if api is not None:
            if group is not None or version is not None:
                raise TypeError(f"{cls.__name__}: give api, or group and version, one of the two")
            group, version = api.group, api.version
        if group is None and version is None:
            return
        kind = kind or cls.__name__
        singular = singular or kind.lower()
        options = KindOptions(
            gvk=GroupVersionKind(group or "", version or "", kind),
            plural=plural or plural_of(singular),
            singular=singular,
            list_kind=list_kind or f"{kind}List",
            scope=scope,
            short_names=_words("short_names", short_names),
            categories=_words("categories", categories),
            print_columns=tuple(print_columns),
            status=_has_status(cls) if status is None else status,
            scale=scale,
            storage=storage,
            served=served,
            deprecated=deprecated,
            skip=skip or cls.builtin,
            selectable_fields=_words("selectable_fields", selectable_fields),
            labels=dict(labels or {}),
            annotations=dict(annotations or {}),
        )
        _check(cls, options)
        cls.kind_options = options

    @model_validator(mode="after")
    def _complete(self) -> Self:
        """Fill in apiVersion and kind, and refuse an object of another kind."""
        options = type(self).kind_options
        if options is not None:
            gvk = options.gvk
            if not self.api_version:  # setting a field costs more than all the rest
                self.api_version = gvk.api_version
            if not self.kind:
                self.kind = gvk.kind
            if self.kind != gvk.kind or self.api_version != gvk.api_version:
                raise ValueError(
                    f"this is a {self.kind} of {self.api_version}, not a {gvk.kind} of "
                    f"{gvk.api_version}"
                )
        if self.status is None:
            self.__dict__["status"] = _field_type(type(self), "status")()
        return self

    @classmethod
    def options(cls) -> KindOptions:
        """Return what the class keywords say. Raises TypeError for a class without group and version."""
        if cls.kind_options is None:
            raise TypeError(
                f"{cls.__name__} is not a kind: give it class keywords, for example "
                f'class {cls.__name__}(Resource[Spec, Status], group="example.com", version="v1")'
            )
        return cls.kind_options

    @classmethod
    def gvk(cls) -> GroupVersionKind:
        return cls.options().gvk

    @classmethod
    def mapping(cls) -> RESTMapping:
        return cls.options().mapping

    @classmethod
    def crd(cls) -> Manifest:
        """Return the CustomResourceDefinition of this kind with this one version."""
        from ctrlruntime.generate.crd import crd_of  # the generator builds on this module

        return crd_of([cls])

    @classmethod
    def from_manifest(cls, manifest: Mapping[str, Any] | bytes) -> Self:
        """Read an object from its wire form, dict or JSON.

        A missing spec is read as an empty one and a missing status as one of defaults. Raises
        pydantic.ValidationError, which names the object and every field that is wrong, if it is not valid
        or of another kind.
        """
        if isinstance(manifest, bytes):
            try:
                return cls.model_validate_json(manifest)
            except ValidationError as error:
                try:
                    manifest = cast("dict[str, Any]", orjson.loads(manifest))
                except orjson.JSONDecodeError:
                    raise error from None
                if not any(item["loc"] == ("spec",) for item in error.errors(include_url=False)):
                    raise _of_object(error, manifest) from None
        if manifest.get("spec") is None:
            manifest = {**manifest, "spec": {}}
        try:
            return cls.model_validate(manifest)
        except ValidationError as error:
            raise _of_object(error, manifest) from None

    def to_manifest(self, *, exclude_unset: bool = True) -> Manifest:
        """Return the object's wire form: see ApiModel for what is written.

        apiVersion, kind and metadata are always there; status only if any of it was set.
        """
        manifest = self.to_wire(exclude_unset=exclude_unset)
        head = {
            "apiVersion": self.api_version,
            "kind": self.kind,
            "metadata": manifest.get("metadata", {}),
        }
        if not exclude_unset:
            head["metadata"] = self.metadata.to_wire()
        manifest = {**head, **{k: v for k, v in manifest.items() if k not in head}}
        if manifest.get("status") == {}:
            del manifest["status"]
        return manifest


UntypedKindRef: TypeAlias = GroupVersionKind | RESTMapping | str
"""What names a kind that is handled as plain manifests; a string as in ``apps/v1/Deployment``."""
KindRef: TypeAlias = type[Resource[Any, Any]] | UntypedKindRef
"""What names a kind in every call: a class of one's own, a GVK or its text, or a REST mapping."""


KindT = TypeVar("KindT", bound=Resource[Any, Any], default=Any)
TypedKindRef: TypeAlias = type[KindT] | UntypedKindRef
"""A `KindRef` whose class, if it is one, types what belongs to the kind: ``TypedKindRef[Website]``."""


def mapping_of(kind: KindRef) -> RESTMapping | None:
    """Return the REST mapping of a kind as far as it is known without discovery, otherwise None."""
    if isinstance(kind, RESTMapping):
        return kind
    if isinstance(kind, GroupVersionKind | str):
        from .builtin import BUILTIN

        return BUILTIN.get(gvk_of(kind))
    return kind.mapping()


@lru_cache(maxsize=1024)
def _parsed(text: str) -> GroupVersionKind:
    return GroupVersionKind.from_string(text)


def gvk_of(kind: KindRef) -> GroupVersionKind:
    """Return the kind that a reference names. Raises ValueError for a string that names none, or several."""
    if isinstance(kind, str):
        return _parsed(kind)
    if isinstance(kind, GroupVersionKind):
        return kind
    return kind.gvk if isinstance(kind, RESTMapping) else kind.gvk()


def assumed_mapping(gvk: GroupVersionKind) -> RESTMapping:
    """How a kind is served if its plural is regular and it is namespaced; otherwise only a server can tell."""
    return RESTMapping(gvk, plural_of(gvk.kind.lower()), True)


_VOWELS = "aeiou"


def plural_of(singular: str) -> str:
    """Return the English plural of a regular lower-case word: ``policies``, ``ingresses``, ``gateways``."""
    if singular.endswith("y") and singular[-2:-1] not in _VOWELS:
        return f"{singular[:-1]}ies"
    if singular.endswith(("s", "x", "z", "ch", "sh")):
        return f"{singular}es"
    return f"{singular}s"


_LABEL = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)+")


def _check(cls: type[Resource[Any, Any]], options: KindOptions) -> None:
    gvk = options.gvk
    if not cls.builtin and not _SUBDOMAIN.fullmatch(gvk.group):
        raise TypeError(f"{cls.__name__}: group {gvk.group!r} is not a DNS name with a dot")
    for word, value in (("version", gvk.version), ("plural", options.plural)):
        if not _LABEL.fullmatch(value):
            raise TypeError(f"{cls.__name__}: {word} {value!r} is not a lower-case DNS label")
    if options.scope not in ("Namespaced", "Cluster"):
        raise TypeError(f"{cls.__name__}: scope is Namespaced or Cluster, not {options.scope!r}")
    if len(options.selectable_fields) > 8:
        raise TypeError(f"{cls.__name__}: a kind has at most 8 selectable fields")
    for column in options.print_columns:
        if not column.name or not column.json_path:
            raise TypeError(f"{cls.__name__}: a print column here needs a name and a json_path")
    _check_status(cls)


def _check_status(cls: type[Resource[Any, Any]]) -> None:
    try:
        status = _field_type(cls, "status")
        required = [name for name, item in status.model_fields.items() if item.is_required()]
    except (PydanticUserError, AttributeError):  # not resolved yet: a forward reference
        return
    if required:
        raise TypeError(
            f"{cls.__name__}: every status field needs a default, because a new object has no "
            f"status; without one: {', '.join(required)}"
        )


def _has_status(cls: type[Resource[Any, Any]]) -> bool:
    status = _field_type(cls, "status")
    return not issubclass(status, NoStatus)


def _field_type(cls: type[Resource[Any, Any]], name: str) -> type[ApiModel]:
    info: FieldInfo = cls.model_fields[name]
    if not (isinstance(info.annotation, type) and issubclass(info.annotation, ApiModel)):
        raise TypeError(
            f"{cls.__name__}: its {name} must be an ApiModel, as in "
            f"class {cls.__name__}(Resource[MySpec, MyStatus], ...)"
        )
    return info.annotation


def _words(name: str, value: Sequence[str]) -> tuple[str, ...]:
    if isinstance(value, str):
        raise TypeError(f"{name} is a list of words, not the string {value!r}")
    return tuple(value)


def _of_object(error: ValidationError, manifest: object) -> ValidationError:
    """Return the same error with the name of the object: of a list it is not known which one it was."""
    metadata = manifest.get("metadata") if isinstance(manifest, Mapping) else None
    found = metadata if isinstance(metadata, Mapping) else {}
    names = [str(found[each]) for each in ("namespace", "name") if found.get(each)]
    if not names:
        return error
    details = [
        InitErrorDetails(
            type=PydanticCustomError(item["type"], "{fault}", {"fault": item["msg"]}),
            loc=item["loc"],
            input=item["input"],
        )
        for item in error.errors(include_url=False)
    ]
    return ValidationError.from_exception_data(f"{error.title} {'/'.join(names)}", details)

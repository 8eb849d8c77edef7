"""The base of everything typed: camelCase on the wire, snake_case in Python."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from enum import Enum
from functools import cache
from types import UnionType
from typing import Annotated, Any, ClassVar, Literal, Never, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel
from pydantic.fields import FieldInfo

from ctrlruntime.json import Json

from .kinds import Manifest
from .markers import CEL, Nullable_, RequiredOnWire

__all__ = ["ApiModel"]


class ApiModel(BaseModel):
    """Base of specs, statuses and the objects inside them.

    Fields are snake_case in Python and camelCase on the wire; either name is accepted when an object
    is built. The docstring under an attribute becomes its description in the CRD. Class keywords
    other than pydantic's own: ``rules``, CEL rules on the whole object.

    What is written (``to_wire``) is what was set, here or by the object that was read:

    - A field that was never set is left out, so that the server's default applies and the field is
      not owned by an apply. Changing a list, dict or nested object in place counts as setting it.
    - ``X | None = None`` is an optional field: None means that it is absent and is never written.
      ``Nullable[X]`` may be null on the wire: an explicit None is kept.
    - Unknown fields are ignored when read. They are not lost by a patch: a merge patch names only
      the fields that changed, and an apply only those that are owned. A full update from a typed
      object would drop them, as it would in Go.
    """

    model_config = ConfigDict(
        alias_generator=to_camel,
        validate_by_name=True,
        validate_by_alias=True,
        defer_build=True,  # by the first object; most of what a process imports it never makes
        extra="ignore",
    )

    object_rules: ClassVar[tuple[CEL, ...]] = ()

    def __init_subclass__(cls, **kwargs: object) -> None:
        super().__init_subclass__()  # the keywords are read below, when the fields are known

    @classmethod
    def __pydantic_init_subclass__(cls, *, rules: tuple[CEL, ...] = (), **kwargs: Never) -> None:
        super().__pydantic_init_subclass__()
        if kwargs:
            raise TypeError(f"{cls.__name__}: unknown class keywords {', '.join(sorted(kwargs))}")
        if rules:
            cls.object_rules = (*cls.object_rules, *rules)

    @classmethod
    def prepare(cls) -> None:
        """Build at once what the first objects of the class, and of the models in it, would build.

        That takes tens of milliseconds for a large kind: too long for a loop that serves others. Raises
        pydantic's errors for fields that cannot be read.
        """
        _prepare_once(cls)

    def to_wire(self, *, exclude_unset: bool = True) -> Manifest:
        """Return the object as JSON data under its wire names.

        With ``exclude_unset`` False, defaults are written too; an optional field that is None is
        left out in either case.
        """
        _mark_changes(self)
        if exclude_unset:
            return self.model_dump(mode="json", by_alias=True, exclude_unset=True)
        return _without_absent(self)


class _Traits:
    """What the writer needs to know of a class, found once."""

    __slots__ = ("containers", "on_wire", "optional", "required")

    def __init__(self, cls: type[ApiModel]) -> None:
        # names, what they are if never set, and whether models can be inside
        self.containers: list[tuple[str, Any, bool]] = []
        self.optional: list[str] = []
        self.required: list[str] = []
        for name, field in cls.model_fields.items():
            nullable = any(isinstance(item, Nullable_) for item in field.metadata)
            if not field.is_required() and field.default is None and not nullable:
                self.optional.append(name)
            if any(isinstance(item, RequiredOnWire) for item in field.metadata):
                self.required.append(name)
            if not _is_scalar(field.annotation):
                self.containers.append((name, _pristine(field), _holds_models(field.annotation)))
        # by wire name: the field's, and whether it is left out where it is None
        self.on_wire = {
            field.serialization_alias or name: (name, name in self.optional)
            for name, field in cls.model_fields.items()
        }


_SCALARS = (str, int, float, bool, bytes, datetime, timedelta, Enum, type(None))


def _is_scalar(annotation: object) -> bool:
    """Whether values of the type cannot be changed in place."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is None:
        return isinstance(annotation, type) and issubclass(annotation, _SCALARS)
    if origin is Annotated:
        return _is_scalar(arguments[0])
    if origin in (Union, UnionType):
        return all(_is_scalar(part) for part in arguments)
    return origin is Literal


def _holds_models(annotation: object) -> bool:
    return next(_models_in(annotation), None) is not None


def _pristine(field: FieldInfo) -> object:
    """Return a default of the field that is never handed out, to compare with; None if there is none."""
    if field.is_required() or field.default_factory_takes_validated_data:
        return None
    default = field.get_default(call_default_factory=True)
    return default.model_dump(exclude_unset=True) if isinstance(default, ApiModel) else default


@cache  # one entry for each class that exists
def _traits(cls: type[ApiModel]) -> _Traits:
    return _Traits(cls)


@cache  # one entry for each class that exists
def _prepare_once(cls: type[ApiModel]) -> None:
    _prepare(cls, set())


def _prepare(cls: type[ApiModel], done: set[type[ApiModel]]) -> None:
    if cls in done:
        return
    done.add(cls)
    cls.model_rebuild()
    _traits(cls)
    for field in cls.model_fields.values():
        for model in _models_in(field.annotation):
            _prepare(model, done)


def _models_in(annotation: object) -> Iterator[type[ApiModel]]:
    if isinstance(annotation, type) and issubclass(annotation, ApiModel):
        yield annotation
    for part in get_args(annotation):
        yield from _models_in(part)


def _mark_changes(model: ApiModel) -> None:
    """Bring ``model_fields_set`` up to date with changes made in place."""
    traits = _traits(type(model))
    fields_set = model.__pydantic_fields_set__
    values = model.__dict__
    for name in traits.optional:
        if name in fields_set and values.get(name) is None:
            fields_set.discard(name)
    for name in traits.required:
        if values.get(name) is not None:
            fields_set.add(name)
    for name, pristine, holds_models in traits.containers:
        value = values.get(name)
        if value is None:
            continue
        if holds_models:
            _mark_inside(value)
        if name not in fields_set and _differs(value, pristine):
            fields_set.add(name)


def _mark_inside(value: object) -> None:
    if isinstance(value, ApiModel):
        _mark_changes(value)
    elif isinstance(value, list | tuple | set | frozenset):
        for item in value:
            _mark_inside(item)
    elif isinstance(value, dict):
        for item in value.values():
            _mark_inside(item)


def _differs(value: object, pristine: object) -> bool:
    """Whether a value that was not assigned is no longer its default."""
    if isinstance(value, ApiModel):
        return value.model_dump(exclude_unset=True) != (pristine or {})
    return isinstance(value, list | dict | set) and bool(value != pristine)


def _without_absent(model: ApiModel) -> Manifest:
    """Everything but optional fields that are None, at every level."""

    def clean(value: object, dumped: Json) -> Json:
        if isinstance(value, ApiModel):
            return fields_of(value, dumped)
        if isinstance(dumped, list) and isinstance(value, list | tuple):
            return [clean(a, b) for a, b in zip(value, dumped, strict=True)]
        if isinstance(dumped, dict) and isinstance(value, Mapping):
            return {key: clean(value.get(key), item) for key, item in dumped.items()}
        return dumped

    def fields_of(value: ApiModel, dumped: Json) -> Manifest:
        on_wire, values, found = _traits(type(value)).on_wire, value.__dict__, {}
        for key, item in dumped.items():
            name, is_optional = on_wire.get(key, ("", False))
            inner = values.get(name)
            if inner is not None or not is_optional:
                found[key] = clean(inner, item) if isinstance(item, list | dict) else item
        return found

    return fields_of(model, model.model_dump(mode="json", by_alias=True))

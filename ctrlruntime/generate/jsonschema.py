"""Pydantic's JSON schema of a model, with defaults evaluated and made-up titles left out."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from itertools import pairwise
from typing import Any, cast

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import PydanticUndefined, SchemaSerializer, core_schema, to_jsonable_python
from pydantic_core import SchemaError as CoreSchemaError

from ctrlruntime.api.model import ApiModel
from ctrlruntime.json import Json

from .errors import SchemaError

__all__ = ["json_schema_of"]


def json_schema_of(model: type[BaseModel]) -> JsonSchemaValue:
    """Return the schema of what may be written to the API, with ``$defs``.

    Raises SchemaError for a type without a JSON schema, and for a default that cannot be evaluated.
    """
    try:
        schema = model.model_json_schema(by_alias=True, schema_generator=_Generator)
    except SchemaError:
        raise
    except Exception as error:
        raise SchemaError(model.__name__, f"has no JSON schema: {error}") from error
    for definition in schema.get("$defs", {}).values():
        if "enum" in definition:
            definition.pop("title", None)
    return schema


class _Generator(GenerateJsonSchema):
    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        inner = self.generate_inner(schema["schema"])
        if "default" in schema:
            value = schema["default"]
        elif "default_factory" in schema:
            value = _evaluate(schema)
        else:
            return inner
        if value is None or value is PydanticUndefined:
            return inner
        return {**inner, "default": _wire_value(value, schema["schema"])}

    def field_title_should_be_set(self, schema: object) -> bool:
        return False

    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        result = super().model_schema(schema)
        model = cast("type[BaseModel]", schema["cls"])
        if not model.model_config.get("title"):
            result.pop("title", None)
        if model.__doc__ == BaseModel.__doc__:
            result.pop("description", None)
        if issubclass(model, ApiModel):
            _describe(model, result.get("properties", {}))
        rules = getattr(model, "object_rules", ())
        for rule in rules:
            rule.extend(result)
        return result


def _describe(model: type[ApiModel], properties: dict[str, JsonSchemaValue]) -> None:
    """Add the texts under the attributes, where the field itself has none."""
    if not model.model_config.get("use_attribute_docstrings", True):
        return  # pydantic's own word for it
    texts = attribute_docstrings(model)
    for name, field in model.model_fields.items():
        wire = properties.get(field.alias or name)
        if wire is not None and name in texts and field.description is None:
            wire["description"] = texts[name]


def _evaluate(schema: core_schema.WithDefaultSchema) -> object:
    """Return the value of a default_factory, which must be the same each time to be a default in a CRD."""
    factory = schema["default_factory"]
    name = getattr(factory, "__name__", repr(factory))
    if schema.get("default_factory_takes_data"):
        raise SchemaError(
            f"default_factory {name}",
            "depends on other fields; a CRD cannot express that: set the value in a webhook or "
            "in the controller and make the field optional (X | None = None)",
        )
    make = cast("Callable[[], Any]", factory)
    first, second = make(), make()
    if first != second:
        raise SchemaError(
            f"default_factory {name}",
            "gives another value each time; a default in a CRD is fixed: set the value in a "
            "webhook or in the controller and make the field optional (X | None = None)",
        )
    return first


def _wire_value(value: object, schema: core_schema.CoreSchema) -> Json:
    """Return a default as its field would be written."""
    if isinstance(value, set | frozenset):
        return sorted(to_jsonable_python(value))
    try:
        return SchemaSerializer(schema).to_python(value, mode="json", **_AS_WRITTEN)
    except CoreSchemaError:  # refers to models that are defined further out
        return to_jsonable_python(_plain(value), by_alias=True)


_AS_WRITTEN: dict[str, Any] = {"by_alias": True, "exclude_unset": True}


def _plain(value: object) -> object:
    if isinstance(value, ApiModel):
        return value.to_wire()
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return value


def attribute_docstrings(cls: type) -> Mapping[str, str]:
    """Return the texts under the attributes of a class by name, those of base classes too; empty where there is no source.

    They are read where they are needed: with pydantic's `use_attribute_docstrings` every process that imports
    a kind parses its source, for texts that only the generator uses.
    """
    found: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        found |= _own(base)
    return found


@cache
def _own(cls: type) -> Mapping[str, str]:
    if not inspect.get_annotations(cls):
        return {}
    try:
        source = textwrap.dedent(inspect.getsource(cls))
        tree = ast.parse(source)
    except (OSError, TypeError, SyntaxError):
        return {}
    return dict(_texts(tree.body[0])) if tree.body else {}


def _texts(node: ast.stmt) -> Iterator[tuple[str, str]]:
    if not isinstance(node, ast.ClassDef):
        return
    for attribute, below in pairwise(node.body):
        match attribute, below:
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(text))),
            ):
                yield name, inspect.cleandoc(text)

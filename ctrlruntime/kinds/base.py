"""What typed models of built-in kinds have in common: nothing that a server sent is lost."""

from __future__ import annotations

from typing import ClassVar, Generic, get_origin

from pydantic import ConfigDict, Field, model_validator

from ctrlruntime.api.kinds import Manifest
from ctrlruntime.api.model import ApiModel
from ctrlruntime.api.resource import Resource, SpecT, StatusT

__all__ = ["BuiltinKind", "BuiltinModel", "NoSpec", "SpeclessKind"]


class _WithoutNull(ApiModel):
    """Takes null in a known field as its absence: Go writes it for empty lists. Unknown fields are kept."""

    model_config = ConfigDict(extra="allow")

    @model_validator(mode="before")
    @classmethod
    def _leave_out_null(cls, given: object) -> object:
        if not isinstance(given, dict) or None not in given.values():
            return given
        fields = {each.serialization_alias or key: each for key, each in cls.model_fields.items()}
        kept = dict(given)
        for name, field in fields.items():
            if name in kept and kept[name] is None:
                if field.is_required() and get_origin(field.annotation) is list:
                    kept[name] = []
                else:
                    del kept[name]
        return kept


class BuiltinModel(_WithoutNull):
    """A part of a built-in object. Fields that a newer server adds are kept, and written as they were read."""


class NoSpec(BuiltinModel):
    """The spec of a kind that has none."""


class BuiltinKind(Resource[SpecT, StatusT], _WithoutNull, Generic[SpecT, StatusT]):
    """A built-in kind. Its fields are those of the release that it was made from; others are kept."""

    model_config = ConfigDict(extra="allow")
    builtin: ClassVar[bool] = True


class SpeclessKind(BuiltinKind[NoSpec, StatusT], Generic[StatusT]):
    """A built-in kind without a spec, such as ConfigMap: its fields are beside the metadata."""

    spec: NoSpec = Field(default_factory=NoSpec)

    def to_manifest(self, *, exclude_unset: bool = True) -> Manifest:
        """Return the object's wire form, without an empty spec."""
        manifest = super().to_manifest(exclude_unset=exclude_unset)
        if not manifest.get("spec"):
            manifest.pop("spec", None)
        return manifest

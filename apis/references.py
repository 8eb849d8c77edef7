"""What objects of every group share: names of other objects, and amounts."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, WithJsonSchema

from ctrlruntime.api import ApiModel

__all__ = [
    "Name",
    "NamespaceOrNone",
    "NumberOrPercentage",
    "SecretKeyRef",
    "SecretRef",
    "ServiceAccountName",
]

Name = Annotated[str, Field(min_length=1, max_length=253)]
"""The name of an object."""

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
ServiceAccountName = Annotated[
    str, Field(min_length=1, max_length=253, pattern=rf"^{_LABEL}(\.{_LABEL})*$")
]
"""The name of a ServiceAccount. It becomes part of a header, so no other text may stand for it."""

NamespaceOrNone = Annotated[str, Field(max_length=63, pattern="^([a-z0-9]([-a-z0-9]*[a-z0-9])?)?$")]
"""The name of a Namespace, or nothing."""

NumberOrPercentage = Annotated[
    int | str,
    WithJsonSchema(
        {
            "anyOf": [{"type": "integer"}, {"type": "string"}],
            "minimum": 0,
            "maxLength": 4,
            "pattern": "^[0-9]{1,3}%$",
            "x-kubernetes-int-or-string": True,
        }
    ),
]
"""A number, or a percentage such as 25%."""


class SecretRef(ApiModel):
    """A Secret in the same namespace."""

    name: Name
    """Name of the Secret."""


class SecretKeyRef(ApiModel):
    """One key of a Secret in the same namespace."""

    name: Name
    """Name of the Secret."""
    key: Annotated[str, Field(min_length=1, max_length=253)]
    """Key within the Secret's data."""

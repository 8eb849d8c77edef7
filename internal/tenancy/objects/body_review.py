"""Manifests of templates against the schemas of the server: which mistakes are refused, and which warned of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

import msgspec

from apis.tenancy import PatchStrategy
from ctrlruntime.api import BUILTIN, GroupVersionKind
from ctrlruntime.api.name_rules import label, label_value, qualified_name
from ctrlruntime.client.errors import APIError, TransportError
from ctrlruntime.client.openapi import Schemas
from internal.tenancy.objects.manifest_schema import BodyProblem, Flaw, body_problems
from internal.tenancy.rendering.templates import is_template

UNREADABLE: Final = (APIError, TransportError, TimeoutError, OSError, msgspec.MsgspecError)


class SchemaSource(Protocol):
    """Where the schemas of kinds come from."""

    async def of(self, group: str, version: str) -> Schemas | None:
        """Return the schemas of a group and version; None if it is not served."""
        ...


@dataclass(frozen=True, slots=True)
class BodyFinding:
    """A mistake, and whether it is certain: such a manifest can be applied for no tenant."""

    problem: BodyProblem
    certain: bool


@dataclass(frozen=True, slots=True)
class BodyReview:
    """Checks manifests. `decisive`: objects are written to the server of the schemas and no other.

    Where the schemas cannot be read, or the kind is not served, nothing is found.
    """

    schemas: SchemaSource
    decisive: bool = True

    async def findings(
        self, manifest: Mapping[str, Any], strategy: PatchStrategy = PatchStrategy.APPLY
    ) -> list[BodyFinding]:
        """Return what is wrong with a manifest that is written with a patch strategy."""
        try:
            kind = GroupVersionKind.of(manifest)
        except ValueError:
            return []
        if is_template(kind.api_version + kind.kind):
            return []
        try:
            schemas = await self.schemas.of(kind.group, kind.version)
        except UNREADABLE:
            return []
        if schemas is None:
            return []
        fixed = self.decisive and kind in BUILTIN
        return [
            BodyFinding(problem, fixed and _is_certain(problem.flaw, strategy))
            for problem in body_problems(manifest, kind, schemas)
            if problem.flaw is not Flaw.MISSING_FIELD or strategy is PatchStrategy.APPLY
        ]


def _is_certain(flaw: Flaw, strategy: PatchStrategy) -> bool:
    """Whether the server refuses it: a patch and an update drop unknown fields, an apply does not."""
    if flaw is Flaw.MISSING_FIELD:
        return False
    return flaw is not Flaw.UNKNOWN_FIELD or strategy is PatchStrategy.APPLY


def namespace_problem(name: str | None) -> str:
    """Return what is wrong with a namespace that is written out; empty if nothing is known to be."""
    if not name or is_template(name) or not label(name):
        return ""
    return (
        f"{name!r} is no name of a namespace: use at most 63 lower-case letters, digits and '-', "
        "with a letter or digit at both ends"
    )


def label_problems(labels: Mapping[str, Any] | None) -> list[str]:
    """Return what is wrong with labels that are written out, one sentence each."""
    texts: list[str] = []
    for key, value in (labels or {}).items():
        if qualified_name(key):
            texts.append(
                f"{key!r} is no label key: write name or prefix/name, of letters, digits, '-', '_' "
                "and '.', at most 63 characters each name"
            )
        elif isinstance(value, str) and not is_template(value) and label_value(value):
            texts.append(
                f"the value of {key!r} is no label value: use at most 63 letters, digits, '-', '_' "
                "and '.', with a letter or digit at both ends"
            )
    return texts

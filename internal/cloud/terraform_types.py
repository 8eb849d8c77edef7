"""Types of infrastructure: which Terraform module and settings an instance gets that names a type. Pure.

gcp-small:
module: {source: registry.example.com/acme/small/google, version: "~> 2.0"}
gcp-large:
module: {source: registry.example.com/acme/large/google, inputs: {replicas: 3}}
organization: acme
workspace: large-${namespace}-${instance}
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Final

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, TypeAdapter
from pydantic.alias_generators import to_camel

from apis.cloud import Instance, TerraformModule, TerraformSettings
from apis.references import SecretKeyRef
from internal.cloud.tasks.placeholders import Places
from internal.cloud.tasks.settings import read_yaml
from internal.cloud.tasks.task import TaskRejected
from internal.cloud.tasks.terraform.inputs import RESERVED

WORKSPACE: Final = r"^[A-Za-z0-9_-]{1,90}$"
"""What HCP Terraform takes as the name of a workspace."""
_STRICT: Final = ConfigDict(
    alias_generator=to_camel, populate_by_name=True, extra="forbid", strict=True, frozen=True
)


def _input_name(name: str) -> str:
    if not name.isidentifier() or name in RESERVED:
        raise ValueError(f"{name!r} cannot be the name of an input variable")
    return name


def _output_name(name: str) -> str:
    if not name.isidentifier():
        raise ValueError(f"{name!r} is no name of an output")
    return name


def _template(text: str) -> str:
    for place in ("${namespace}", "${instance}"):
        if place not in text:
            raise ValueError(f"it needs {place}, or two instances would have one workspace")
    try:
        Places(values={"namespace": "a", "instance": "b"}).fill(text)
    except TaskRejected as error:
        raise ValueError(str(error)) from error
    return text


Text = Annotated[str, StringConstraints(min_length=1)]
InputName = Annotated[str, AfterValidator(_input_name)]
OutputName = Annotated[str, AfterValidator(_output_name)]


class _Module(BaseModel):
    """The module of a type."""

    model_config = _STRICT

    source: Text
    version: Text | None = None
    inputs: dict[InputName, Any] = Field(default_factory=dict)
    outputs: list[OutputName] = Field(default_factory=list)
    sensitive_outputs: list[OutputName] = Field(default_factory=list)


class _Token(BaseModel):
    """The key of a Secret beside the instance."""

    model_config = _STRICT

    name: Text
    key: Text


class TerraformType(BaseModel):
    """What instances of one type get where their spec sets nothing."""

    model_config = _STRICT

    module: _Module
    organization: Text | None = None
    """HCP Terraform organization; without it a local binary is used."""
    address: Annotated[str, Field(pattern="^https?://")] | None = None
    """Address of HCP Terraform, or of Terraform Enterprise."""
    project_id: Text | None = None
    """HCP Terraform project of new workspaces."""
    token_from: _Token | None = None
    """API token, in a Secret beside the instance."""
    workspace: Annotated[str, AfterValidator(_template)] | None = None
    """Name of the workspace, with `${namespace}` and `${instance}`."""
    terraform_version: Text | None = None
    """Version of Terraform."""


class UnknownType(ValueError):
    """There is no such type, or it has no workspace for an instance. The message shows what to do."""


_FILE: TypeAdapter[dict[Text, TerraformType]] = TypeAdapter(dict[Text, TerraformType])


def parse_types(text: str) -> dict[str, TerraformType]:
    """Return the types by name from YAML; an empty text is none. Raises SettingsError.

    Nothing of a file with one wrong value is used.
    """
    return read_yaml(text, _FILE)


class TerraformTypes:
    """The types that there are at the moment."""

    def __init__(self, types: Mapping[str, TerraformType] | None = None) -> None:
        self._types = dict(types or {})

    def apply(self, types: Mapping[str, TerraformType]) -> list[str]:
        """Put the types in the place of the earlier ones. Returns the names whose type changed."""
        before, self._types = self._types, dict(types)
        names = before.keys() | types.keys()
        return sorted(name for name in names if before.get(name) != types.get(name))

    def settings_of(self, instance: Instance) -> TerraformSettings | None:
        """Return the settings of an instance: its own, and those of its type where it sets none.

        None for an instance without Terraform. Raises UnknownType.
        """
        own = instance.spec.infrastructure.terraform
        if own is None or own.type is None:
            return own
        given = self._types.get(own.type)
        if given is None:
            known = ", ".join(sorted(self._types)) or "none"
            raise UnknownType(
                f"spec.infrastructure.terraform.type: there is no type {own.type!r}. Types that the manager"
                f" has: {known}. Name one of them, or add it to the file of --terraform-types-file"
            )
        return own.model_copy(update=_lacking(own, given, instance))


def _lacking(own: TerraformSettings, given: TerraformType, instance: Instance) -> dict[str, Any]:
    """Return the fields of a type that the instance does not set itself."""
    token = given.token_from
    offered: dict[str, Any] = {
        "module": TerraformModule(**given.module.model_dump(exclude_none=True)),
        "organization": given.organization,
        "project_id": given.project_id,
        "token_from": None if token is None else SecretKeyRef(name=token.name, key=token.key),
        "terraform_version": given.terraform_version,
        "workspace": None if own.workspace else _workspace(given, instance),
    }
    found = {
        name: value
        for name, value in offered.items()
        if value is not None and getattr(own, name) is None
    }
    if given.address is not None and own.address == TerraformSettings().address:
        found["address"] = given.address
    return found


def _workspace(given: TerraformType, instance: Instance) -> str | None:
    if given.workspace is None:
        return None
    metadata = instance.metadata
    values = {"namespace": metadata.namespace or "", "instance": metadata.name or ""}
    found = Places(values=values).fill(given.workspace)
    if not re.fullmatch(WORKSPACE, found):
        raise UnknownType(
            f"spec.infrastructure.terraform.type: {found!r} of this type is no name of a workspace, which has letters,"
            " digits, - and _, at most 90. Set spec.infrastructure.terraform.workspace"
        )
    return found


def moved(
    before: TerraformSettings | None,
    wanted: TerraformSettings | None,
    default: str,
    built: str = "",
) -> str:
    """Return why infrastructure that was built may not get other settings because of a type; empty if it may.

    Another module is planned like every change. What keeps the state elsewhere would build all of it once more.
    `default` is the name of the instance's workspace where none is set, `built` the place that its last run recorded.
    """
    before, wanted = before or TerraformSettings(), wanted or TerraformSettings()
    if before.type is None and wanted.type is None:
        return ""
    there, then = built or place_of(before, default), place_of(wanted, default)
    if there == then and (not there or before.address == wanted.address):
        return ""
    return (
        f"The infrastructure was built with its state in {_shown(before, there)}. With {_named(wanted)} in place of"
        f" {_named(before)} it would be in {_shown(wanted, then)}, and everything would be built once more. Nothing was"
        " changed: take the change of spec.infrastructure.terraform back, or create another Instance."
    )


def place_of(settings: TerraformSettings, default: str) -> str:
    """Return organization and workspace; empty for a local binary."""
    if settings.organization is None:
        return ""
    return f"{settings.organization}/{settings.workspace or default}"


def _named(settings: TerraformSettings) -> str:
    return "no type" if settings.type is None else f"type {settings.type!r}"


def _shown(settings: TerraformSettings, place: str) -> str:
    return f"{settings.address}/{place}" if place else "the place of local runs"

"""`manager render`: one tenant's manifests without a cluster."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any, TextIO

import click
import yaml
from pydantic import ValidationError

from apis.tenancy import Tenant, TenantRegistry, TenantTemplate
from ctrlruntime.api.kinds import GroupKind, GroupVersionKind, RESTMapping
from ctrlruntime.intake import IntakeError, read_yaml
from ctrlruntime.lifecycle.status import describe
from internal.tenancy.dryrun.preview import (
    Preview,
    PreviewError,
    choose_row,
    preview,
    registry_for,
    tenant_of,
)
from internal.tenancy.objects.graph import GraphError
from internal.tenancy.rendering import Renderer
from internal.tenancy.rows.row import ActiveRow
from internal.tenancy.shared.naming import IllegalName
from internal.tenancy.shared.privileges import ForeignNamespaces, Privileges
from manager.commands.manifest_files import LIMITS, manifests, one_of
from manager.commands.output import echo
from manager.flags.privileges import privilege_options


@click.command()
@click.option(
    "-f",
    "--filename",
    "files",
    type=click.File(encoding="utf-8"),
    multiple=True,
    required=True,
    help='Manifests: the TenantTemplate, and if there are any its TenantRegistry and definitions of custom kinds; "-" '
    "is standard input. Repeatable.",
)
@click.option("--template", "name", help="Name of the template, if the files have several.")
@click.option(
    "--row",
    "row_file",
    type=click.File(encoding="utf-8"),
    help="A row as YAML or JSON: values by column, or by variable if no registry is given. A list has several rows.",
)
@click.option(
    "--set", "values", multiple=True, metavar="NAME=VALUE", help="One value of the row. Repeatable."
)
@click.option("--uid", help="The uid of the row, if there are several.")
@click.option("-n", "--namespace", help="Default: the template's, or else default.")
@click.option("-o", "--output", type=click.Choice(["yaml", "json"]), default="yaml")
@click.option("--show-secrets", is_flag=True, help="Do not mask Secrets and sensitive values.")
@click.option(
    "--hooks",
    "only_hooks",
    is_flag=True,
    help="Print the Jobs of the hooks in place of the resources, in the order in which they run.",
)
@privilege_options
def render(
    files: tuple[TextIO, ...],
    name: str | None,
    row_file: TextIO | None,
    values: tuple[str, ...],
    uid: str | None,
    namespace: str | None,
    output: str,
    show_secrets: bool,
    only_hooks: bool,
    allow_foreign_namespaces: frozenset[str],
    allow_kinds: frozenset[GroupKind],
    protected_namespaces: frozenset[str],
) -> None:
    """Render the resources of one tenant, from files alone.

    They are printed in the order in which they are applied, without the Jobs of hooks, which are not applied but run.
    What cannot be rendered goes to standard error with the resource's id and the field; the exit code is 1 then.
    """
    found = [manifest for file in files for manifest in manifests(file)]
    place = ", ".join(file.name for file in files)
    template = one_of(TenantTemplate, found, name, place)
    rows = _rows(row_file, values, uid)
    registry = _registry(found, template, rows, namespace, place)
    privileges = Privileges(
        foreign=ForeignNamespaces.parse(allow_foreign_namespaces),
        kinds=allow_kinds,
        protected=protected_namespaces,
    )
    try:
        row = choose_row(rows, registry, uid)
        tenant = tenant_of(template, registry, row)
        made = asyncio.run(_rendered(tenant, row, _mappings(found), privileges, show_secrets))
    except (PreviewError, IllegalName) as error:
        raise click.ClickException(str(error)) from error
    except GraphError as error:
        raise click.ClickException(f"template {tenant.spec.template_ref!r}: {error}") from error
    shown = tuple(each.manifest for each in made.hooks) if only_hooks else made.manifests
    echo(_FORMATS[output](shown), nl=False)
    if made.hooks and not only_hooks:
        names = ", ".join(f"{each.id} ({each.moment.value})" for each in made.hooks)
        echo(f"Note: hooks would run, and are printed with --hooks: {names}", err=True)
    for text in made.lost:
        echo(f"Warning: {text}", err=True)
    for problem in made.problems:
        echo(f"Error: {problem}", err=True)
    if made.problems:
        raise click.exceptions.Exit(1)


async def _rendered(
    tenant: Tenant,
    row: ActiveRow,
    mappings: Mapping[GroupVersionKind, RESTMapping],
    privileges: Privileges,
    show_secrets: bool,
) -> Preview:
    renderer = Renderer()
    try:
        return await preview(tenant, row, renderer, mappings, privileges, show_secrets=show_secrets)
    finally:
        await renderer.close()


def _rows(
    file: TextIO | None, values: tuple[str, ...], uid: str | None
) -> list[dict[str, str | None]]:
    """Return the rows given, each with what --set changes. Raises ClickException."""
    place = "" if file is None else file.name
    try:
        given = {} if file is None else read_yaml(file.read(), LIMITS, place)
    except IntakeError as error:
        raise click.ClickException(str(error)) from error
    listed = given if isinstance(given, list) else [given]
    if not all(isinstance(each, dict) for each in listed):
        raise click.ClickException(f"{place}: a row is a mapping of values by column")
    changes: dict[str, str | None] = dict(_pair(text) for text in values)
    if file is None and uid is not None:
        changes.setdefault("uid", uid)
    return [{str(key): _text(value) for key, value in each.items()} | changes for each in listed]


def _pair(text: str) -> tuple[str, str]:
    name, separator, value = text.partition("=")
    if not name or not separator:
        raise click.BadParameter(f"{text!r} is not NAME=VALUE", param_hint="--set")
    return name, value


def _text(value: object) -> str | None:
    """Return a value as sources give it: NULL is None, booleans are 1 and 0."""
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, dict | list):
        return json.dumps(value)
    return None if value is None else str(value)


def _registry(
    found: list[dict[str, Any]],
    template: TenantTemplate,
    rows: list[dict[str, str | None]],
    namespace: str | None,
    place: str,
) -> TenantRegistry:
    """Return the template's registry in the namespace to render for; without one, rows have variables."""
    home = namespace or template.metadata.namespace or "default"
    if not any(each.get("kind") == TenantRegistry.__name__ for each in found):
        for row in rows:
            row.setdefault("activate", "1")
            row.setdefault("hostOrUrl", None)
        names = {name for row in rows for name in row}
        if "uid" not in names:
            raise click.UsageError("give the row's values: --row FILE or --set uid=... at least")
        try:
            return registry_for(template, home, names)
        except ValidationError as error:
            raise click.ClickException(f"the row's values: {describe(error)}") from error
    registry = one_of(TenantRegistry, found, template.spec.registry_id, place)
    return registry.model_copy(
        update={"metadata": registry.metadata.model_copy(update={"namespace": home})}
    )


def _mappings(found: list[dict[str, Any]]) -> dict[GroupVersionKind, RESTMapping]:
    """Return how the custom kinds of the definitions in the files are served."""
    made: dict[GroupVersionKind, RESTMapping] = {}
    for each in found:
        if each.get("kind") != "CustomResourceDefinition":
            continue
        spec = each.get("spec") or {}
        names = spec.get("names") or {}
        for version in spec.get("versions") or ():
            kind = GroupVersionKind(spec.get("group", ""), version["name"], names.get("kind", ""))
            namespaced = spec.get("scope") == "Namespaced"
            made[kind] = RESTMapping(kind, names.get("plural", ""), namespaced)
    return made


def _yaml(items: tuple[dict[str, Any], ...]) -> str:
    return "".join(f"---\n{yaml.safe_dump(item, sort_keys=False)}" for item in items)


def _json(items: tuple[dict[str, Any], ...]) -> str:
    made = {"apiVersion": "v1", "kind": "List", "items": list(items)}
    return json.dumps(made, indent=2) + "\n"


_FORMATS = {"yaml": _yaml, "json": _json}

"""`manager graph`: draw what the resources of a template depend on."""

from pathlib import Path
from typing import TextIO

import click

from apis.tenancy import Tenant, TenantTemplate, resource_lists
from ctrlruntime.client.client import Client
from internal.tenancy.objects.drawing import Drawing, dot, mermaid
from internal.tenancy.objects.graph import Graph, GraphError
from manager.commands.manifest_files import manifests, one_of
from manager.commands.output import echo
from manager.flags.cluster import cluster_options, talk

_FORMATS = {"mermaid": mermaid, "dot": dot}


@click.command()
@click.argument("name", required=False)
@click.option(
    "-f",
    "--filename",
    "file",
    type=click.File(encoding="utf-8"),
    help='Read manifests from this file instead of a cluster; "-" is standard input. With several '
    "templates in it, NAME selects one.",
)
@click.option(
    "--tenant",
    "of_tenant",
    is_flag=True,
    help="NAME is a Tenant: also show which of its resources failed, are in conflict or were skipped.",
)
@click.option(
    "--format",
    "language",
    type=click.Choice(sorted(_FORMATS)),
    default="mermaid",
    help="Mermaid, or DOT for Graphviz.",
)
@cluster_options
def graph(
    name: str | None,
    file: TextIO | None,
    of_tenant: bool,
    language: str,
    kubeconfig: Path | None,
    context: str | None,
    namespace: str,
) -> None:
    """Draw the dependencies of a TenantTemplate, or of a Tenant.

    Arrows lead from a resource to those that wait for it; a dashed one if these are applied even when
    it failed. Problems, such as cycles with their path, go to standard error; the exit code is 1 then.
    """
    kind: type[TenantTemplate | Tenant] = Tenant if of_tenant else TenantTemplate
    if file is not None:
        found = one_of(kind, list(manifests(file)), name, file.name)
    elif name is None:
        raise click.UsageError("name a template of the cluster, or a file with --filename")
    else:

        async def read(client: Client) -> TenantTemplate | Tenant:
            if of_tenant:
                return await client.get(Tenant, name, namespace=namespace)
            return await client.get(TenantTemplate, name, namespace=namespace)

        found = talk(kubeconfig, context, read)
    resources = [resource for _, resource in resource_lists(found.spec)]
    status = found.status if isinstance(found, Tenant) else None
    echo(_FORMATS[language](Drawing.of(resources, status)), nl=False)
    try:
        Graph.of(resources)
    except GraphError as error:
        for problem in error.problems:
            echo(f"Error: {problem}", err=True)
        raise click.exceptions.Exit(1) from None

"""`manager instance logs`: what a run prints, from its provider, with the user's own rights."""

from __future__ import annotations

from pathlib import Path

import click

from ctrlruntime.client.client import Client
from internal.cloud.run_logs import LogElsewhere, NoLog, find_run, log_lines
from manager.cluster_flags import cluster_options, talk


@click.command()
@click.argument("name")
@click.option("-f", "--follow", is_flag=True, help="Print further lines until the run has ended.")
@click.option("--kind", default="", help="The subresource: InstanceTerraform, ...")
@click.option("--run", "run_id", default="", help="Only this run, by its id.")
@click.option(
    "--tail", default=200, show_default=True, type=click.IntRange(1), help="Lines to begin with."
)
@cluster_options
def logs(
    name: str,
    follow: bool,
    kind: str,
    run_id: str,
    tail: int,
    kubeconfig: Path | None,
    context: str | None,
    namespace: str,
) -> None:
    """Print the log of the run that is under way, or else of the last one.

    Runs of this machine and of Jobs are read; for Cloud Run the address of the log is printed. Values of secrets
    were hidden when they were written.
    """

    async def read(client: Client) -> None:
        found = await find_run(client, name, namespace=namespace, kind=kind, run_id=run_id)
        click.echo(f"{found.kind.__name__} {found.name}, run {found.run.run_id}:", err=True)
        async for line in log_lines(client, found, tail=tail, follow=follow):
            click.echo(line)

    try:
        talk(kubeconfig, context, read)
    except LogElsewhere as elsewhere:
        click.echo(elsewhere.address)
    except NoLog as error:
        raise click.ClickException(str(error)) from error

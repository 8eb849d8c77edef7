"""`manager instance logs`: what a run prints, from its provider, with the user's own rights."""

from __future__ import annotations

import os
from contextlib import aclosing
from pathlib import Path
from typing import Final

import click

from ctrlruntime.client.client import Client
from ctrlruntime.clock import monotonic
from internal.cloud.run_logs import LogElsewhere, NoLog, find_run, log_lines
from internal.cloud.runs.cloudrun import (
    LOGGING_URL,
    CloudAPI,
    CloudRunLogs,
    TokenSource,
    metadata_token,
)
from manager.commands.output import echo
from manager.flags.cluster import cluster_options, talk

TOKEN: Final = "GOOGLE_OAUTH_ACCESS_TOKEN"  # noqa: S105
"""Variable with an access token of Google, as Terraform's provider reads it."""
_HELP: Final = f"It takes roles/logging.viewer on the project, and {TOKEN}=$(gcloud auth print-access-token). The log is at:"


def _token() -> TokenSource:
    """Return the token of the variable, or else that of the machine's account."""
    given = os.environ.get(TOKEN, "")
    if not given:
        return metadata_token(monotonic)

    async def token() -> str:
        return given

    return token


@click.command()
@click.argument("name")
@click.option("-f", "--follow", is_flag=True, help="Print further lines until the run has ended.")
@click.option("--kind", default="", help="The subresource: InstanceTerraform, ...")
@click.option("--run", "run_id", default="", help="Only this run, by its id.")
@click.option(
    "--tail", default=200, show_default=True, type=click.IntRange(1), help="Lines to begin with."
)
@click.option(
    "--cloud-logging-url",
    default=LOGGING_URL,
    show_default=True,
    help="Address of Cloud Logging, which has the logs of Cloud Run.",
)
@cluster_options
def logs(
    name: str,
    follow: bool,
    kind: str,
    run_id: str,
    tail: int,
    cloud_logging_url: str,
    kubeconfig: Path | None,
    context: str | None,
    namespace: str,
) -> None:
    """Print the log of the run that is under way, or else of the last one.

    Logs of Cloud Run are read from Cloud Logging, with the access token in the variable GOOGLE_OAUTH_ACCESS_TOKEN or, on a
    machine of Google, with that of its account. If that fails, their address is printed. Values of secrets were hidden
    when they were written.
    """

    async def read(client: Client) -> None:
        api = CloudAPI(_token())
        try:
            await show(client, CloudRunLogs(api, cloud_logging_url))
        finally:
            await api.close()

    async def show(client: Client, cloud: CloudRunLogs) -> None:
        found = await find_run(client, name, namespace=namespace, kind=kind, run_id=run_id)
        echo(f"{found.kind.__name__} {found.name}, run {found.run.run_id}:", err=True)
        lines = log_lines(client, found, tail=tail, follow=follow, cloud=cloud)
        async with aclosing(lines):
            async for line in lines:
                echo(line)

    try:
        talk(kubeconfig, context, read)
    except LogElsewhere as elsewhere:
        if elsewhere.reason:
            echo(f"{elsewhere.reason}. {_HELP}", err=True)
        echo(elsewhere.address)
    except NoLog as error:
        raise click.ClickException(str(error)) from error

"""`manager uninstall`: take the product out of a cluster, with or without what it made."""

from pathlib import Path

import click

from ctrlruntime.client.client import Client
from manager.commands.output import echo
from manager.commands.owned_objects import owned_objects
from manager.commands.uninstalling import (
    UninstallError,
    count,
    custom_resources,
    delete_definitions,
    delete_shards,
    release_custom_resources,
    release_objects,
    remove_custom_resources,
    stop_manager,
)
from manager.flags.cluster import talk

REST = "What remains (namespace, roles, services): kubectl delete --ignore-not-found -f dist/install-all.yaml"


@click.command()
@click.option(
    "--kubeconfig",
    type=click.Path(path_type=Path),
    help="Default: $KUBECONFIG, in-cluster, ~/.kube/config.",
)
@click.option("--context", help="Context of the kubeconfig.")
@click.option(
    "--keep-objects",
    "mode",
    flag_value="keep",
    help="Delete the manager, our kinds and their objects; leave everything that these own.",
)
@click.option(
    "--remove-everything",
    "mode",
    flag_value="remove",
    help="Have the running manager remove what our objects own first, by the policies of each.",
)
@click.option("--yes", is_flag=True, help="Ask nothing before --keep-objects.")
@click.option(
    "--count", "typed", type=int, help="The number of objects to remove, instead of typing it."
)
@click.option(
    "--timeout", type=click.FloatRange(min=1), default=600.0, help="Seconds for each step."
)
def uninstall(
    kubeconfig: Path | None,
    context: str | None,
    mode: str | None,
    yes: bool,
    typed: int | None,
    timeout: float,
) -> None:
    """Take the product out of a cluster. Without a mode: show what there is."""

    async def conversation(client: Client) -> None:
        ours = await custom_resources(client)
        owned = [each async for each in owned_objects(client)]
        for title, lines in (("Objects of our kinds:", count(ours)), ("Owned:", count(owned))):
            echo("\n".join([title, *(lines or ["      0"])]))
        if mode == "keep":
            await _keep(client, yes, timeout)
        elif mode == "remove":
            await _remove(client, len(ours) + len(owned), typed, timeout)
        else:
            echo("Nothing is changed without --keep-objects or --remove-everything.")

    try:
        talk(kubeconfig, context, conversation)
    except UninstallError as error:
        raise click.ClickException(str(error)) from error


async def _keep(client: Client, yes: bool, timeout: float) -> None:
    if not yes:
        click.confirm("Delete the objects of our kinds and keep all that they own?", abort=True)
    await stop_manager(client, echo, timeout)
    await delete_shards(client, echo)
    await release_objects(client, echo)
    await release_custom_resources(client)
    await delete_definitions(client, echo, timeout)
    echo(REST)


async def _remove(client: Client, objects: int, typed: int | None, timeout: float) -> None:
    if typed is None:
        typed = click.prompt(f"Type the number of objects ({objects}) to remove them", type=int)
    if typed != objects:
        raise click.ClickException(f"there are {objects} objects, not {typed}; nothing was changed")
    await remove_custom_resources(client, echo, timeout)
    left = [each async for each in owned_objects(client)]
    await stop_manager(client, echo, timeout)
    await delete_shards(client, echo)
    await release_objects(client, echo)
    await delete_definitions(client, echo, timeout)
    if left:
        echo("Kept by their own policies (Retain):")
        echo("\n".join(f"  {each.label}" for each in left))
    echo(REST)

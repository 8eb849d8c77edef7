"""Flags of commands that talk to a cluster, and how they talk to it."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import wraps
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from ctrlruntime.client import APIError, Client, Config, NoKindMatch, NotFound, TransportError
from ctrlruntime.client.kubeconfig import ConfigError
from manager.flags.groups import with_options

NOT_INSTALLED: Final = (
    "this API server has no such kind: install the manager with `kubectl apply --server-side -f dist/install.yaml` "
    "(tenancy) or `kubectl apply --server-side -f dist/install-all.yaml` (all systems), or its chart, or choose another cluster with --context"
)
"""The error of a command where the CRDs that it reads are not there."""
Command = Callable[..., Any]
T = TypeVar("T")


def cluster_options(command: Command) -> Command:
    """Which cluster, and which namespace in it: the context's unless one is given, as kubectl has it."""

    @wraps(command)
    def placed(
        *arguments: object,
        kubeconfig: Path | None,
        context: str | None,
        namespace: str | None,
        **options: object,
    ) -> object:
        place = namespace or context_namespace(kubeconfig, context)
        return command(
            *arguments, kubeconfig=kubeconfig, context=context, namespace=place, **options
        )

    option = click.option("-n", "--namespace", help="Namespace. Default: the context's.")
    return hub_options(with_options(placed, option))


def context_namespace(kubeconfig: Path | None, context: str | None) -> str:
    """Return the namespace of the context; without a usable one what it is for reports that, if it is used at all."""
    try:
        return asyncio.run(Config.load(kubeconfig, context)).namespace
    except ConfigError:
        return "default"


def hub_options(command: Command) -> Command:
    """Add the flags that choose a cluster, without a namespace."""
    return with_options(
        command,
        click.option(
            "--kubeconfig",
            type=click.Path(path_type=Path),
            help="Default: $KUBECONFIG, in-cluster, ~/.kube/config.",
        ),
        click.option("--context", help="Context of the kubeconfig."),
    )


def talk(
    kubeconfig: Path | None, context: str | None, conversation: Callable[[Client], Awaitable[T]]
) -> T:
    """Connect, and hold a conversation. Raises ClickException for what a person can mend."""

    async def held() -> T:
        config = await Config.load(kubeconfig, context)
        async with Client.connect(config) as client:
            return await conversation(client)

    try:
        return asyncio.run(held())
    except NoKindMatch as error:
        raise click.ClickException(NOT_INSTALLED) from error
    except NotFound as error:
        missing_kind = (
            not error.details
        )  # the path is unknown: of a missing object the server names it
        raise click.ClickException(NOT_INSTALLED if missing_kind else str(error)) from error
    except (ConfigError, APIError, TransportError) as error:
        raise click.ClickException(str(error)) from error

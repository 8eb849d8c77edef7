"""Flags of `manager run` for the stack of a data plane."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from manager.commands.output import echo
from manager.flags.groups import with_options
from manager.options import Role, RunOptions

SUPPORTED = ("tenancy", "cosmos", "cloud")
"""Systems that run on data planes."""
BY_DEFAULT = ("tenancy",)
"""Those that run there without --system."""


def stack_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the flags."""
    return with_options(
        command,
        click.option(
            "--data-plane-kubeconfig",
            type=click.Path(path_type=Path),
            help="Kubeconfig of a data plane: objects are there, and workloads in the cluster of "
            "--kubeconfig, the hub. The tenancy system runs, or what --system names.",
        ),
        click.option(
            "--data-plane-id",
            default="",
            help="UID of the namespace kube-system of the data plane: with another one the process ends.",
        ),
        click.option(
            "--role",
            type=click.Choice([role.value for role in Role]),
            callback=lambda _context, _option, value: None if value is None else Role(value),
            help="Part of a stack that this process is. Default: the controllers, and what the other options ask for.",
        ),
        click.option(
            "--target-namespace",
            default="",
            help="Namespace of the hub that this stack is deployed to; default: the Pod's.",
        ),
        unrestricted_option(
            "Watch Secrets of all namespaces of the hub. Default: those of this stack's parallel namespaces and its "
            "own; the process ends when those change, to be started again."
        ),
        restricted_option,
        click.option(
            "--admission-url",
            default="",
            callback=lambda _context, _option, value: _admission_url(value),
            help="Address at which the data plane reaches the webhooks of --role admission: they are configured there.",
        ),
    )


def unrestricted_option(help_text: str) -> Callable[..., Any]:
    """Return the flag that lifts the restriction of a stack to Secrets of its own namespaces."""
    return click.option("--unrestricted-hub-secrets", is_flag=True, help=help_text)


restricted_option = click.option(
    "--restrict-hub-secrets",
    is_flag=True,
    hidden=True,
    expose_value=False,
    help="The default.",
    callback=lambda _context, _option, given: _warn_of_default() if given else None,
)
"""What the restriction was requested by before it was the default."""


def _warn_of_default() -> None:
    echo(
        "--restrict-hub-secrets is deprecated: it is the default, leave it out "
        "(--unrestricted-hub-secrets is the opposite)",
        err=True,
    )


def _admission_url(value: str) -> str:
    """Return the address. Raises BadParameter."""
    from internal.fleet.admission_url import BadAdmissionURL, check_admission_url

    try:
        return check_admission_url(value) if value else ""
    except BadAdmissionURL as error:
        raise click.BadParameter(str(error)) from None


def _runs_tasks(options: RunOptions) -> bool:
    """Whether this process starts runs of the cloud system."""
    controls = options.role in (None, Role.CONTROLLERS) or options.shards
    return controls and "cloud" in options.systems


def check_stack(options: RunOptions) -> None:
    """Raise UsageError for options that do not go with a data plane."""
    if options.data_plane_kubeconfig is None:
        if options.role is Role.WORKERS and options.leader_elect and not options.shards:
            raise click.UsageError("--role workers is elected on data planes alone")
        if options.unrestricted_hub_secrets:
            raise click.UsageError("--unrestricted-hub-secrets needs --data-plane-kubeconfig")
        if options.target_namespace:
            raise click.UsageError("--target-namespace needs --data-plane-kubeconfig")
        if options.data_plane_id:
            raise click.UsageError("--data-plane-id needs --data-plane-kubeconfig")
        if options.admission_url:
            raise click.UsageError("--admission-url needs --data-plane-kubeconfig")
        return
    if options.admission_url and options.role is not Role.ADMISSION:
        raise click.UsageError("--admission-url is for --role admission")
    if options.embedded:
        raise click.UsageError("--embedded and --data-plane-kubeconfig exclude each other")
    if options.console.enabled:
        raise click.UsageError(
            "a stack of a data plane has no console: leave --console-bind-address out, and set it for "
            "`manager operator` on the hub"
        )
    if _runs_tasks(options) and options.cloud.runs.provider == "local":
        raise click.UsageError(
            "--run-provider local keeps runs in a Pod of the stack, and they end with it: name jobs, "
            "which are Jobs of the hub, or cloudrun"
        )
    if not (options.target_namespace or options.own_namespace):
        raise click.UsageError(
            "--data-plane-kubeconfig outside of a cluster needs --target-namespace"
        )

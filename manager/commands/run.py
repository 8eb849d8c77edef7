"""`manager run`: its options, and what they must agree in."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from ctrlruntime.client.kubeconfig import ConfigError
from ctrlruntime.manager import run as run_on_uvloop
from ctrlruntime.manager.http import AddressError
from ctrlruntime.manager.options import SERVICE_ACCOUNT_NAMESPACE, lease_namespace
from ctrlruntime.sharding.slots import BadSlots, parse_slots
from ctrlruntime.webhook.tls import CertificateError
from internal.fleet.hub import instead_of_foreign
from manager.controllers.cosmos_options import CosmosOptions
from manager.controllers.health_check_options import HealthCheckOptions
from manager.controllers.tenancy_options import TenancyOptions
from manager.flags.cloud import cloud_options, take_cloud_options
from manager.flags.groups import check_allowed_addresses, described, take_described, with_options
from manager.flags.privileges import (
    PRIVILEGES,
    default_account_option,
    privilege_options,
    protected_namespace_option,
)
from manager.flags.serving import (
    console_options,
    metrics_options,
    take_console_options,
    webhook_options,
)
from manager.flags.stack import BY_DEFAULT, check_stack, stack_options
from manager.options import LEADER_ELECTION_ID, SYSTEMS, Role, RunOptions
from manager.own_image import NoImage, NoSidecarImage
from manager.serving.run import run_manager
from manager.test_environment import check_test_environment


def shard_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the flags."""
    return with_options(
        command,
        click.option(
            "--slots",
            metavar="RANGES",
            callback=lambda _context, _option, text: None if text is None else _slots(text),
            help="Work on the tenants, node sets and Instances of these slots alone, such as 0-31, beside managers of the other slots.",
        ),
        click.option(
            "--shards",
            is_flag=True,
            help="Share tenants, node sets and Instances with the other managers that have this flag, as they come and go.",
        ),
        click.option(
            "--shard-name",
            default="",
            metavar="NAME",
            help="This manager's name among them. Default: the host's, which is the Pod's; with --slots these.",
        ),
    )


def _slots(text: str) -> frozenset[int]:
    """Return the slots of a text. Raises BadParameter."""
    try:
        return parse_slots(text)
    except BadSlots as error:
        raise click.BadParameter(str(error)) from None


def check_shards(options: RunOptions) -> None:
    """Raise UsageError for what managers that share objects need, or cannot do."""
    if not options.shares:
        return
    given = "--shards" if options.shards else "--slots"
    if options.shards and options.slots is not None:
        raise click.UsageError("give --slots or --shards: fixed slots, or those that come by load")
    if not options.leader_elect:
        raise click.UsageError(f"{given} needs --leader-elect: one of the managers decides for all")
    if options.role is Role.ADMISSION:
        raise click.UsageError(
            f"{given} divides the work of controllers: leave --role admission out"
        )
    if options.slots is not None and (
        options.data_plane_kubeconfig is not None or options.role is Role.WORKERS
    ):
        raise click.UsageError(
            "--slots is not there for stacks: give --shards, and the leader assigns slots"
        )
    try:
        options.sharding()
    except ValueError as error:
        raise click.UsageError(f"--shard-name: {error}") from None


Command = Callable[..., Any]


def health_check_options(command: Command) -> Command:
    """Addresses that health checks may be below, and the token for them."""
    return with_options(
        command,
        click.option(
            "--health-check-url",
            "health_check_urls",
            multiple=True,
            metavar="URL",
            callback=lambda _context, _option, given: _addresses(given),
            help="Let health checks of templates and FleetRollouts send requests below this address. Repeatable. "
            "Default: none.",
        ),
        click.option(
            "--health-check-token-file",
            type=click.Path(path_type=Path),
            help="File with a bearer token for them.",
        ),
    )


def take_health_check_options(given: dict[str, Any]) -> HealthCheckOptions:
    """Take the flags of health checks out of `given`."""
    return HealthCheckOptions(
        urls=given.pop("health_check_urls"), token_file=given.pop("health_check_token_file")
    )


def _addresses(given: tuple[str, ...]) -> tuple[str, ...]:
    """Return addresses that are ones. Raises BadParameter."""
    for each in given:
        if not each.startswith(("http://", "https://")) or "?" in each or "#" in each:
            raise click.BadParameter(
                f"{each!r}: write http:// or https://, a host, and a path if any"
            )
    return given


_PATH = click.Path(path_type=Path)


@click.command()
@click.option("--kubeconfig", type=_PATH, help="Default: $KUBECONFIG, in-cluster, ~/.kube/config.")
@click.option("--context", help="Context of the kubeconfig.")
@click.option(
    "--embedded", is_flag=True, help="Start an embedded API server and simulated nodes; use them."
)
@stack_options
@click.option(
    "--system",
    "systems",
    type=click.Choice(SYSTEMS),
    multiple=True,
    default=SYSTEMS,
    help="Run the controllers of this system, whose kinds have to be installed. Repeatable.",
)
@click.option(
    "--namespace", "namespaces", multiple=True, help="Watch this namespace only. Repeatable."
)
@click.option("--leader-elect", is_flag=True, help="Let one of several managers work at a time.")
@click.option("--leader-election-id", default=LEADER_ELECTION_ID, help="Name of the Lease.")
@click.option(
    "--leader-election-shared-id",
    default="",
    metavar="NAME",
    help="A Lease that managers of other Leases hold as well: a manager that competes for it alone works beside none.",
)
@click.option("--leader-election-namespace", default="", help="Default: the Pod's namespace.")
@shard_options
@click.option("--metrics-bind-address", default=":8080", help='Address of /metrics; "0" is off.')
@metrics_options
@webhook_options
@console_options
@click.option(
    "--health-probe-bind-address", default=":8081", help='Address of the probes; "0" is off.'
)
@described(TenancyOptions)
@privilege_options
@default_account_option
@protected_namespace_option
@health_check_options
@cloud_options
@described(CosmosOptions)
@click.option("--log-format", type=click.Choice(["json", "console"]), default="json")
@click.option(
    "--log-level", type=click.Choice(["debug", "info", "warning", "error"]), default="info"
)
def run(**arguments: object) -> None:
    """Run the controllers."""
    given: dict[str, Any] = {**arguments}
    if given["data_plane_kubeconfig"] is not None and _is_default("systems"):
        given["systems"] = BY_DEFAULT
    given["protected_namespaces"] |= own_namespace()
    checks = take_health_check_options(given)
    flags = take_described(TenancyOptions, given, *PRIVILEGES, "webhooks")
    tenancy = TenancyOptions(**flags, health_checks=checks)
    own = "".join(own_namespace())
    if given["data_plane_kubeconfig"] is not None:
        tenancy = replace(tenancy, instead_of_foreign=instead_of_foreign(own or "TARGET"))
    cloud = take_cloud_options(given, in_cluster=bool(own), health_checks=checks)
    cosmos = CosmosOptions(**take_described(CosmosOptions, given))
    options = RunOptions(
        tenancy=tenancy,
        cloud=cloud,
        cosmos=cosmos,
        console=take_console_options(given),
        own_namespace=own,
        **given,
    )
    _check_serving(options)
    check_allowed_addresses()
    check_stack(options)
    check_shards(options)
    if options.embedded:
        check_test_environment()
    if options.leader_elect:
        _check_election(options)
    try:
        run_on_uvloop(run_manager(options))
    except (ConfigError, AddressError, CertificateError, NoImage, NoSidecarImage) as error:
        raise click.ClickException(str(error)) from error


def _is_default(parameter: str) -> bool:
    """Whether an option was not given."""
    source = click.get_current_context().get_parameter_source(parameter)
    return source is ParameterSource.DEFAULT


def _check_election(options: RunOptions) -> None:
    """Raise UsageError for an election without a namespace, or with one Lease as both."""
    if options.leader_election_id == options.leader_election_shared_id:
        raise click.UsageError(
            "--leader-election-shared-id is a second Lease: give another name than --leader-election-id"
        )
    try:
        lease_namespace(options.manager_options())
    except ValueError:
        message = "--leader-elect outside of a cluster needs --leader-election-namespace"
        raise click.UsageError(message) from None


def _check_serving(options: RunOptions) -> None:
    """Raise UsageError for what could not be served."""
    if options.metrics_cert_path is not None and not options.metrics_secure:
        raise click.UsageError("--metrics-cert-path needs --metrics-secure")
    if options.tenancy.webhooks and options.webhook_port != -1:
        placed = options.webhook_cert_path or options.webhook_secret_namespace
        if not placed and not own_namespace():
            raise click.UsageError(
                "--webhooks outside of a cluster needs --webhook-cert-path, or "
                "--webhook-secret-namespace for certificates that the manager makes"
            )


def own_namespace() -> frozenset[str]:
    """Return the namespace that the manager's Pod runs in; none outside of a cluster."""
    try:
        return frozenset({SERVICE_ACCOUNT_NAMESPACE.read_text().strip()})
    except OSError:
        return frozenset()

"""`manager operator`: deploys stacks of controllers, and removes them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import click

from ctrlruntime.client.kubeconfig import ConfigError
from ctrlruntime.manager import run as run_on_uvloop
from manager.flags.groups import check_allowed_addresses
from manager.flags.privileges import protected_namespace_option
from manager.flags.serving import console_options, metrics_options, take_console_options
from manager.flags.stack import BY_DEFAULT, SUPPORTED, restricted_option, unrestricted_option

_PATH: Final = click.Path(path_type=Path)
_POSITIVE: Final = click.IntRange(min=1)


@click.command("operator")
@click.option("--kubeconfig", type=_PATH, help="Default: $KUBECONFIG, in-cluster, ~/.kube/config.")
@click.option("--context", help="Context of the kubeconfig.")
@click.option(
    "--stack-image", default="", help="Image of the stacks. Default: that of the operator's Pod."
)
@click.option("--stack-workers", type=_POSITIVE, default=1, help="Pods of workers in each stack.")
@click.option(
    "--stack-system",
    "stack_systems",
    type=click.Choice(SUPPORTED),
    multiple=True,
    default=BY_DEFAULT,
    help="System that stacks run. Repeatable.",
)
@unrestricted_option(
    "Let stacks read the Secrets of all namespaces of the hub. Default: those of their parallel namespaces and "
    "their own."
)
@restricted_option
@click.option("--leader-elect", is_flag=True, help="Let one of several operators work at a time.")
@click.option(
    "--leader-election-id", default="fleet-operator.ctrlruntime.dev", help="Name of the Lease."
)
@click.option("--leader-election-namespace", default="", help="Default: the Pod's namespace.")
@click.option("--metrics-bind-address", default=":8080", help='Address of /metrics; "0" is off.')
@metrics_options
@protected_namespace_option
@console_options
@click.option(
    "--health-probe-bind-address", default=":8081", help='Address of the probes; "0" is off.'
)
@click.option("--log-format", type=click.Choice(["json", "console"]), default="json")
@click.option(
    "--log-level", type=click.Choice(["debug", "info", "warning", "error"]), default="info"
)
def operator(**flags: object) -> None:
    """Deploy a stack of controllers for each data plane, as the FleetConfig has it."""
    from ctrlruntime.manager.http import AddressError
    from ctrlruntime.manager.options import lease_namespace
    from ctrlruntime.webhook.tls import CertificateError
    from manager.serving.operator_run import NoStackImage, OperatorRun, run_operator

    given: dict[str, Any] = {**flags}
    check_allowed_addresses()
    options = OperatorRun(console=take_console_options(given), **given)
    if options.metrics_cert_path is not None and not options.metrics_secure:
        raise click.UsageError("--metrics-cert-path needs --metrics-secure")
    if options.leader_elect:
        try:
            lease_namespace(options.manager_options())
        except ValueError:
            message = "--leader-elect outside of a cluster needs --leader-election-namespace"
            raise click.UsageError(message) from None
    try:
        run_on_uvloop(run_operator(options))
    except (ConfigError, AddressError, CertificateError, NoStackImage) as error:
        raise click.ClickException(str(error)) from error

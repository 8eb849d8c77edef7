"""Flags of what the manager serves: metrics, webhooks and the console, named as kubebuilder names them."""

import ssl
from collections.abc import Callable
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import click

from manager.console.options import ConsoleOptions, ConsoleOptionsError, Network
from manager.flags.groups import with_options

Command = Callable[..., Any]

_FOLDER = click.Path(path_type=Path, file_okay=False)


def metrics_options(command: Command) -> Command:
    """How metrics are served."""
    return with_options(
        command,
        click.option(
            "--metrics-secure",
            is_flag=True,
            help="Serve metrics over https, to users who may get /metrics.",
        ),
        click.option(
            "--metrics-cert-path",
            type=_FOLDER,
            help="Folder of the metrics' certificate. Default: a self-signed one.",
        ),
        click.option("--metrics-cert-name", default="tls.crt", help="Its file name."),
        click.option("--metrics-cert-key", default="tls.key", help="File name of its key."),
    )


def webhook_options(command: Command) -> Command:
    """Whether, where and with which certificate webhooks are served."""
    return with_options(
        command,
        click.option(
            "--webhooks",
            is_flag=True,
            help="Refuse registries, templates and hand-written Tenants that cannot work.",
        ),
        click.option("--webhook-port", default=9443, help="Port of the webhooks; -1 is off."),
        click.option(
            "--webhook-cert-path",
            type=_FOLDER,
            help="Folder of the webhooks' certificate. Default: the managers make their own.",
        ),
        click.option("--webhook-cert-name", default="tls.crt", help="Its file name."),
        click.option("--webhook-cert-key", default="tls.key", help="File name of its key."),
        click.option(
            "--webhook-client-ca",
            type=click.Path(path_type=Path, exists=True, dir_okay=False),
            callback=lambda _context, _option, given: _authority(given),
            help="PEM file: let in only clients whose certificate it signed, such as the API server's.",
        ),
        click.option(
            "--webhook-secret-name",
            default="webhook-server-cert",
            help="Secret of the certificates that the managers make.",
        ),
        click.option(
            "--webhook-secret-namespace", default="", help="Default: the Pod's namespace."
        ),
        click.option(
            "--webhook-service-name",
            default="webhook-service",
            help="Service that such a certificate is for.",
        ),
        click.option(
            "--webhook-configuration",
            default="validating-webhook-configuration",
            help="ValidatingWebhookConfiguration that such a certificate's CA is put into.",
        ),
    )


def console_options(command: Command) -> Command:
    """Whether and where the console is served, and how its users are known."""
    return with_options(
        command,
        click.option(
            "--console-bind-address", default="0", help='Address of the console; "0" is off.'
        ),
        click.option("--console-secure", is_flag=True, help="Serve the console over https."),
        click.option(
            "--console-cert-path",
            type=_FOLDER,
            help="Folder of the console's certificate. Default: a self-signed one.",
        ),
        click.option("--console-cert-name", default="tls.crt", help="Its file name."),
        click.option("--console-cert-key", default="tls.key", help="File name of its key."),
        click.option(
            "--console-trusted-proxy",
            "console_trusted_proxies",
            multiple=True,
            metavar="CIDR",
            callback=lambda _context, _option, given: _networks(given),
            help="Take the user from the headers of requests that come from this network. Repeatable.",
        ),
        click.option(
            "--console-user-header",
            default="X-Remote-User",
            help="Header in which a trusted proxy names the user.",
        ),
        click.option(
            "--console-group-header",
            default="X-Remote-Group",
            help="Header in which a trusted proxy names the user's groups.",
        ),
    )


def take_console_options(given: dict[str, Any]) -> ConsoleOptions:
    """Take the console's flags out of those given. Raises UsageError for what does not go together."""
    names = [name for name in given if name.startswith("console_")]
    options = ConsoleOptions(**{name.removeprefix("console_"): given.pop(name) for name in names})
    try:
        options.check()
    except ConsoleOptionsError as error:
        raise click.UsageError(str(error)) from error
    return options


def _authority(given: Path | None) -> Path | None:
    if given is None:
        return None
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_verify_locations(given)
    except (ValueError, OSError) as error:
        raise click.BadParameter(f"{given} has no certificates in PEM") from error
    return given


def _networks(given: tuple[str, ...]) -> tuple[Network, ...]:
    try:
        return tuple(ip_network(text) for text in given)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error

"""Flags of what the manager serves: metrics and webhooks, named as kubebuilder names them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from manager.flags import with_options

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
            help="Tell at once what is wrong with a registry or template that is written.",
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

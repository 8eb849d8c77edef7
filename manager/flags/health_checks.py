"""Flags for where health checks of rollouts may send requests."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from manager.controllers.health_check_options import HealthCheckOptions
from manager.flags.groups import with_options

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

"""The embedded API server is part of a checkout, not of the manager's image."""

import importlib

import click


def check_test_environment() -> None:
    """Raise ClickException where the embedded API server is not installed, as in the manager's image."""
    try:
        importlib.import_module("manager.demo.embedded")
    except ModuleNotFoundError as error:
        message = f"an embedded API server is not part of this installation: {error}"
        raise click.ClickException(message) from error

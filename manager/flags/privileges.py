"""Flags for what templates may do beyond the namespaces of their tenants."""

import re
from collections.abc import Callable
from typing import Any

import click

from ctrlruntime.api.kinds import GroupKind
from manager.flags.groups import with_options

_ACCOUNT_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
Command = Callable[..., Any]
PRIVILEGES = ("allow_foreign_namespaces", "allow_kinds", "protected_namespaces", "default_account")
"""Fields of TenancyOptions that the flags below set."""


def privilege_options(command: Command) -> Command:
    """Foreign namespaces, privileged kinds, protected namespaces."""
    return with_options(
        command,
        click.option(
            "--allow-foreign-namespaces",
            multiple=True,
            metavar="own|NAME,...",
            callback=lambda _context, _option, given: _words(given),
            help="Let templates write to and make these namespaces besides the tenant's: names, patterns, or "
            "own for those that the same tenant makes. Repeatable.",
        ),
        click.option(
            "--allow-kind",
            "allow_kinds",
            multiple=True,
            metavar="KIND.GROUP",
            callback=lambda _context, _option, given: _kinds(given),
            help="Let templates name this kind, which the ClusterRole edit does not grant or which is cluster-scoped. Repeatable.",
        ),
        click.option(
            "--protected-namespace",
            "protected_namespaces",
            multiple=True,
            callback=lambda _context, _option, given: _words(given),
            help="Write nothing to this namespace (a name or pattern) for any object; always so for kube-* "
            "and the manager's own. Repeatable.",
        ),
    )


default_account_option = click.option(
    "--default-service-account",
    "default_account",
    default="",
    metavar="NAME",
    callback=lambda _context, _option, given: _account(given),
    help="Write resources of a tenant without spec.serviceAccountName with the rights of this service account of its "
    "namespace, not with the manager's.",
)
protected_namespace_option = click.option(
    "--allow-protected-namespace",
    "allow_protected_namespaces",
    multiple=True,
    callback=lambda _context, _option, given: _words(given),
    help="Reconcile objects in this namespace although it is protected (kube-system, the manager's own and the "
    "like), except for tenants. Repeatable.",
)


def _words(given: tuple[str, ...]) -> frozenset[str]:
    return frozenset(word.strip() for text in given for word in text.split(",") if word.strip())


def _account(given: str) -> str:
    if given and not _ACCOUNT_NAME.fullmatch(given):
        raise click.BadParameter(
            f"{given!r} is no name of a service account; write for example tenants"
        )
    return given


def _kinds(given: tuple[str, ...]) -> frozenset[GroupKind]:
    from internal.tenancy.shared.privileges import parse_kind  # what only this option needs

    try:
        return frozenset(map(parse_kind, given))
    except ValueError as error:
        raise click.BadParameter(str(error)) from error

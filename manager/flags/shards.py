"""Flags of `manager run` for managers that share the objects of one cluster."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from ctrlruntime.sharding.slots import BadSlots, parse_slots
from manager.flags.groups import with_options
from manager.options import Role, RunOptions


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

"""Flags of `manager run` for the cosmos system."""

from collections.abc import Callable
from typing import Any

import click

from manager.controllers.cosmos_options import CosmosOptions
from manager.flags.groups import default_option, with_options

Command = Callable[..., Any]
Option = Callable[[Command], Command]

_POSITIVE = click.IntRange(min=1)
_SECONDS = click.FloatRange(min=0, min_open=True)
_DEFAULT = CosmosOptions()


def cosmos_options(command: Command) -> Command:
    """How many sets of nodes at once, how nodes are asked, and what runs beside them."""
    return with_options(command, *_pace_options(), *_content_options())


def _pace_options() -> tuple[Option, ...]:
    """Return how much is done at once, and how often nodes are queried."""
    return (
        default_option(
            "--fullnode-concurrency",
            "fullnode_concurrency",
            _DEFAULT,
            _POSITIVE,
            "Sets of nodes worked on at once.",
        ),
        default_option(
            "--node-poll-seconds",
            "poll_seconds",
            _DEFAULT,
            _SECONDS,
            "Seconds between two questions to the same node.",
        ),
        default_option(
            "--node-poll-timeout",
            "poll_timeout_seconds",
            _DEFAULT,
            _SECONDS,
            "Seconds that a node has to answer.",
        ),
        default_option(
            "--node-polls-at-once",
            "polls_at_once",
            _DEFAULT,
            _POSITIVE,
            "Questions to nodes under way at once, of all sets.",
        ),
        default_option(
            "--node-disk-seconds",
            "disk_seconds",
            _DEFAULT,
            _SECONDS,
            "Seconds between two looks at how full the same disk is.",
        ),
        default_option(
            "--node-heal-seconds",
            "heal_seconds",
            _DEFAULT,
            _SECONDS,
            "Seconds between two checks of a set of nodes that is to be fixed.",
        ),
    )


def _content_options() -> tuple[Option, ...]:
    """Return what sets of nodes are built from."""
    return (
        click.option(
            "--node-sidecar-image",
            default=_DEFAULT.node_sidecar_image,
            help="Image of the containers beside a node, where its set names none: a set keeps the one it was "
            "first built with. Default: the manager's own.",
        ),
        click.option(
            "--node-script-image",
            default=_DEFAULT.node_script_image,
            help="Image that scripts of a set (genesisScript and so on) run in, where the set names none.",
        ),
        click.option(
            "--roll-builder-changes",
            is_flag=True,
            help="Bring what was built by an older manager up to date, Pods within the budget. "
            "Otherwise each set of nodes decides for itself.",
        ),
    )


COSMOS = (
    "fullnode_concurrency",
    "poll_seconds",
    "poll_timeout_seconds",
    "polls_at_once",
    "disk_seconds",
    "heal_seconds",
    "node_sidecar_image",
    "node_script_image",
    "roll_builder_changes",
)


def take_cosmos_options(given: dict[str, Any]) -> CosmosOptions:
    """Take the flags of the cosmos system out of `given`."""
    return CosmosOptions(**{name: given.pop(name) for name in COSMOS})

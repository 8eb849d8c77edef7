"""The command that runs many seeds of a story, or one of them again."""

from __future__ import annotations

import importlib
import itertools
import json
import os
import sys
from collections.abc import Iterable

import click

from ctrlruntime.envtest.simulation.campaign import description, explore, replay
from ctrlruntime.envtest.simulation.run import Story
from ctrlruntime.envtest.simulation.tape import Case


@click.command()
@click.argument("story")
@click.option("--seeds", type=int, default=100, show_default=True, help="How many seeds to run.")
@click.option("--first", type=int, default=0, show_default=True, help="The first of them.")
@click.option("--minutes", type=float, help="New seeds for so many minutes, instead of a number.")
@click.option("--seed", "again", help="Replay this one, as a red run printed it.")
@click.option(
    "--red", type=int, default=1, show_default=True, help="End after so many that break a rule."
)
@click.option(
    "--workers", type=int, default=os.cpu_count() or 1, show_default=True, help="Runs at a time."
)
@click.option("--digests", is_flag=True, help="Print the hash of each run: equal for equal runs.")
def command(
    story: str,
    seeds: int,
    first: int,
    minutes: float | None,
    again: str | None,
    red: int,
    workers: int,
    digests: bool,
) -> None:
    """Run STORY, given as module:function, for many seeds, and print as JSON what that came to.

    The exit code is 1 where a rule is broken; what happened is printed to standard error.
    """
    sys.path.insert(0, "")
    found = _story(story)
    if again is not None:
        try:
            case = Case.parse(again)
        except ValueError as error:
            raise click.BadParameter(str(error), param_hint="--seed") from None
        outcome = replay(found, case)
        click.echo(description(outcome) if outcome.rule else f"{case}: no rule is broken")
        sys.exit(1 if outcome.rule else 0)
    numbers: Iterable[int] = itertools.count(first) if minutes else range(first, first + seeds)
    report = explore(found, map(Case, numbers), workers=workers, minutes=minutes, most_red=red)
    shown = report.as_json()
    if digests:
        shown["digests"] = dict(sorted(report.digests.items()))
    click.echo(json.dumps(shown, indent=2))
    for each in report.red:
        click.echo(f"\n{description(each)}", err=True)
        click.echo(f"\nreplay it with --seed {each.case}", err=True)
    sys.exit(1 if report.red else 0)


def _story(name: str) -> Story:
    module, _, function = name.partition(":")
    try:
        found = getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError) as error:
        raise click.BadParameter(f"{name!r} is no module:function: {error}") from None
    story: Story = getattr(found, "story", found)
    return story

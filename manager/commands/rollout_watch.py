"""`manager rollout status NAME --watch`: every change of a rollout, until it has ended."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any

from apis.cloud import FleetRollout
from apis.health import Health, phase_health
from ctrlruntime.api.conditions import find_condition
from ctrlruntime.client import Client, Expired
from manager.commands.rollout_targets import Target, find_target

COUNTS = ("updated", "total", "changing", "failed")


class NotInTime(Exception):
    """The rollout had not ended when the time was over."""


async def follow(
    client: Client, name: str, namespace: str, timeout: float, show: Callable[[str], object]
) -> Health:
    """Show each change in a line; returns Good once the rollout is complete, Failing once it halted.

    Raises NotInTime after `timeout` seconds; 0: never.
    """
    last = ""
    try:
        async with (
            asyncio.timeout(timeout or None),
            aclosing(_versions(client, name, namespace)) as found,
        ):
            async for target in found:
                line = line_of(target)
                if line != last:
                    show(line)
                last, end = line, end_of(target)
                if end is not None:
                    return end
    except TimeoutError:
        raise NotInTime(f"not complete within {timeout:g} s; last: {last}") from None
    raise AssertionError("a rollout is followed without end")


async def _versions(client: Client, name: str, namespace: str) -> AsyncGenerator[Target, None]:
    """Yield the rollout as it is, and then each time it changes; a watch that ends is begun again."""
    while True:
        target = await find_target(client, name, namespace)
        yield target
        events = client.watch(
            type(target),
            namespace,
            fields=f"metadata.name={target.metadata.name}",
            resource_version=target.metadata.resource_version,
        )
        try:
            async with aclosing(events):
                async for kind, changed in events:
                    if kind == "DELETED":
                        break
                    yield changed
        except Expired:
            continue


def line_of(target: Target) -> str:
    """Return where a rollout stands, in one line."""
    status: Any = target.status if isinstance(target, FleetRollout) else target.status.rollout
    if status is None:
        return "no rollout has begun"
    counts = {name: getattr(status, name) for name in COUNTS}
    text = f"{status.phase.value}: {counts['updated']} of {counts['total']} updated"
    more = [f"{counts[name]} {name}" for name in ("changing", "failed") if counts[name]]
    return "; ".join([", ".join([text, *more]), *filter(None, [status.message])])


def end_of(target: Target) -> Health | None:
    """Return how the rollout of the present spec ended; None: it has not.

    A template's is complete once Applied is True for the present generation: its phase may still be that of the
    content before.
    """
    generation = target.metadata.generation
    if target.status.observed_generation != generation:
        return None
    if isinstance(target, FleetRollout):
        found = phase_health(FleetRollout.__name__, target.status.phase.value)
        return None if found is Health.WAITING else found
    applied = find_condition(target.status.conditions, "Applied")
    if (
        applied is not None
        and applied.status == "True"
        and applied.observed_generation == generation
    ):
        return Health.GOOD
    halted = find_condition(target.status.conditions, "RolloutHalted")
    return Health.FAILING if halted is not None and halted.status == "True" else None

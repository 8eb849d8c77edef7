"""Writes one version into the spec of many Instances: each on its own, with a result for each."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from apis.cloud import Instance
from ctrlruntime.client.client import Client
from ctrlruntime.client.create_or_update import retry_on_conflict
from ctrlruntime.client.errors import APIError, NotFound, TransportError
from internal.cloud.release_assignment import version_that_counts
from internal.cloud.waves import place_of, why_not


class Change(StrEnum):
    """What became of one Instance."""

    UPGRADED = "upgraded"
    SKIPPED = "skipped"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Result:
    """What became of one Instance, and why."""

    name: str
    """Namespace and name."""
    change: Change
    detail: str


async def apply_version(client: Client, instances: Sequence[Instance], to: str) -> list[Result]:
    """Write the version into each Instance, in their order, and return one result for each.

    Errors of the API server and of the connection are results; the others go on.
    """
    return [await _apply(client, item, to) for item in instances]


async def _apply(client: Client, listed: Instance, to: str) -> Result:
    name = place_of(listed)
    found: list[Instance] = [listed]

    async def attempt() -> Result:
        """Read the Instance: the first attempt takes the Instance as listed, each later one reads it again."""
        current = found.pop() if found else await _read(client, listed)
        reason = why_not(current, to)
        if reason:
            return Result(name, Change.SKIPPED, reason)
        before = version_that_counts(current)
        if before != to:
            await _write(client, current, to)
        return Result(name, Change.UPGRADED, f"{before} -> {to}")

    try:
        return await retry_on_conflict(attempt)
    except NotFound:
        return Result(name, Change.SKIPPED, "it was deleted meanwhile")
    except (APIError, TransportError) as error:
        return Result(name, Change.FAILED, f"{error}; run the command again")


async def _read(client: Client, listed: Instance) -> Instance:
    metadata = listed.metadata
    return await client.get(Instance, metadata.name or "", namespace=metadata.namespace)


async def _write(client: Client, current: Instance, to: str) -> None:
    metadata = current.metadata
    patch = {
        "metadata": {"uid": metadata.uid, "resourceVersion": metadata.resource_version},
        "spec": {"sourcegraphVersion": to},
    }
    await client.patch(Instance, metadata.name or "", patch, namespace=metadata.namespace)

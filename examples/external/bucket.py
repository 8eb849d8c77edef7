"""Buckets of a storage service outside of the cluster: made, kept as wanted, and removed before their object goes."""

import os
from typing import Annotated, Any

import aiohttp
from pydantic import Field

from ctrlruntime import (
    ApiModel,
    Builder,
    Condition,
    Conditions,
    ConditionStatus,
    Config,
    Int32,
    Manager,
    ManagerOptions,
    Request,
    Resource,
    Result,
    merge_patch,
    run,
    set_condition,
)
from ctrlruntime.clock import utc_now
from ctrlruntime.controller import Finalizers

FINALIZER = "storage.example.com/bucket"
CHECKED_EVERY = 300.0
"""Seconds. The service sends no events, so what is changed there by hand is found by looking."""


class BucketSpec(ApiModel):
    """What the service is asked for."""

    quota_gib: Annotated[Int32, Field(ge=1)] = 10


class BucketStatus(ApiModel):
    """Where the bucket is, and how it is."""

    url: str = ""
    conditions: Conditions = Field(default_factory=list)


class Bucket(Resource[BucketSpec, BucketStatus], group="storage.example.com", version="v1"):
    """A bucket of the storage service."""


class NotEmpty(Exception):
    """The service keeps a bucket that has objects in it."""


class Service:
    """The service's API: PUT is repeatable, and so is DELETE."""

    def __init__(self, url: str, token: str) -> None:
        self._url, self._token = url, token

    async def put(self, name: str, quota_gib: int) -> str:
        """Make a bucket, or change its quota. Return its URL."""
        answer = await self._call("PUT", name, {"quotaGiB": quota_gib})
        return str(answer.get("url", ""))

    async def delete(self, name: str) -> None:
        """Delete a bucket; one that is gone is no error. Raises NotEmpty."""
        await self._call("DELETE", name)

    async def _call(self, method: str, name: str, body: object = None) -> dict[str, Any]:
        headers = {"Authorization": f"Bearer {self._token}"}
        timeout = aiohttp.ClientTimeout(total=10)
        async with (
            aiohttp.ClientSession(headers=headers, timeout=timeout) as session,
            session.request(method, f"{self._url}/buckets/{name}", json=body) as answer,
        ):
            if answer.status == 409:
                raise NotEmpty(f"{name} has objects in it: empty it, and it is deleted")
            if method == "DELETE" and answer.status == 404:
                return {}
            answer.raise_for_status()
            found: dict[str, Any] = await answer.json()
            return found


def bucket_name(bucket: Bucket) -> str:
    """Return the name at the service: of the UID too, so that a new object of the name has a new bucket."""
    meta = bucket.metadata
    return f"{meta.namespace}-{meta.name}-{(meta.uid or '')[:8]}"


def setup(manager: Manager, service: Service) -> None:
    """Add the controller."""
    finalizers: Finalizers[Bucket] = Finalizers()

    async def remove(bucket: Bucket) -> None:
        try:
            await service.delete(bucket_name(bucket))
        except NotEmpty as error:
            report(bucket, "False", "NotEmpty", str(error))
            raise  # the finalizer stays, and is run again

    finalizers.register(FINALIZER, remove)

    async def reconcile(request: Request) -> Result | None:
        bucket = manager.cache.get(Bucket, request.name, namespace=request.namespace)
        if bucket is None:
            return None
        old = bucket.model_copy(deep=True)
        done = await finalizers.run(bucket)
        if done.changed:
            await write_status(old, bucket)
            await manager.client.update(bucket)
            return None  # its own event is next
        if bucket.metadata.deletion_timestamp is None:
            await keep(bucket)
        await write_status(old, bucket)
        done.check()
        return Result(requeue_after=CHECKED_EVERY)

    async def keep(bucket: Bucket) -> None:
        bucket.status.url = await service.put(bucket_name(bucket), bucket.spec.quota_gib)
        report(bucket, "True", "Kept", "")

    async def write_status(old: Bucket, bucket: Bucket) -> None:
        if patch := merge_patch(old, bucket).get("status"):
            meta = bucket.metadata
            written = await manager.client.patch_status(
                Bucket, meta.name or "", {"status": patch}, namespace=meta.namespace
            )
            meta.resource_version = written.metadata.resource_version

    def report(bucket: Bucket, status: ConditionStatus, reason: str, message: str) -> None:
        condition = Condition(type="Ready", status=status, reason=reason, message=message)
        set_condition(bucket.status.conditions, condition, utc_now())

    Builder(manager).for_(Bucket).build(reconcile)


async def main() -> None:
    """Run it until it is stopped."""
    service = Service(os.environ["STORAGE_URL"], os.environ["STORAGE_TOKEN"])
    options = ManagerOptions(
        name="buckets",
        handle_signals=True,
        leader_election=True,
        leader_election_id="buckets.example.com",
    )
    manager = Manager(await Config.load(), options)
    setup(manager, service)
    await manager.start()


if __name__ == "__main__":
    run(main())

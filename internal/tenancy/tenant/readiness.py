"""For how long a resource may not be ready."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from ctrlruntime.lifecycle import PerUID
from ctrlruntime.resources.readiness import Phase, Readiness, failed


@dataclass(slots=True)
class _Watch:
    revision: str
    since: datetime | None
    expired: bool = False
    was_ready: bool = False


Watches = dict[str, _Watch]
"""Of a tenant, by the id of its resources."""
ResourceKey = tuple[str, str]
"""UID of a tenant, id of one of its resources."""


class ReadinessTimers:
    """Since when resources are not ready, from the apply of a new revision on.

    A re-apply of the same revision (drift) does not start the clock anew. A resource that was ready and no longer is
    (a Pod was evicted) has no clock: it is not ready for as long as that lasts, and never failed for it.
    What a status already calls failed stays failed after a restart, until it is ready or a new revision is
    applied. Kept in memory, for as long as the tenant exists; after a restart the clock of a resource that is merely
    waiting starts again. A resource is named by the UID of its tenant and its id.
    """

    def __init__(self, memory: PerUID[Watches] | None = None) -> None:
        """`memory`: of the tenants' informer; None: nothing is forgotten."""
        self._memory = PerUID[Watches]() if memory is None else memory

    def observe(
        self,
        key: ResourceKey,
        revision: str,
        readiness: Readiness,
        timeout: timedelta,
        now: datetime,
        *,
        failed_before: bool = False,
        ready_before: bool = False,
    ) -> tuple[Readiness, timedelta | None]:
        """Return the readiness with the timeout applied, and how long until it has to be looked at again.

        `failed_before`: the stored status calls this revision of the resource failed. `ready_before`: it
        records the tenant as ready with it.
        """
        watch = self._watch(key)
        if watch is None or watch.revision != revision:
            fresh = watch is None
            watch = _Watch(revision, None, fresh and failed_before, fresh and ready_before)
            self._keep(key, watch)
        if readiness.phase is not Phase.NOT_READY:
            watch.since, watch.expired, watch.was_ready = None, False, readiness.ready
            return readiness, None
        if watch.was_ready and not watch.expired:
            return readiness, None
        watch.since = watch.since or now
        left = watch.since + timeout - now
        if watch.expired or left <= timedelta(0):
            watch.expired = True
            seconds = int(timeout.total_seconds())
            return failed(f"not ready within {seconds} s: {readiness.reason}"), None
        return readiness, left

    def applied(self, key: ResourceKey, revision: str, now: datetime) -> None:
        """Note an apply of a new object or revision; it starts the clock if the revision is new."""
        watch = self._watch(key)
        if watch is None or watch.revision != revision:
            self._keep(key, _Watch(revision, now))
        else:
            watch.was_ready = False

    def forget(self, uid: str) -> None:
        """Forget a tenant that another process works on from now on: its clocks stand still here."""
        self._memory.forget(uid)

    def _watch(self, key: ResourceKey) -> _Watch | None:
        watches = self._memory.get(key[0])
        return None if watches is None else watches.get(key[1])

    def _keep(self, key: ResourceKey, watch: _Watch) -> None:
        watches = self._memory.get(key[0])
        if watches is None:
            self._memory.put(key[0], {key[1]: watch})
        else:
            watches[key[1]] = watch

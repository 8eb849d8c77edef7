"""The kinds that templates name are known only at run time: watched while in use."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from ctrlruntime.api.kinds import GroupVersionKind, RESTMapping
from ctrlruntime.cache import Cache, Entry, Event, InformerHandle
from ctrlruntime.cache.informer import Informer, Registration
from ctrlruntime.client.errors import Forbidden, NoKindMatch
from ctrlruntime.clock import monotonic
from ctrlruntime.resources import OWNER
from ctrlruntime.resources.readiness import EXISTENCE
from internal.tenancy.shared.missing_permissions import Grant, missing

FIRST_TIMEOUT, GLANCE = 10.0, 0.1
"""Seconds a pass waits for the first list of a kind by default, and between two checks whether it was refused."""
DISCOVERY_LAG = 60.0
"""Seconds after the change of a CRD in which kinds that are not served are looked for again."""

OWNER_INDEX = "owner-key"
"""Index of every child informer: the recorded owner key."""


def owner_keys(entry: Entry) -> Iterable[str]:
    """Index function: the recorded owner key of an object, if it has one."""
    key = entry.annotations.get(OWNER)
    return () if key is None else (key,)


@dataclass(slots=True)
class _Watched:
    mapping: RESTMapping
    handle: InformerHandle
    registration: Registration


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why a kind that is served cannot be read; `grant` is the right that is missing, if one is."""

    message: str
    grant: Grant | None = None


@dataclass(slots=True)
class ChildKinds:
    """Declares an informer per kind in use and releases it with its last user.

    `on_event` gets every event of every child kind with the kind's mapping. `resolve` turns a kind
    into a mapping and raises NoKindMatch when the server does not serve it. `on_readable` gets the
    users that waited for a kind once its first list is there after all, and the users of a kind when
    the server ceases to serve it and when it serves it again.
    """

    cache: Cache
    resolve: Callable[[GroupVersionKind], Awaitable[RESTMapping]]
    field_manager: str
    on_event: Callable[[RESTMapping, Event], None]
    on_readable: Callable[[frozenset[Hashable]], None] = lambda _users: None
    namespaces: tuple[str, ...] | None = None
    labels: str | None = None
    """Selects the objects that are watched; None: all."""
    sharded: bool = False
    """Whether only objects of the slots of this process are watched."""
    discover: Callable[[GroupVersionKind], Awaitable[RESTMapping]] | None = None
    """Like `resolve`, but never from memory: a kind that is installed again may have another plural."""
    monotonic: Callable[[], float] = monotonic
    first_timeout: float | None = None
    """Seconds that a pass waits for the first list of a kind; None: FIRST_TIMEOUT."""
    _discovery_changed: float = float("-inf")
    _users: dict[Hashable, frozenset[GroupVersionKind]] = field(default_factory=dict)
    _uses: Counter[GroupVersionKind] = field(default_factory=Counter)
    _watched: dict[GroupVersionKind, _Watched] = field(default_factory=dict)
    _unreadable: dict[GroupVersionKind, Trouble] = field(default_factory=dict)
    _waiting: dict[GroupVersionKind, set[Hashable]] = field(default_factory=dict)
    _waits: dict[GroupVersionKind, asyncio.Task[None]] = field(default_factory=dict)
    _missing: dict[GroupVersionKind, set[Hashable]] = field(default_factory=dict)

    def use(self, user: Hashable, kinds: frozenset[GroupVersionKind]) -> None:
        """Set the kinds that `user` needs from now on. Nothing is watched before `mapping` is called."""
        before = self._users.get(user, frozenset())
        if kinds == before:
            return
        self._users[user] = kinds
        self._uses.update(kinds - before)
        self._uses.subtract(before - kinds)

    def leave(self, user: Hashable) -> None:
        """`user` needs nothing any more."""
        self._uses.subtract(self._users.pop(user, frozenset()))
        for waiting in (*self._missing.values(), *self._waiting.values()):
            waiting.discard(user)

    async def served(self, gvk: GroupVersionKind, user: Hashable) -> RESTMapping | None:
        """Return the mapping of a kind, which is not watched for that; None while it is not served.

        `user` is then remembered, and returned by `appeared` once it is.
        """
        watched = self._watched.get(gvk)
        if watched is not None and not _is_lost(watched.handle.informer):
            return watched.mapping
        try:
            find = self.resolve if watched is None or self.discover is None else self.discover
            found = await find(gvk)
        except NoKindMatch:
            found = None
        if found is None or (watched is not None and found == watched.mapping):
            # Of a kind that was watched, the informer reports when its objects are listed again.
            self._missing.setdefault(gvk, set()).add(user)
            return None
        if watched is not None:
            await self._drop(gvk)  # installed again in another shape
        return found

    async def mapping(self, gvk: GroupVersionKind, user: Hashable) -> RESTMapping | None:
        """Return the mapping of a kind, its informer synced; None while it is not served or not readable.

        `user` is then remembered, and returned by `appeared` or given to `on_readable` once it is.
        """
        served = await self.served(gvk, user)
        if served is None:
            return None
        watched = self._watched.get(gvk) or self._declare(served)
        self._watched[gvk] = watched
        informer = watched.handle.informer
        if gvk not in self._unreadable and not _is_answered(informer):
            await _listed(informer, self.first_timeout or FIRST_TIMEOUT)
        self._unreadable.pop(gvk, None)
        if informer.synced:
            return watched.mapping
        if informer.missing_since is None:
            self._unreadable[gvk] = _trouble(gvk, watched.mapping, informer.last_error)
        self._wait(gvk, informer, user)
        return None

    def usable(self, gvk: GroupVersionKind) -> RESTMapping | None:
        """Return the mapping of a kind that is watched, listed and still served: nothing is left to ask for."""
        watched = self._watched.get(gvk)
        if watched is None or gvk in self._unreadable:
            return None
        informer = watched.handle.informer
        return watched.mapping if informer.synced and not _is_lost(informer) else None

    def readable(self, gvk: GroupVersionKind) -> RESTMapping | None:
        """Return the mapping of a kind that is watched and listed."""
        watched = self._watched.get(gvk)
        listed = watched is not None and watched.handle.informer.synced
        return watched.mapping if watched is not None and listed else None

    def users(self) -> frozenset[Hashable]:
        """Everybody who uses a kind."""
        return frozenset(user for user, kinds in self._users.items() if kinds)

    def trouble(self, gvk: GroupVersionKind) -> Trouble | None:
        """Why a kind cannot be used although the server serves it; None if it can."""
        return self._unreadable.get(gvk)

    def unreadable(self) -> Mapping[GroupVersionKind, Trouble]:
        """Every kind that cannot be read at present."""
        return self._unreadable

    def appeared(self) -> frozenset[Hashable]:
        """Users that waited for a kind; to be called when discovery changed."""
        self._discovery_changed = self.monotonic()
        waiting = frozenset(user for users in self._missing.values() for user in users)
        self._missing.clear()
        return waiting

    def discovery_lags(self) -> bool:
        """Whether discovery may not show yet what changed: an API server updates it after the CRD."""
        return self.monotonic() - self._discovery_changed < DISCOVERY_LAG

    def owned_by(self, key: str) -> list[tuple[RESTMapping, Entry]]:
        """Every object of a watched kind that records `key` as its owner."""
        return [
            (watched.mapping, entry)
            for watched in self._watched.values()
            for entry in watched.handle.informer.store.by_index(OWNER_INDEX, key)
        ]

    def get(self, gvk: GroupVersionKind, name: str, *, namespace: str) -> Entry | None:
        """One object of a watched kind."""
        watched = self._watched.get(gvk)
        return (
            None
            if watched is None
            else watched.handle.informer.store.get(name, namespace=namespace)
        )

    async def release_unused(self) -> None:
        """Stop asking for kinds that cannot be read and are not used any more."""
        for gvk in [gvk for gvk in self._waits if self._uses[gvk] <= 0]:
            await self._drop(gvk)

    async def _drop(self, gvk: GroupVersionKind) -> None:
        """Stop watching a kind."""
        self._unreadable.pop(gvk, None)
        self._waiting.pop(gvk, None)
        if (wait := self._waits.pop(gvk, None)) is not None:
            wait.cancel()
        watched = self._watched.pop(gvk)
        watched.registration.remove()
        await watched.handle.release()

    def _served_changed(self, gvk: GroupVersionKind, informer: Informer) -> None:
        """Wake the users of a kind whose definition was deleted or installed again."""
        watched = self._watched.get(gvk)
        if watched is not None and watched.handle.informer is informer and informer.readable:
            self._missing.pop(gvk, None)
            self.on_readable(frozenset(u for u, kinds in self._users.items() if gvk in kinds))

    async def close(self) -> None:
        """Wait for nothing any more."""
        for wait in self._waits.values():
            wait.cancel()
        await asyncio.gather(*self._waits.values(), return_exceptions=True)

    def _wait(self, gvk: GroupVersionKind, informer: Informer, user: Hashable) -> None:
        """Report to `user` when the kind can be read."""
        self._waiting.setdefault(gvk, set()).add(user)
        if gvk not in self._waits:
            self._waits[gvk] = asyncio.create_task(self._notify_when_listed(gvk, informer))

    async def _notify_when_listed(self, gvk: GroupVersionKind, informer: Informer) -> None:
        await informer.wait_synced()
        self._waits.pop(gvk, None)
        self._unreadable.pop(gvk, None)
        self.on_readable(frozenset(self._waiting.pop(gvk, ())))

    def _declare(self, mapping: RESTMapping) -> _Watched:
        handle = self.cache.declare(
            mapping,
            namespaces=self.namespaces if mapping.namespaced else None,
            labels=self.labels,
            sharded=self.sharded,
            optional=self.sharded,  # a kind that cannot be listed must not keep slots from this process
            # What is ready as soon as it exists is never read: its metadata is enough.
            metadata_only=mapping.gvk.group_kind in EXISTENCE,
            track_manager=self.field_manager,
            indexes={OWNER_INDEX: owner_keys},
        )
        informer = handle.informer
        registration = informer.add_handler(lambda event: self.on_event(mapping, event))
        informer.add_served_handler(lambda _served: self._served_changed(mapping.gvk, informer))
        return _Watched(mapping, handle, registration)


async def _listed(informer: Informer, timeout: float) -> None:
    """Until the first list is there, was refused, has taken too long, or cannot be had."""
    with suppress(TimeoutError):
        async with asyncio.timeout(timeout):
            while not _is_answered(informer):
                with suppress(TimeoutError):
                    await informer.wait_synced(GLANCE)


def _is_answered(informer: Informer) -> bool:
    """Whether the first list is there, or was refused."""
    return informer.synced or _is_refused(informer)


def _is_lost(informer: Informer) -> bool:
    """Whether the server served the kind before and does not now."""
    return informer.readable and informer.missing_since is not None


def _is_refused(informer: Informer) -> bool:
    """Whether the manager may not list the kind, or the server, an older one, does not know it."""
    return isinstance(informer.last_error, Forbidden) or informer.missing_since is not None


def _trouble(gvk: GroupVersionKind, mapping: RESTMapping, error: Exception | None) -> Trouble:
    why = error or "its first list has not come yet"
    message = f"{gvk.api_version} {gvk.kind} cannot be watched: {why}"
    return Trouble(message, missing(error, mapping))

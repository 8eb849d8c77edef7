"""A controller that uses what the library has, as its users would: children, indexes, a finalizer with something outside."""

from __future__ import annotations

import contextlib
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final

from pydantic import Field

from ctrlruntime import (
    BUILTIN,
    ApiModel,
    Builder,
    Conflict,
    Control,
    ControllerOptions,
    Desired,
    GroupVersionKind,
    Manager,
    NotFound,
    Owner,
    Request,
    Resource,
    Result,
    TerminalError,
    as_reconciler,
    enqueue_map_func,
    merge_patch,
)
from ctrlruntime.cache import Entry
from ctrlruntime.controller import Finalizers
from ctrlruntime.controller.predicates import generation_changed
from ctrlruntime.envtest.simulation.process import current
from ctrlruntime.resources import reconcile_set

CONFIG_MAP: Final = BUILTIN[GroupVersionKind("", "v1", "ConfigMap")]
NAMESPACE: Final = "default"
FINALIZER: Final = "example.com/register"
ROOMS_FINALIZER: Final = "example.com/rooms"
FIELD_MANAGER: Final = "halls"
HALL: Final = "example.com/hall"
"""Label of a room: its hall."""
MOST_ATTEMPTS: Final = 100
"""Of one hall while the register is closed: delays double from 5 ms, and begin anew with each process and change."""


class HallSpec(ApiModel):
    """What a hall is to be."""

    rooms: int = 1
    tag: str = ""
    sign: str = ""
    """What its sign shows, which cannot be changed: another one is put up. Empty: it has none."""
    closed: bool = False
    """Whether all its rooms are cleared away at once."""
    wrong: bool = False
    """Whether nothing can be made of it."""


class HallStatus(ApiModel):
    """What it is."""

    rooms: int = 0
    guests: int = 0
    sign: str | None = None
    taken: list[str] = Field(default_factory=list)
    """Rooms whose names others have."""


class Hall(Resource[HallSpec, HallStatus], group="example.com", version="v1"):
    """A place with rooms, each a ConfigMap, and guests."""


class GuestSpec(ApiModel):
    """Where a guest is, and whether it counts."""

    hall: str = ""
    member: bool = True


class Guest(Resource[GuestSpec, ApiModel], group="example.com", version="v1"):
    """Somebody in a hall."""


class Closed(Exception):
    """The register does not answer."""


@dataclass(slots=True)
class Outside:
    """What is outside of the cluster and lasts: the register, and what the story wants to know of the managers."""

    entries: dict[str, str] = field(default_factory=dict)
    """Names of halls by UID."""
    is_open: bool = True
    passes: Counter[str] = field(default_factory=Counter)
    """By hall."""
    meant: set[str] = field(default_factory=set)
    """UIDs of what managers meant to delete."""
    refusals: Counter[str] = field(default_factory=Counter)
    """Of a register that is closed, by UID."""
    faults: list[tuple[str, str]] = field(default_factory=list)
    """Rules that a manager broke, and how."""

    def enter(self, uid: str, name: str) -> None:
        """Raise Closed where it does not answer."""
        self._check(uid)
        self.entries[uid] = name

    def leave(self, uid: str) -> None:
        """Raise Closed where it does not answer."""
        self._check(uid)
        self.entries.pop(uid, None)

    def close(self) -> None:
        """Answer no longer."""
        self.is_open = False
        self.refusals.clear()

    def _check(self, uid: str) -> None:
        if self.is_open:
            return
        self.refusals[uid] += 1
        if self.refusals[uid] > MOST_ATTEMPTS:
            self.faults.append(("attempts", f"{MOST_ATTEMPTS} and more at a closed register"))
        raise Closed("the register does not answer")


class Halls:
    """The controller, in one life of a process."""

    def __init__(self, manager: Manager, outside: Outside) -> None:
        self._client = manager.client
        self._cache = manager.cache
        self._control = Control(manager.cache, field_manager=FIELD_MANAGER)
        self._outside = outside
        self._finalizers = Finalizers[Hall]()
        self._finalizers.register(ROOMS_FINALIZER, self._clear)
        self._finalizers.register(FINALIZER, self._leave)
        self._wrote: dict[str, tuple[str, int]] = {}
        """UID and version of rooms as they were written last, by name."""
        self._deleted: set[str] = set()

    def add(self, manager: Manager) -> None:
        """Add it to a manager."""
        indexes = {"hall": _hall_of, "member": _member}
        builder = (
            Builder(manager)
            .for_(Hall, predicates=(generation_changed,))
            .owns(CONFIG_MAP, track_manager=FIELD_MANAGER)
            .watches(Guest, enqueue_map_func(_halls_of), indexes=indexes)
            .options(ControllerOptions(max_concurrent_reconciles=2))
        )
        builder.build(as_reconciler(manager.client, Hall, self.reconcile))

    async def reconcile(self, hall: Hall) -> Result | None:
        """Bring about what a hall is to be."""
        name, uid = hall.metadata.name, hall.metadata.uid or ""
        self._outside.passes[name] += 1
        self._look_back(name)
        before = hall.model_copy(deep=True)
        finalized = await self._finalizers.run(hall)
        if finalized.changed:
            version, left = hall.metadata.resource_version, hall.metadata.finalizers or None
            metadata = {"finalizers": left, "resourceVersion": version}
            await self._client.patch(Hall, name, {"metadata": metadata}, namespace=NAMESPACE)
        finalized.check()
        if hall.metadata.deletion_timestamp:
            return None
        if hall.spec.wrong:
            raise TerminalError("nothing can be made of it")
        self._outside.enter(uid, name)
        hall.status.taken = await self._make_rooms(hall)
        hall.status.rooms = len(self._rooms(name, uid))
        hall.status.guests = len(
            self._cache.list(Guest, NAMESPACE, index={"hall": name, "member": "yes"})
        )
        hall.status.sign = await self._put_up_sign(name, hall.spec.sign) or None
        if patch := merge_patch(before, hall):
            status = {"status": patch.get("status", {})}
            await self._client.patch_status(Hall, name, status, namespace=NAMESPACE)
        # No event leads back from an object of others: it is looked at again.
        return Result(requeue_after=60) if hall.status.taken else None

    async def _clear(self, hall: Hall) -> None:
        """Clear the rooms of a hall that goes."""
        owner = Owner.of(hall)
        rooms = self._rooms(owner.name, owner.uid)
        self._outside.meant |= {each.uid for each in rooms}
        result = await reconcile_set(self._control, rooms, (), owner)
        result.raise_first()
        await self._put_up_sign(owner.name, "")

    async def _leave(self, hall: Hall) -> None:
        """Take a hall that goes out of the register."""
        self._outside.leave(hall.metadata.uid or "")

    # -- rooms -------------------------------------------------------------------------------------------

    def _rooms(self, hall: str, uid: str) -> list[Entry]:
        found = self._cache.entries(CONFIG_MAP, NAMESPACE, labels={HALL: hall})
        return [
            each
            for each in found
            if each.deletion_timestamp is None and any(uid == ref.uid for ref in each.owners)
        ]

    async def _make_rooms(self, hall: Hall) -> list[str]:
        owner = Owner.of(hall)
        rooms = self._rooms(owner.name, owner.uid)
        if hall.spec.closed:
            if rooms:
                self._outside.meant |= {each.uid for each in rooms}
                labels = {HALL: owner.name}
                await self._client.delete_collection(CONFIG_MAP, NAMESPACE, labels=labels)
                self._deleted |= {each.uid for each in rooms}
            return []
        wanted = [room(owner.name, number, hall.spec.tag) for number in range(hall.spec.rooms)]
        names = {each.name for each in wanted}
        self._outside.meant |= {each.uid for each in rooms if each.name not in names}
        result = await reconcile_set(self._control, rooms, wanted, owner)
        for outcome in result.outcomes.values():
            if outcome.entry is not None and not outcome.conflict:
                self._wrote[outcome.entry.name] = outcome.entry.uid, _version(outcome.entry)
        self._deleted |= {each.uid for each in result.deleted}
        result.raise_first()
        return sorted(item.name for item, _ in result.conflicts)

    async def _put_up_sign(self, hall: str, wanted: str) -> str:
        """Replace the sign where it shows something else: an object of no owner, which is read from the server."""
        name = f"sign-of-{hall}"
        manifest: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": name, "namespace": NAMESPACE},
            "data": {"sign": wanted},
        }
        try:
            found = await self._client.live.get(CONFIG_MAP, name, namespace=NAMESPACE)
        except NotFound:
            found = None
        if found is not None and found["data"]["sign"] == wanted:
            return wanted
        if found is not None:
            uid = found["metadata"]["uid"]
            self._outside.meant.add(uid)
            with contextlib.suppress(NotFound, Conflict):
                await self._client.delete(CONFIG_MAP, name, namespace=NAMESPACE, uid=uid)
        if wanted:
            # What the server would make of it is looked at first, as a careful user does.
            await self._client.dry_run().create({**manifest, "data": {"sign": "a draft"}})
            await self._client.create(manifest)
        return wanted

    # -- what it has to see ------------------------------------------------------------------------------

    def _look_back(self, hall: str) -> None:
        """Note own writes to rooms of a hall that the cache does not show."""
        who = getattr(current(), "name", "")
        for name, (uid, version) in self._wrote.items():
            if not name.startswith(f"{hall}-"):
                continue
            found = self._cache.entry(CONFIG_MAP, name, namespace=NAMESPACE)
            if found is not None and found.uid == uid and _version(found) < version:
                read = _version(found)
                self._forgets(f"{who} wrote {name} as {version}, and reads it as {read}")
        for each in self._cache.entries(CONFIG_MAP, NAMESPACE, labels={HALL: hall}):
            lasts = each.uid in self._deleted and each.deletion_timestamp is None
            # What a deletion of a set took is not known before the watch shows it, and that is known.
            if lasts and not self._cache.unconfirmed(CONFIG_MAP, each.name, namespace=NAMESPACE):
                self._forgets(f"{who} deleted {each.name}, and reads it still")

    def _forgets(self, what: str) -> None:
        self._outside.faults.append(("own writes", what))


def room(hall: str, number: int, tag: str) -> Desired:
    """Return one of a hall's rooms."""
    manifest = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": f"{hall}-{number}", "namespace": NAMESPACE, "labels": {HALL: hall}},
        "data": {"tag": tag},
    }
    return Desired(mapping=CONFIG_MAP, manifest=manifest, ordinal=number)


def _version(entry: Entry) -> int:
    return int(entry.resource_version or 0)


def _spec(guest: Entry[Guest]) -> dict[str, Any]:
    found: dict[str, Any] = guest.field("spec") or {}
    return found


def _hall_of(guest: Entry[Guest]) -> list[str]:
    return [_spec(guest).get("hall", "")]


def _member(guest: Entry[Guest]) -> list[str]:
    return ["yes" if _spec(guest).get("member", True) else "no"]


def _halls_of(guest: Entry[Guest]) -> list[Request]:
    return [Request(name=_spec(guest).get("hall", ""), namespace=NAMESPACE)]

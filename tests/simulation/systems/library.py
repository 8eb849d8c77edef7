"""The library: halls that come, change and go, guests who move, people in the way, and a register that is closed at times."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Awaitable, Callable
from typing import Any, Final

from ctrlruntime import AlreadyExists, Manager, NotFound
from ctrlruntime.envtest.server.storage import Bucket, Change
from ctrlruntime.envtest.simulation import Simulation
from ctrlruntime.envtest.simulation.server import Call
from tests.simulation.systems.halls import (
    CONFIG_MAP,
    NAMESPACE,
    Guest,
    Hall,
    Halls,
    HallSpec,
    Outside,
)

NAMES: Final = ("a", "b", "c")
_GUESTS: Final = ("g1", "g2", "g3", "g4")
_LONG: Final = 1400.0
"""Seconds of a closed register after which a controller tries again at 2311 s, or without its longest delay at 2621 s."""
_LONGEST_DELAY: Final = 1000.0
_MOST_ATTEMPTS: Final = 30
"""Passes of one hall within `_LONG`: delays double from 5 ms."""


async def story(sim: Simulation) -> None:
    """Everything changes while everything fails; then all is as users mean it, and nothing is tried for nothing."""
    await sim.install(Hall, Guest)
    outside = Outside()
    script = Script(sim, outside, sim.draws("script"))
    sim.shows(script)
    sim.add_fault("register closed", script.closes)

    def add(manager: Manager) -> None:
        Halls(manager, outside).add(manager)

    sim.manager(add, replicas=2, leader_election=True)
    await script.begin()
    async with sim.faults(by_hand=True):
        await script.go_on()
        await sim.sleep(40)
    await sim.settles(within=1200, lacks=script.lacks)
    await script.rests(600)
    if script.draws.random() < 0.1:
        await script.tries_for_long()


class Script:
    """What users do, and what has to come of it. It is a witness of what managers delete."""

    def __init__(self, sim: Simulation, outside: Outside, draws: random.Random) -> None:
        self._sim = sim
        self._outside = outside
        self.draws = draws
        self._halls: dict[str, HallSpec] = {}
        self._guests: dict[str, tuple[str, bool]] = {}

    # -- what users do -----------------------------------------------------------------------------------

    async def begin(self) -> None:
        """Make halls and guests, and an object that is in the way of a room."""
        for name in NAMES:
            self._halls[name] = HallSpec(rooms=self.draws.randint(1, 3), tag="0")
            await self._make(name)
        for name in _GUESTS:
            self._guests[name] = (self.draws.choice(NAMES), self.draws.random() < 0.7)
            head = {"apiVersion": "example.com/v1", "kind": "Guest"}
            metadata = {"name": name, "namespace": NAMESPACE}
            await self._sim.client.create({**head, "metadata": metadata, "spec": self._guest(name)})
        await self._stand_in_the_way()

    async def go_on(self) -> None:
        """Change this and that."""
        steps: tuple[Callable[[], Awaitable[None]], ...] = (
            self._change, self._change, self._change, self._move_guest, self._remove_hall,
            self._edit_room, self._let_room_go, self._swap_room, self._stand_in_the_way, self._make_way,
        )  # fmt: skip
        for _ in range(self.draws.randint(4, 12)):
            await self._sim.sleep(self.draws.choice((0.1, 2, 10, 30)))
            await self.draws.choice(steps)()

    async def _change(self) -> None:
        name = self.draws.choice(NAMES)
        if name not in self._halls:
            self._halls[name] = HallSpec(tag="new")
            await self._make(name)
            return
        field, value = self.draws.choice(
            (
                ("rooms", self.draws.randint(0, 3)),
                ("tag", str(self.draws.randint(0, 9))),
                ("sign", self.draws.choice(("", "open", "full"))),
                ("closed", self.draws.random() < 0.5),
                ("wrong", self.draws.random() < 0.5),
            )
        )
        self._halls[name] = self._halls[name].model_copy(update={field: value})
        with contextlib.suppress(NotFound):
            await self._sim.client.patch(Hall, name, {"spec": {field: value}}, namespace=NAMESPACE)

    async def _make(self, name: str) -> None:
        while True:
            manifest = {"metadata": {"name": name, "namespace": NAMESPACE}, "spec": {}}
            hall = Hall.from_manifest(manifest).model_copy(update={"spec": self._halls[name]})
            with contextlib.suppress(AlreadyExists):
                await self._sim.client.create(hall)
                return
            await self._sim.sleep(5, exactly=True)  # the former one of this name still goes

    async def _remove_hall(self) -> None:
        name = self.draws.choice(NAMES)
        if len(self._halls) > 1 and self._halls.pop(name, None) is not None:
            await self._sim.client.delete(Hall, name, namespace=NAMESPACE)

    async def _move_guest(self) -> None:
        name = self.draws.choice(_GUESTS)
        self._guests[name] = (self.draws.choice(NAMES), self.draws.random() < 0.7)
        await self._sim.client.patch(Guest, name, {"spec": self._guest(name)}, namespace=NAMESPACE)

    def _guest(self, name: str) -> dict[str, Any]:
        hall, member = self._guests[name]
        return {"hall": hall, "member": member}

    async def _edit_room(self) -> None:
        await self._patch_room({"data": {"tag": "edited"}})

    async def _let_room_go(self) -> None:
        """Take a room away from its hall: it is in its way from now on."""
        await self._patch_room({"metadata": {"ownerReferences": None}})

    async def _swap_room(self) -> None:
        """Edit a room that its hall is about to give up, and put something else in its place at once."""
        name = self.draws.choice(NAMES)
        spec, edits, swaps = self._halls.get(name), *(self.draws.random() < 0.5 for _ in "12")
        if spec is None or not spec.rooms:
            return
        self._halls[name] = spec.model_copy(update={"rooms": 0})
        room = f"{name}-{spec.rooms - 1}"
        client = self._sim.client
        if edits:
            with contextlib.suppress(NotFound):
                await client.patch(CONFIG_MAP, room, {"data": {"tag": "x"}}, namespace=NAMESPACE)
        await client.patch(Hall, name, {"spec": {"rooms": 0}}, namespace=NAMESPACE)
        if swaps:
            with contextlib.suppress(NotFound, AlreadyExists):
                await client.delete(CONFIG_MAP, room, namespace=NAMESPACE)
                await client.create(_foreign(room))

    async def _patch_room(self, patch: dict[str, Any]) -> None:
        if rooms := [each for each in self._sim.objects("configmaps") if _owner(each)]:
            name = self.draws.choice(rooms)["metadata"]["name"]
            with contextlib.suppress(NotFound):
                await self._sim.client.patch(CONFIG_MAP, name, patch, namespace=NAMESPACE)

    async def _stand_in_the_way(self) -> None:
        name = f"{self.draws.choice(NAMES)}-{self.draws.randint(0, 2)}"
        with contextlib.suppress(AlreadyExists):
            await self._sim.client.create(_foreign(name))

    async def _make_way(self) -> None:
        others = [each for each in self._sim.objects("configmaps") if _in_the_way(each)]
        if others:
            name = self.draws.choice(others)["metadata"]["name"]
            with contextlib.suppress(NotFound):
                await self._sim.client.delete(CONFIG_MAP, name, namespace=NAMESPACE)

    def closes(self, draw: random.Random) -> str:
        """Let the register be closed for a while."""
        seconds = draw.uniform(1, 60)
        self._outside.close()
        self._sim.after(seconds, self._opens)
        self._sim.lasts(self._opens)
        return f"for {seconds:.3g} s"

    def _opens(self) -> None:
        self._outside.is_open = True

    # -- what has to come of it ----------------------------------------------------------------------------

    def lacks(self) -> str:
        """Return what is not as users mean it, or nothing."""
        there = {each["metadata"]["name"]: each for each in self._sim.objects("halls.example.com")}
        if there.keys() != self._halls.keys():
            return f"there are the halls {sorted(there)}, not {sorted(self._halls)}"
        uids = {each["metadata"]["uid"]: name for name, each in there.items()}
        if gone := self._outside.entries.keys() - uids.keys():
            return f"the register has halls that are gone: {sorted(gone)}"
        maps = {each["metadata"]["name"]: each for each in self._sim.objects("configmaps")}
        for name, each in maps.items():
            if (owner := _owner(each)) and owner not in uids:
                return f"the room {name} is of a hall that is gone"
        for name, hall in there.items():
            if not self._halls[name].wrong and (found := self._lacks(name, hall, maps)):
                return f"hall {name}: {found}"
        return ""

    def _lacks(self, name: str, hall: dict[str, Any], maps: dict[str, dict[str, Any]]) -> str:
        wanted, status, uid = self._halls[name], hall.get("status", {}), hall["metadata"]["uid"]
        rooms = {} if wanted.closed else {f"{name}-{number}" for number in range(wanted.rooms)}
        taken = sorted(each for each in rooms if each in maps and _owner(maps[each]) != uid)
        own = sorted(each for each in maps if _owner(maps[each]) == uid)
        guests = sum(each == (name, True) for each in self._guests.values())
        sign = maps.get(f"sign-of-{name}", {}).get("data", {}).get("sign", "")
        shown = {
            "its entry": (self._outside.entries.get(uid), name),
            "rooms": (own, sorted({*rooms} - {*taken})),
            "tags": ({maps[each]["data"]["tag"] for each in own} or {wanted.tag}, {wanted.tag}),
            "status.rooms": (status.get("rooms", 0), len(own)),
            "status.taken": (status.get("taken") or [], taken),
            "status.guests": (status.get("guests", 0), guests),
            "the sign": (sign, wanted.sign),
            "status.sign": (status.get("sign") or "", wanted.sign),
        }
        return "; ".join(
            f"{what} {is_!r}, not {to_be!r}" for what, (is_, to_be) in shown.items() if is_ != to_be
        )

    async def rests(self, seconds: float) -> None:
        """Let time pass in which no hall is looked at, also where only its annotations change."""
        waiting = {
            each["metadata"]["name"]
            for each in self._sim.objects("halls.example.com")
            if each.get("status", {}).get("taken")
        }
        before = self._outside.passes.copy()
        await self._sim.stays_idle(seconds)
        name = next(iter(self._halls))
        patch = {"metadata": {"annotations": {"example.com/note": "looked at"}}}
        await self._sim.client.patch(Hall, name, patch, namespace=NAMESPACE)
        await self._sim.sleep(5)
        if more := {*(self._outside.passes - before)} - waiting:
            self._sim.breaks("passes", f"{sorted(more)} are looked at although nothing happened")

    async def tries_for_long(self) -> None:
        """Close the register for long: attempts become rare, and not too rare."""
        name = next((name for name, each in self._halls.items() if not each.wrong), None)
        if name is None:
            return
        before = self._outside.passes[name]
        self._outside.close()
        self._halls[name] = self._halls[name].model_copy(update={"tag": "last"})
        await self._sim.client.patch(Hall, name, {"spec": {"tag": "last"}}, namespace=NAMESPACE)
        await self._sim.sleep(_LONG)
        attempts = self._outside.passes[name] - before
        if attempts > _MOST_ATTEMPTS:
            self._sim.breaks("attempts", f"{attempts} within {_LONG:g} s, at most {_MOST_ATTEMPTS}")
        self._opens()
        await self._sim.settles(within=_LONGEST_DELAY + 5, lacks=self.lacks)

    # -- what it is shown ------------------------------------------------------------------------------------

    def changed(self, call: Call | None, bucket: Bucket, change: Change) -> None:
        """See whether a manager deletes what it meant to delete."""
        if call is None or call.process is None or not bucket.resource.startswith("configmaps"):
            return
        name, uid = change.record.name, change.record.uid
        meant = uid in self._outside.meant or call.request.verb != "delete"
        if change.type == "DELETED" and not meant:
            self._sim.breaks(
                "meant", f"{call.who} deletes {name}, which is another one than it saw"
            )

    def answered(self, call: Call) -> None:
        """See whether managers know what they wrote, and do not try too often."""
        if self._outside.faults:
            self._sim.breaks(*self._outside.faults[0])


def _foreign(name: str) -> dict[str, Any]:
    """Return an object of a user that has the name of a room."""
    metadata = {"name": name, "namespace": NAMESPACE}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"of": "a user"}}


def _owner(obj: dict[str, Any]) -> str:
    """Return the UID of an object's controller, or nothing."""
    owners = obj["metadata"].get("ownerReferences") or ()
    return next((str(each["uid"]) for each in owners if each.get("controller")), "")


def _in_the_way(obj: dict[str, Any]) -> bool:
    metadata = obj["metadata"]
    return not _owner(obj) and metadata["name"].partition("-")[0] in NAMES

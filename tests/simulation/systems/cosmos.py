"""Sets of nodes of a chain: what users change and what nodes suffer, and what may never happen meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
import random
import re
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any, Final

from apis.cosmos import CosmosFullNode, ScheduledVolumeSnapshot, StatefulJob
from apis.operations import ChangeFreeze
from ctrlruntime.api.conditions import is_condition_true
from ctrlruntime.client.errors import NotFound
from ctrlruntime.envtest.server.storage import Bucket, Change, Record
from ctrlruntime.envtest.simulation import Simulation
from ctrlruntime.envtest.simulation.oracles import LEASE
from ctrlruntime.envtest.simulation.server import Call
from ctrlruntime.manager import GCOptions, Manager
from ctrlruntime.sharding.slot_owners import SLOTS_OWNED
from ctrlruntime.sharding.slots import slot_of
from internal.cosmos.fullnode.validator_key import VALIDATOR_KEY
from manager.options import RunOptions
from manager.systems import load_systems
from tests.cosmos.servers.comet import CometNodes
from tests.simulation.systems.cosmos_copies import RESOURCE as COPIES_OF
from tests.simulation.systems.cosmos_copies import Copies
from tests.simulation.systems.cosmos_heal import SEEN, Healing
from tests.simulation.systems.machines import (
    CLASS_OF_DISKS,
    POD,
    Machines,
    begins_to_go,
    image_of,
)
from tests.simulation.systems.members import Members

BUDGET: Final = "budget"
DISKS: Final = "disks"
KEYS: Final = "keys"
BELIEVABLE: Final = "believable"
END: Final = "as the spec requests"
NAME: Final = "hub"
_STALE: Final = 240.0
"""Seconds for which a manager may act on what was so before: a watch may be silent for so long."""
_UNSEEN: Final = 75.0
"""The same for what it polls: it may stand still for a minute between an answer and what it makes of it."""
Manifest = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Wanted:
    """What users want of the set."""

    replicas: int
    image: str
    budget: int

    @property
    def nodes(self) -> frozenset[str]:
        return frozenset(f"{NAME}-{number}" for number in range(self.replicas))


@dataclass(slots=True)
class Script:
    """What was meant, and when: all that the rules know."""

    retain: bool
    specs: list[tuple[float, Wanted]] = field(default_factory=list)
    images: dict[int, str] = field(default_factory=dict)
    """The image by generation of the set."""

    @property
    def wanted(self) -> Wanted:
        return self.specs[-1][1]

    def lately(self, now: float) -> list[Wanted]:
        """Return what a manager may believe to be wanted, the newest last."""
        times = [at for at, _ in self.specs[1:]] + [float("inf")]
        return [
            each for (_, each), until in zip(self.specs, times, strict=True) if until > now - _STALE
        ]


class Rules:
    """What may never happen to the set; a witness of the simulation."""

    def __init__(self, sim: Simulation, script: Script, machines: Machines) -> None:
        self._sim = sim
        self._script = script
        self._machines = machines
        self._away: set[str] = set()
        """Nodes that worked when a manager took them down, and have not worked since."""
        self._pods: dict[str, Manifest] = {}
        self._keys: dict[str, str] = {}
        self._now = asyncio.get_running_loop().time
        machines.told = self._told

    def _told(self, name: str) -> None:
        if self._machines.up[name]:
            self._away.discard(name)

    def changed(self, call: Call | None, bucket: Bucket, change: Change) -> None:
        """Judge a change."""
        kind, obj = bucket.resource.partition(".")[0], change.record.obj
        by_manager = call is None or call.process is not None
        match kind:
            case "pods":
                if by_manager and begins_to_go(change):
                    self._taken_down(obj["metadata"]["name"])
                self._pods[obj["metadata"]["name"]] = obj
                if change.type == "DELETED":
                    del self._pods[obj["metadata"]["name"]]
            case "persistentvolumeclaims":
                if by_manager and begins_to_go(change):
                    self._disk_goes(obj["metadata"]["name"])
            case "secrets":
                self._key(change, obj)
            case "cosmosfullnodes":
                self._set_changed(call, obj)

    def answered(self, call: Call) -> None:
        """Leave it."""

    def _taken_down(self, name: str) -> None:
        up, now = self._machines.up, self._now()
        if not up.get(name):
            return
        lately = self._script.lately(now)
        wanted = frozenset.intersection(*(each.nodes for each in lately))
        if name in wanted:
            self._away.add(name)
        long_down = {
            each
            for each in wanted
            if not up.get(each) and now - self._machines.since.get(each, now) > _UNSEEN
        }
        down = sorted((self._away | long_down | {name}) & wanted)
        allowed = max(each.budget for each in lately)
        if len(down) > allowed:
            what = f"{name} is taken down: of {', '.join(down)} no more than {allowed} may be down"
            self._sim.breaks(BUDGET, what)

    def _disk_goes(self, claim: str) -> None:
        node = claim.removeprefix("pvc-")
        lately = self._script.lately(self._now())
        if self._script.retain or all(node in each.nodes for each in lately):
            self._sim.breaks(DISKS, f"{claim} goes, which was not meant to")

    def _key(self, change: Change, obj: Manifest) -> None:
        name = obj["metadata"]["name"]
        key = str(obj.get("data"))
        if change.type == "DELETED" or self._keys.get(name, key) != key:
            self._sim.breaks(KEYS, f"{name} is another key than before, or goes")
        if key in (each for other, each in self._keys.items() if other != name):
            self._sim.breaks(KEYS, f"{name} has the key of another node")
        self._keys[name] = key

    def _set_changed(self, call: Call | None, obj: Manifest) -> None:
        generation = obj["metadata"]["generation"]
        if call is None or call.process is None:
            self._script.images[generation] = obj["spec"]["podTemplate"]["image"]
            return
        status = obj.get("status") or {}
        if status.get("phase") != "Complete":
            return
        image = self._script.images.get(status.get("observedGeneration", 0))
        others = [
            name
            for name, pod in sorted(self._pods.items())
            if image_of(pod) != image and not pod["metadata"].get("deletionTimestamp")
        ]
        if others:
            self._sim.breaks(
                BELIEVABLE, f"Complete with {image}, and {others[0]} has another image"
            )


# -- the story ---------------------------------------------------------------------------------------------


class Set:
    """The set, its machines and its users."""

    def __init__(self, sim: Simulation) -> None:
        self.sim = sim
        self.draw = random.Random(sim.random.random())
        self.nodes = CometNodes(None, height=1000)
        self.machines = Machines(sim, random.Random(self.draw.random()), self.nodes)
        draw = self.draw
        self.policy = draw.choice((None, "Retain", "Delete"))
        self.script = Script(retain=self.policy == "Retain")
        self.wanted = Wanted(draw.randint(2, 5), "gaia:v1", draw.choice((1, 1, 2)))
        self.min_ready = draw.choice((0, 10))
        self.peers = draw.choice(("Rolling", "OnRestart"))
        self._version = 1
        own, share = random.Random(draw.random()), draw.random()
        self.healing = Healing(sim, own, self.machines) if share < 0.4 else None
        self.copies = Copies(sim, own, NAME) if share >= 0.7 else None

    async def create(self) -> None:
        """Begin."""
        await self.machines.start()
        self.sim.shows(Rules(self.sim, self.script, self.machines))
        self._want()
        spec: Manifest = {
            "replicas": self.wanted.replicas,
            "chain": {"chainID": "hub-1", "network": "testnet", "binary": "gaiad"},
            "podTemplate": {"image": self.wanted.image},
            "volumeClaimTemplate": {
                "storageClassName": CLASS_OF_DISKS,
                "resources": {"requests": {"storage": "1Gi"}},
            },
            "strategy": {"maxUnavailable": self.wanted.budget, "minReadySeconds": self.min_ready},
            "service": {"maxP2PExternalAddresses": 0},
            "peers": {"rollout": self.peers},
        }
        if self.policy is not None:
            spec["volumeRetentionPolicy"] = self.policy
        if self.healing is not None:
            spec["selfHeal"] = self.healing.policy
            await self.healing.start()
        if self.copies is not None:
            await self.copies.start()
        manifest = {"metadata": {"name": NAME, "namespace": "default"}, "spec": spec}
        await self.sim.client.create(CosmosFullNode.from_manifest(manifest))

    async def change(self) -> None:
        """Let something happen, as drawn."""
        happens: tuple[Callable[[], Awaitable[None]], ...] = (
            self._image,
            self._scale,
            self._budget,
            self._node_fails,
            self._node_fails,
            self._pod_deleted,
        )
        if self.healing is not None:
            happens = happens[3:] if self.healing.steady else happens
            happens += (self._strikes,) * 4
        if self.copies is not None:
            happens += (self.copies.user_copies,)
        await self.draw.choice(happens)()

    def _want(self, **changes: object) -> None:
        self.wanted = Wanted(**{**asdict(self.wanted), **changes})
        self.script.specs.append((asyncio.get_running_loop().time(), self.wanted))

    async def _patch(self, spec: Manifest) -> None:
        await self.sim.client.patch(CosmosFullNode, NAME, {"spec": spec}, namespace="default")

    async def _image(self) -> None:
        self._version += 1
        self._want(image=f"gaia:v{self._version}")
        if self.draw.random() < 0.3:
            self.machines.fails.add(self.wanted.image)
        await self._patch({"podTemplate": {"image": self.wanted.image}})

    async def _scale(self) -> None:
        self._want(replicas=self.draw.randint(1, 5))
        await self._patch({"replicas": self.wanted.replicas})

    async def _budget(self) -> None:
        self._want(budget=self.draw.choice((1, 2)))
        await self._patch({"strategy": {"maxUnavailable": self.wanted.budget}})

    async def _node_fails(self) -> None:
        name = self.draw.choice(sorted(self.wanted.nodes))
        kinds: tuple[Manifest, ...] = (
            {"unreachable": True},
            {"catching_up": True},
            {"network": "other-1"},
        )
        self.machines.suffers(name, **self.draw.choice(kinds))

    async def _strikes(self) -> None:
        assert self.healing is not None
        self.healing.strike(self.draw.choice(sorted(self.wanted.nodes)))

    async def _pod_deleted(self) -> None:
        name = self.draw.choice(sorted(self.wanted.nodes))
        with contextlib.suppress(NotFound):
            await self.sim.client.delete(POD, name, namespace="default")

    def compared(self, key: str, obj: object) -> object:
        """Leave out disks of nodes that left: which of them may go within a day depends on the order."""
        if key.startswith((COPIES_OF, "scheduledvolumesnapshots.")):
            return None  # when they were made differs
        node = key.removeprefix(_CLAIMS)
        return None if node != key and node not in self.wanted.nodes else _compared(key, obj)

    async def ends(self) -> None:
        """Raise RuleBroken unless everything is as the spec requests."""
        found = await self.sim.client.get(CosmosFullNode, NAME, namespace="default")
        pods = {
            each["metadata"]["name"]: image_of(each)
            for each in await self.sim.client.list(POD, "default")
        }
        wanted = dict.fromkeys(self.wanted.nodes, self.wanted.image)
        if pods != wanted:
            self.sim.breaks(END, f"there are {pods}, wanted are {wanted}")
        status = found.status
        if (status.phase, status.ready_replicas) != ("Complete", self.wanted.replicas):
            self.sim.breaks(END, f"{status.phase}: {status.status} ({status.ready_replicas} ready)")
        claims = self.sim.objects("persistentvolumeclaims")
        left = {each["metadata"]["name"].removeprefix("pvc-") for each in claims}
        if (left - self.wanted.nodes) and not (
            self.script.retain or is_condition_true(status.conditions, "DeletionsHeld")
        ):
            self.sim.breaks(END, f"disks of {left - self.wanted.nodes} stay, and are not held")


async def add(manager: Manager, options: RunOptions) -> None:
    """Add the controllers as `manager run` does."""
    for add_system in load_systems(options.systems):
        await add_system(manager, options, manager.config)


async def members(sim: Simulation) -> None:
    """The same with two or three managers, one of which works on the set at a time."""
    sim.allow(LEASE)  # who led once is a member still: Members has the rule instead
    sim.shows(Members(sim, _slot))
    await story(sim, members=sim.draws("members").choice((2, 3)))


def _slot(_call: Call, bucket: Bucket, change: Change) -> int | None:
    """Return the slot of the set, which all is for that is written; what the leader reports of it is in none."""
    if bucket.resource.startswith("events"):
        return None
    before, after = (_reported(each) for each in (change.previous, change.record))
    return slot_of(NAME, namespace="default") if before == after else None


def _reported(record: Record | None) -> list[Manifest]:
    """Return what the leader reported: whether a manager works on the set."""
    status = (record.obj.get("status") or {}) if record is not None else {}
    return [each for each in status.get("conditions") or () if each.get("type") == SLOTS_OWNED]


async def story(sim: Simulation, members: int = 0) -> None:
    """A set of nodes that changes, and whose nodes fail, while everything else fails as well.

    With `members` so many managers share it.
    """
    options = RunOptions(systems=("cosmos",), shards=members > 0)
    options = replace(options, cosmos=replace(options.cosmos, node_sidecar_image="manager:v1"))
    runtime = replace(options.manager_options(), gc=GCOptions(), handle_signals=False)
    await sim.install(CosmosFullNode, ScheduledVolumeSnapshot, StatefulJob, ChangeFreeze)
    nodes = Set(sim)
    sim.compared = nodes.compared
    adding = partial(add, options=options)
    sim.manager(adding, replicas=members or 2, leader_election=True, options=runtime)
    await nodes.create()
    await sim.sleep(nodes.draw.choice((5, 60, 150)))
    async with sim.faults():
        for _ in range(nodes.draw.randint(1, 4)):
            await nodes.change()
            await sim.sleep(nodes.draw.choice((2, 20, 90)))
    nodes.machines.heal()
    await sim.sleep(SEEN, exactly=True)
    if nodes.copies is not None:
        await nodes.copies.end()
    if nodes.healing is not None:
        await nodes.healing.mends(nodes.wanted.nodes)
    await sim.settles(within=1800)
    await nodes.ends()
    await sim.stays_idle(900)


_OF_KEYS: Final = re.compile(
    r"^(ctrlruntime\.dev/(applied-fields|config-checksum|inputs|revision)|cosmos\.ctrlruntime\.dev/node-key-id"
    r"|data|removals|podIPs?|clusterIPs?|height)$"
)
"""Members that hold keys or follow from them, what went on the way (heights of nodes that left), and addresses."""
_CLAIMS: Final = "persistentvolumeclaims/default/pvc-"


def _compared(_key: str, obj: object) -> object:
    """Leave out what two runs differ in that end alike: keys, and what the way left behind."""
    if isinstance(obj, list):
        return [_compared(_key, each) for each in obj if not _depends_on_the_way(each)]
    if isinstance(obj, dict):
        return {key: _compared(_key, each) for key, each in obj.items() if not _OF_KEYS.match(key)}
    return obj


def _depends_on_the_way(obj: object) -> bool:
    """Whether it is which deletions are held, a time without a manager, or the container that notes whose disk it is: the first Pod on a disk does."""
    if not isinstance(obj, dict):
        return False
    return obj.get("type") in ("DeletionsHeld", SLOTS_OWNED) or obj.get("name") == VALIDATOR_KEY

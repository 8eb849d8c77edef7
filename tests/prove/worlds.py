"""All worlds, each with a defect that its visit has to find."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from tests.prove.election_world import election_world
from tests.prove.explorer import Scope
from tests.prove.gate_world import gate_world
from tests.prove.guard_world import guard_world
from tests.prove.overlay_world import overlay_world
from tests.prove.queue_world import queue_world
from tests.prove.rollout_world import rollout_world
from tests.prove.shard_world import shard_world
from tests.prove.task_world import task_world

MakeScope = Callable[..., Scope[Any]]
WORLDS: Final[Mapping[str, MakeScope]] = {
    "gate": gate_world,
    "removal guard": guard_world,
    "rollout": rollout_world,
    "task driver": task_world,
    "queue": queue_world,
    "election": election_world,
    "write overlay": overlay_world,
    "shards": shard_world,
}

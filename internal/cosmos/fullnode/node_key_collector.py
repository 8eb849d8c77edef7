"""The keys of the nodes: found, or made once and stored before they are used."""

import base64
import binascii
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from apis.cosmos import CosmosFullNode
from ctrlruntime.cache.entry import Entry
from ctrlruntime.controller.aggregate_error import UnrecoverableError
from ctrlruntime.resources import Action, Desired, Owner
from internal.cosmos.fullnode.desired_objects import SECRET, built, inputs_of
from internal.cosmos.fullnode.errors import Findings
from internal.cosmos.fullnode.events import Note, Reason
from internal.cosmos.fullnode.metadata import default_labels, metadata, named, node_ordinals
from internal.cosmos.fullnode.node_key import FILE, BadNodeKey, NodeKey
from internal.cosmos.fullnode.objects import Objects
from internal.cosmos.labels import node_key_name, pod_name

_HELP: Final = f"put a key into `data.{FILE}`, or delete the Secret and a new identity is made"


@dataclass(frozen=True, slots=True)
class NodeKeyCollector:
    """Reads and makes the Secrets with keys.

    They are never deleted but with the set: a node that comes back is known to its peers.
    """

    secrets: Objects

    async def collect(
        self,
        node_set: CosmosFullNode,
        owner: Owner,
        findings: Findings,
        pods: Iterable[Entry] = (),
    ) -> dict[str, NodeKey]:
        """Return the stored key of each node, by name of its Pod. A node is left out if its key cannot be had.

        `pods`: those that exist. That one of them gets a new key is an event: its Secret was deleted.
        """
        existing_pods = {each.name for each in pods}
        existing, bad = self._existing(node_set, findings)
        desired = [
            item
            for item in build_node_keys(node_set, with_missing(node_set, existing))
            if item.name not in bad
        ]
        done = await self.secrets.reconcile(desired, owner, findings)
        keys: dict[str, NodeKey] = {}
        for pod, secret in self._names(node_set).items():
            outcome = done.get(secret)
            entry = None if outcome is None or outcome.conflict else outcome.entry
            if outcome is not None and outcome.action is Action.CREATED and pod in existing_pods:
                findings.notes.append(Note(Reason.NODE_KEY_MADE, _made_anew(pod, secret)))
            try:
                if entry is not None:
                    keys[pod] = key_of(entry)
            except BadNodeKey as error:
                findings.append(_unreadable(secret, error))
        return keys

    def _existing(
        self, node_set: CosmosFullNode, findings: Findings
    ) -> tuple[dict[str, NodeKey], set[str]]:
        """Return the keys that are stored, by Pod, and the Secrets that hold something else."""
        found: dict[str, NodeKey] = {}
        bad: set[str] = set()
        for pod, secret in self._names(node_set).items():
            entry = self.secrets.find(secret, node_set.metadata.namespace)
            try:
                if entry is not None:
                    found[pod] = key_of(entry)
            except BadNodeKey as error:
                findings.append(_unreadable(secret, error))
                bad.add(secret)
        return found, bad

    @staticmethod
    def _names(node_set: CosmosFullNode) -> dict[str, str]:
        name = named(node_set)
        return {
            pod_name(name, ordinal): node_key_name(name, ordinal)
            for ordinal in node_ordinals(node_set)
        }


def key_of(entry: Entry) -> NodeKey:
    """Return the key in a Secret. Raises BadNodeKey."""
    encoded = (entry.field("data") or {}).get(FILE)
    if not isinstance(encoded, str):
        raise BadNodeKey(f"there is no {FILE}")
    try:
        return NodeKey.parse(base64.b64decode(encoded, validate=True))
    except binascii.Error:
        raise BadNodeKey(f"{FILE} is not base64") from None


def _made_anew(pod: str, secret: str) -> str:
    return (
        f"Secret {secret} was gone: {pod} gets a new key, and peers outside that know the old id find it no longer. "
        f"To have the old identity back, put its key into `data.{FILE}`."
    )


def _unreadable(secret: str, error: BadNodeKey) -> UnrecoverableError:
    return UnrecoverableError(f"Secret {secret}: {error}: {_HELP}")


def with_missing(
    node_set: CosmosFullNode,
    existing: Mapping[str, NodeKey],
    make: Callable[[], NodeKey] = NodeKey.make,
) -> dict[str, NodeKey]:
    """Return a key for every node of the set, by name of its Pod: the one it has, or else a new one.

    The caller stores new ones before anything else is made with them.
    """
    names = [pod_name(named(node_set), ordinal) for ordinal in node_ordinals(node_set)]
    return {name: existing.get(name) or make() for name in names}


def build_node_keys(node_set: CosmosFullNode, keys: Mapping[str, NodeKey]) -> list[Desired]:
    """One Secret for each node. It is made once and never written again: a node keeps its identity.

    Raises KeyError for a node without key.
    """
    return [_build(node_set, ordinal, keys) for ordinal in node_ordinals(node_set)]


def _build(node_set: CosmosFullNode, ordinal: int, keys: Mapping[str, NodeKey]) -> Desired:
    name = named(node_set)
    key = keys[pod_name(name, ordinal)]
    described = metadata(
        node_set, node_key_name(name, ordinal), default_labels(node_set, ordinal=ordinal)
    )
    secret = built(
        node_set,
        SECRET,
        {
            "metadata": described,
            "type": "Opaque",
            "data": {FILE: base64.b64encode(key.text.encode()).decode()},
        },
        inputs_of(name, ordinal, key.id),
        ordinal=ordinal,
        instance=ordinal,
        once=True,
    )
    # The key is written once; what the Secret is found by is kept.
    return replace(secret, labels=described["labels"])

"""An API server of a simulation with what it holds: the first one, and those that a test adds."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

from ctrlruntime.api.kinds import Manifest
from ctrlruntime.client.client import Client
from ctrlruntime.client.config import Config
from ctrlruntime.client.errors import Conflict
from ctrlruntime.envtest.crds import CRDSource, install_crds
from ctrlruntime.envtest.simulation.network import Network
from ctrlruntime.envtest.simulation.server import SimulatedServer, Witness
from ctrlruntime.envtest.simulation.state import State, state_of
from ctrlruntime.manager.lease import LEASE

_LEASES: Final = "leases.coordination.k8s.io"


class Cluster:
    """One cluster. Its storage stays while it is off the network."""

    def __init__(self, server: SimulatedServer, network: Network) -> None:
        self.server = server
        self._network = network
        self._client: Client | None = None
        self._beginning = server.state.storage.revision

    @property
    def name(self) -> str:
        """Its name; empty for the first one."""
        return self.server.name

    @property
    def url(self) -> str:
        """Where its API server is."""
        return self.server.url

    @property
    def client(self) -> Client:
        """A client of the test itself: an administrator whom no fault meets."""
        if self._client is None:
            self._client = Client.connect(Config(host=self.url, user_agent="user"))
        return self._client

    async def install(self, *kinds: CRDSource) -> None:
        """Install definitions, as `Environment.install_crds` does."""
        await install_crds(self.client, kinds)
        self._beginning = self.server.state.storage.revision

    def objects(self, resource: str) -> list[Manifest]:
        """Return all objects of a resource, as `deployments.apps`, by namespace and name: no request is made."""
        return [record.load() for record in self.server.state.storage.bucket(resource).scan()]

    def shows(self, witness: Witness) -> None:
        """Show every change and every request to a witness of the test."""
        self.server.witnesses.append(witness)

    def leave(self) -> Callable[[], None]:
        """Take it off the network: connections break, and none is made. Return what brings it back."""
        return self._network.take_off(self.server.options.host, self.server.port)

    async def release_leases(self, after: float) -> None:
        """Empty after some seconds the holders that Leases have now, as whoever ends in order does with its own."""
        held = [each for each in self.objects(_LEASES) if each["spec"].get("holderIdentity")]
        await asyncio.sleep(after)
        await asyncio.gather(*(self._release(each) for each in held))

    async def _release(self, lease: Manifest) -> None:
        """Empty a holder, and no other that came meanwhile; its last renewal may have arrived since."""
        metadata, holder = lease["metadata"], lease["spec"]["holderIdentity"]
        name, namespace = metadata["name"], metadata["namespace"]
        while lease["spec"].get("holderIdentity") == holder:
            version = {"resourceVersion": lease["metadata"]["resourceVersion"]}
            spec = {"holderIdentity": "", "leaseDurationSeconds": 1}
            patch = {"metadata": version, "spec": spec}
            try:
                await self.client.patch(LEASE, name, patch, namespace=namespace)
                return
            except Conflict:
                lease = await self.client.get(LEASE, name, namespace=namespace)

    def state(self, compared: Callable[[str, Any], object]) -> State:
        """Return what it holds, of each object what `compared` leaves."""
        found = state_of(self.server.state.storage, self._beginning)
        before = f"{self.name}:" if self.name else ""
        seen = {key: [compared(key, obj) for obj in objects] for key, objects in found.items()}
        return {f"{before}{key}": objects for key, objects in seen.items() if objects != [None]}

"""A cluster for trying things out: the embedded API server and simulated nodes, with our CRDs."""

import os
from pathlib import Path

from ctrlruntime.envtest import Environment
from ctrlruntime.outbound_addresses import ALLOWED
from internal.named_secrets import Purpose
from manager.kinds import KINDS

OWN_KUBECONFIG = "embedded-cluster"
"""Secret in the namespace `default`: a kubeconfig of the cluster itself, under `kubeconfig`."""


class EmbeddedCluster:
    """An API server in a process of its own, simulated nodes in another. State is in memory."""

    def __init__(self, folder: Path | None = None) -> None:
        """`folder` keeps logs and kubeconfigs; without one they go with the cluster."""
        self._environment = Environment("embedded-process", nodes=True, folder=folder)

    async def __aenter__(self) -> "EmbeddedCluster":
        os.environ.setdefault(ALLOWED, "127.0.0.0/8,::1/128")  # its servers are on this machine
        await self._environment.start()
        await self._environment.install_crds(*KINDS)
        await self._environment.client("admin").create(self._own_kubeconfig())
        return self

    def _own_kubeconfig(self) -> dict[str, object]:
        """Let instances have this very cluster as theirs, as the samples do."""
        return {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {
                "name": OWN_KUBECONFIG,
                "namespace": "default",
                "labels": {Purpose.CLUSTER.value: "true"},
            },
            "stringData": {"kubeconfig": self.kubeconfig("admin").read_text()},
        }

    async def __aexit__(self, *_: object) -> None:
        await self._environment.stop()

    def kubeconfig(self, user: str) -> Path:
        """Return the path of a user's kubeconfig; users are `admin` and `manager`."""
        return self._environment.kubeconfig(user)

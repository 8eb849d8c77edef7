"""Clusters by Secrets that hold their kubeconfigs."""

from __future__ import annotations

import asyncio
import base64
import hashlib
from functools import partial
from typing import Any, Final

from ctrlruntime.api.kinds import GroupVersionKind
from ctrlruntime.cache.entry import Entry
from ctrlruntime.cache.events import CreateEvent, DeleteEvent, Event, UpdateEvent
from ctrlruntime.client.config import Config, ConfigError
from ctrlruntime.client.kubeconfig import Kubeconfig
from ctrlruntime.cluster.cluster import Cluster, ClusterOptions
from ctrlruntime.cluster.provider import ClusterSync, Engager, Wanted

SECRET: Final = GroupVersionKind("", "v1", "Secret")
LABEL: Final = "cluster.ctrlruntime.dev/kubeconfig"
"""With the value `true`, marks a Secret as the kubeconfig of a cluster to engage."""
KEY: Final = "kubeconfig"
INVALID: Final = "KubeconfigInvalid"
INSECURE: Final = "KubeconfigInsecure"


class KubeconfigProvider:
    """Engages a cluster for each Secret of one namespace that is labelled ``cluster.ctrlruntime.dev/kubeconfig: "true"``.

    The Secret's name is the cluster's.

    The kubeconfig is the key ``kubeconfig`` and its current context. It is complete in itself: files,
    exec plugins and auth providers are refused, since whoever writes the Secret would read and run
    what belongs to this process. A changed Secret engages the cluster again, a deleted or unlabelled
    one disengages it; one that cannot be used leaves the cluster as it is, with a Warning event
    ``KubeconfigInvalid`` on the Secret. One by which a server is not verified, or is reached by plain
    http over a network, is used, with a Warning event ``KubeconfigInsecure``.
    """

    def __init__(
        self,
        cluster: Cluster,
        namespace: str,
        *,
        labels: str = f"{LABEL}=true",
        key: str = KEY,
        context: str | None = None,
        options: ClusterOptions | None = None,
    ) -> None:
        """`cluster` has the Secrets, `options` are those of the clusters to engage.

        The Secrets are declared to the cache here: make the provider before the manager starts.
        """
        self._recorder = cluster.recorder
        self._handle = cluster.cache.declare(SECRET, namespaces=[namespace], labels=labels)
        self._key = key
        self._context = context
        self._options = options
        self._entries: dict[str, Entry] = {}

    async def run(self, engager: Engager) -> None:
        """Engage clusters until cancelled."""

        def warn(reason: str, name: str, why: str) -> None:
            if (entry := self._entries.get(name)) is not None:
                self._recorder.event(entry, "Warning", reason, "Engage", why)

        def report(name: str, reason: str) -> None:
            engager.logger.error("Cluster not engaged by its Secret", cluster=name, error=reason)
            warn(INVALID, name, reason)

        sync = ClusterSync(engager, self._options, report, partial(warn, INSECURE))

        def deliver(event: Event) -> None:
            match event:
                case CreateEvent(new=entry) | UpdateEvent(new=entry):
                    self._entries[entry.name] = entry
                    sync.want(entry.name, self._wanted(entry))
                case DeleteEvent(old=entry):
                    self._entries.pop(entry.name, None)
                    sync.drop(entry.name)

        registration = self._handle.informer.add_handler(deliver)
        try:
            await asyncio.Event().wait()
        finally:
            registration.remove()
            await sync.close()

    def _wanted(self, entry: Entry) -> Wanted:
        where = f"Secret {entry.namespace}/{entry.name}"
        data: dict[str, Any] = entry.field("data") or {}
        encoded = data.get(self._key)
        digest = hashlib.sha256(str(encoded).encode()).hexdigest()

        def load() -> Config:
            if not encoded:
                raise ConfigError(f"{where} has no key {self._key!r}: put the kubeconfig there")
            content = base64.b64decode(encoded)
            return Config.of_kubeconfig(Kubeconfig.parse(content, where), self._context)

        return Wanted(digest, load)

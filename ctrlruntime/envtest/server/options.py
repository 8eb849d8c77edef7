"""Options of the embedded API server."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from ctrlruntime.clock import utc_now
from ctrlruntime.envtest.server.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class User:
    """Who sends a request. A member of `system:masters` may do everything."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def info(self) -> dict[str, Any]:
        """Return the user as reviews show it (`UserInfo`)."""
        info: dict[str, Any] = {"username": self.name}
        if self.uid:
            info["uid"] = self.uid
        info["groups"] = list(self.groups)
        if self.extra:
            info["extra"] = {key: list(values) for key, values in self.extra.items()}
        return info


@dataclass(slots=True)
class Latency:
    """Seconds added before a request is handled; may be changed while the server runs."""

    read: float = 0.0
    write: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerOptions:
    """How the server runs. Times are in seconds, sizes in bytes."""

    host: str = "127.0.0.1"
    port: int = 0
    """0 takes a free port."""
    tls: bool = False
    """Serve https with a certificate of the server's own CA (`APIServer.ca_data`)."""
    tokens: Mapping[str, User] = field(default_factory=dict)
    """Static bearer tokens."""
    authorization: Literal["AlwaysAllow", "RBAC"] = "AlwaysAllow"
    anonymous: bool = True
    """Requests without a token are `system:anonymous`; otherwise they get 401."""
    watch_history: int = 64 * 1024 * 1024
    """Bytes of changes kept over all kinds, encoded; a watch from before them gets 410."""
    watch_buffer: int = 10_000
    """Events a slow watcher may lag behind before it is disconnected."""
    bookmark_interval: float = 60.0
    continue_lifetime: float = 300.0
    """How long a continue token of a list stays good."""
    max_request: int = 3 * 1024 * 1024
    max_object: int = 1536 * 1024
    default_service_accounts: bool = True
    """Make the ServiceAccount `default` in each namespace, as the controller manager does."""
    root_ca_config_maps: bool = False
    """Make the ConfigMap `kube-root-ca.crt` in each namespace, as the controller manager does."""
    garbage_collection: bool = True
    sharded_list_watch: bool = False
    """The gate ShardedListAndWatch of 1.36: lists and watches take a `shardSelector`, which is ignored otherwise."""
    service_cidr: str = "10.96.0.0/12"
    service_urls: Mapping[tuple[str, str], str] = field(default_factory=dict)
    """Where webhooks of a service (namespace, name) are really reached: `https://host:port`."""
    latency: Latency = field(default_factory=Latency)
    clock: Callable[[], datetime] = utc_now
    snapshot: Snapshot | None = None
    """What the server holds from the start, of another one (`APIServer.snapshot`); None: what a new cluster has."""

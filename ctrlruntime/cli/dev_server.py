"""The API server that a project is developed against: an embedded one, or that of a kubeconfig."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from ctrlruntime.api.kinds import GroupKind, GroupVersionKind, Manifest
from ctrlruntime.api.resource import Resource
from ctrlruntime.cache.redeclaration import RestartNeeded
from ctrlruntime.cli.dev_project import ProjectError
from ctrlruntime.client.client import Client
from ctrlruntime.client.config import Config
from ctrlruntime.client.errors import APIError, NotFound, TransportError
from ctrlruntime.generate.crd import crds_of
from ctrlruntime.generate.webhook import webhooks_of
from ctrlruntime.webhook.conversion import Spoke
from ctrlruntime.webhook.options import WebhookOptions

if TYPE_CHECKING:
    from ctrlruntime.envtest.environment import Environment
    from ctrlruntime.envtest.local_webhooks import LocalWebhooks

CRD = GroupVersionKind("apiextensions.k8s.io", "v1", "CustomResourceDefinition")
Kind = type[Resource[Any, Any]]
Note = Callable[[str], None]


class Server(Protocol):
    """What a session needs of the API server."""

    @property
    def config(self) -> Config: ...

    @property
    def webhook(self) -> WebhookOptions:
        """Where webhooks are served; port -1: nowhere."""
        ...

    async def install_new(self, kinds: Iterable[Kind]) -> None:
        """Install definitions of kinds that it has none of."""
        ...

    async def install(self, kinds: Iterable[Kind], note: Note) -> None:
        """Bring its CRDs and webhook configurations to what the classes declare, or note what has to be done."""
        ...


@dataclass(slots=True)
class EmbeddedServer:
    """An API server of this command, which ends with it: CRDs and webhooks follow the code."""

    config: Config
    environment: Environment
    hooks: LocalWebhooks
    _installed: dict[str, Manifest] = field(default_factory=dict)

    @property
    def webhook(self) -> WebhookOptions:
        return self.hooks.options

    async def install_new(self, kinds: Iterable[Kind]) -> None:
        """Install definitions of kinds that it has none of. Raises the errors of the server."""
        for crd in self._definitions(list(kinds)):
            name = crd["metadata"]["name"]
            self._check_names(name, crd)
            if name not in self._installed:
                await self.environment.install_crds(crd)
                self._installed[name] = crd

    def _check_names(self, name: str, crd: Manifest) -> None:
        """Raise RestartNeeded for another name of a kind: the server would never accept it beside the former one."""
        for former, installed in self._installed.items():
            kinds = {
                (each["spec"]["group"], each["spec"]["names"]["kind"]) for each in (crd, installed)
            }
            if former != name and len(kinds) == 1:
                raise RestartNeeded(f"{name}: its kind is installed as {former}")

    async def install(self, kinds: Iterable[Kind], note: Note) -> None:
        """Install what has changed. Raises the errors of the server, which refuses a definition that is not valid."""
        known = list(kinds)
        for crd in self._definitions(known):
            name = crd["metadata"]["name"]
            if self._installed.get(name) == crd:
                continue
            await self.environment.install_crds(crd)
            note(f"{name}: the changed definition is installed")
            self._installed[name] = crd
        for kind in known:
            if webhooks_of(kind):
                await self.hooks.install(kind)

    def _definitions(self, kinds: list[Kind]) -> Iterable[Manifest]:
        converted = {kind.gvk().group_kind for kind in kinds if issubclass(kind, Spoke)}
        by_kind: dict[GroupKind, list[Kind]] = {}
        for kind in kinds:
            by_kind.setdefault(kind.gvk().group_kind, []).append(kind)
        for group_kind, versions in by_kind.items():
            if group_kind in converted and len(versions) > 1:
                yield self.hooks.definition(*versions)
            else:
                yield from crds_of(versions)


@dataclass(slots=True)
class ExistingServer:
    """The server of a kubeconfig: nothing is installed there; what is missing is noted."""

    config: Config
    setup: str
    webhook: WebhookOptions = field(default_factory=lambda: WebhookOptions(port=-1))
    _noted: dict[str, Manifest] = field(default_factory=dict)

    async def install_new(self, kinds: Iterable[Kind]) -> None:
        """Install nothing."""

    async def install(self, kinds: Iterable[Kind], note: Note) -> None:
        """Note each definition that the server has not, or has otherwise, once until it changes."""
        known = list(kinds)
        async with Client.connect(self.config) as client:
            for crd in crds_of(known):
                name = crd["metadata"]["name"]
                if self._noted.get(name) == crd:
                    continue
                self._noted[name] = crd
                if difference := await _difference(client, name, crd):
                    note(f"{name} {difference}: {self._command}")
        if any(webhooks_of(kind) for kind in known):
            note("webhooks are not served: that server cannot call this machine")

    @property
    def _command(self) -> str:
        return f"ctrlruntime generate crd --setup {self.setup} --stdout | kubectl apply -f -"


async def _difference(client: Client, name: str, crd: Manifest) -> str:
    """Return how the server's definition differs; empty if it does not, or may not be read."""
    try:
        live = await client.get(CRD, name)
    except NotFound:
        return "is not installed on the server"
    except (APIError, TransportError):
        return ""
    return "" if _covers(live["spec"], crd["spec"]) else "differs on the server"


def _covers(live: object, wanted: object) -> bool:
    """Whether all that is wanted is there; the server adds defaults."""
    if isinstance(wanted, Mapping) and isinstance(live, Mapping):
        return all(name in live and _covers(live[name], each) for name, each in wanted.items())
    if isinstance(wanted, list) and isinstance(live, list):
        return len(live) == len(wanted) and all(map(_covers, live, wanted))
    return live == wanted


def _copied(path: Path, to: Path) -> Path:
    """Copy a file that its user alone may read. Raises ProjectError where that cannot be written."""
    try:
        to.touch(mode=0o600)
        to.write_bytes(path.read_bytes())
    except OSError as error:
        raise ProjectError(f"--write-kubeconfig: {error}") from error
    return to


@contextlib.asynccontextmanager
async def embedded_server(
    note: Note, *, nodes: bool = True, kubeconfig: Path | None = None
) -> AsyncIterator[EmbeddedServer]:
    """Run an API server in a process of its own, with simulated nodes if wanted.

    `kubeconfig`: where to write that of its administrator. Raises ModuleNotFoundError without the test environment.
    """
    from ctrlruntime.envtest.environment import Environment
    from ctrlruntime.envtest.local_webhooks import LocalWebhooks

    async with Environment("embedded-process", nodes=nodes) as environment:
        path = environment.kubeconfig("admin")
        if kubeconfig is not None:
            path = _copied(path, kubeconfig)
        note(f"API server in memory: kubectl --kubeconfig {path} get namespaces")
        async with LocalWebhooks(environment) as hooks:
            yield EmbeddedServer(environment.config("manager"), environment, hooks)

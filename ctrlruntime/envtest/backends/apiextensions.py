"""apiextensions-apiserver: custom resources alone, as another build of upstream's server treats them.

It has no built-in kinds and delegates authentication and authorization to a kube-apiserver: one that runs
already, or one that is started with it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from ctrlruntime.client.config import Config
from ctrlruntime.envtest.assets import APIEXTENSIONS, Assets
from ctrlruntime.envtest.backends.backend import BackendOptions, Version
from ctrlruntime.envtest.backends.etcd import Etcd
from ctrlruntime.envtest.backends.flags import Flags, flag_list
from ctrlruntime.envtest.backends.kube_apiserver import OWN_USER, KubeApiserverBackend
from ctrlruntime.envtest.backends.ports import LOOPBACK
from ctrlruntime.envtest.backends.readiness import answers_of
from ctrlruntime.envtest.backends.server_on_port import ServerOnPort
from ctrlruntime.envtest.backends.versions import parse_version
from ctrlruntime.envtest.kubeconfig import write_kubeconfig
from ctrlruntime.envtest.process import ChildProcess
from ctrlruntime.envtest.users import Identity, User, administrator

_DEFINITIONS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions?limit=1"
_WITHOUT_CORE: Final = (
    "ValidatingAdmissionPolicy",
    "MutatingAdmissionPolicy",
    "NamespaceLifecycle",
    "MutatingAdmissionWebhook",
    "ValidatingAdmissionWebhook",
)
"""Plugins that need built-in kinds, which this server has none of."""


@dataclass(frozen=True, kw_only=True)
class ApiextensionsOptions:
    """`Environment(backend="apiextensions", server={...})`.

    `core` is a kube-apiserver that runs, and goes on running, or holds options of one that is started
    and stopped with this server. `flags` replaces our own by name.
    """

    core: Mapping[str, object] | KubeApiserverBackend = field(default_factory=dict)
    flags: Mapping[str, str | None] = field(default_factory=dict)
    disable_admission_plugins: Collection[str] = _WITHOUT_CORE
    start_timeout: float = 120.0
    stop_timeout: float = 5.0
    """Watches that are open keep a server from ending by itself; then it is killed."""


class ApiextensionsBackend:
    """apiextensions-apiserver on loopback, with the kube-apiserver that authenticates for it."""

    def __init__(self, options: BackendOptions) -> None:
        """Raise AssetsMissing."""
        self._settings = ApiextensionsOptions(**options.server)
        self._folder = options.folder
        self._programs = Assets().find(("apiextensions-apiserver", "etcd"), APIEXTENSIONS)
        core, etcd = self._settings.core, self._programs["etcd"]
        if isinstance(core, KubeApiserverBackend):
            self.core = core
            self._own_etcd: Etcd | None = Etcd(
                etcd, options.folder, timeout=self._settings.start_timeout
            )
        else:
            self.core = KubeApiserverBackend(replace(options, server={"etcd": etcd, **core}))
            self._own_etcd = None
        self._users = options.users
        self._server = ServerOnPort(
            "apiextensions-apiserver",
            self._command,
            self._answers,
            log=self._folder / "apiextensions-apiserver.log",
            timeout=self._settings.start_timeout,
            grace=self._settings.stop_timeout,
        )
        self._version = _version(self._programs["apiextensions-apiserver"].parent)

    async def start(self) -> None:
        """Raise AssetsMissing for the server beside it, or ProcessFailed with the end of a log."""
        if self._own_etcd is None:
            await self.core.start()
        else:
            self.core.add_users(self._users)
            await self._own_etcd.start()
        asking = administrator("envtest-apiextensions")
        write_kubeconfig(
            self._folder / "core.kubeconfig",
            self.core.url,
            self.core.ca_data,
            asking,
            self.core.certified(asking),
        )
        await self._server.start()

    async def stop(self) -> None:
        await self._server.stop()
        if self._own_etcd is None:
            await self.core.stop()
        else:
            await self._own_etcd.stop()
            self.core.remove_users(self._users)

    @property
    def url(self) -> str:
        return f"https://{self._server.address}"

    @property
    def ca_data(self) -> bytes | None:
        return self.core.ca_data

    @property
    def version(self) -> Version:
        return self._version

    @property
    def processes(self) -> dict[str, ChildProcess]:
        """What runs, by name."""
        process = self._server.process
        own = {} if process is None else {self._server.name: process}
        if self._own_etcd is None:
            return own | self.core.processes
        return own | ({"etcd": self._own_etcd.process} if own else {})

    @property
    def etcd(self) -> Etcd:
        """Where its objects are. Raises RuntimeError while there is none."""
        return self._own_etcd or self.core.etcd

    async def kill(self) -> None:
        """SIGKILL; `restart` brings it back on the same port and data."""
        await self._server.kill()

    async def restart(self) -> None:
        """Stop the server if it runs, and start it with the same port and data."""
        await self._server.restart()

    async def compact(self) -> int:
        """Have etcd forget all revisions but the last, and return that one."""
        return await self.etcd.compact()

    def add_users(self, users: Iterable[User]) -> None:
        """Their tokens are good from now on."""
        self.core.add_users(users)

    def remove_users(self, users: Iterable[User]) -> None:
        """Their tokens are refused once both servers' caches forget them."""
        self.core.remove_users(users)

    def identity(self, user: User) -> Identity:
        return self.core.identity(user)

    def certified(self, user: User) -> Identity:
        """`user` by a new client certificate."""
        return self.core.certified(user)

    def own_config(self) -> Config:
        """Return the backend's own way in, as an administrator.

        By client certificate: about a token this server has to ask the other.
        """
        auth = self.core.certified(administrator(OWN_USER)).auth()
        return replace(self.core.own_config(), host=self.url, auth=auth)

    def _command(self, port: int) -> Sequence[str]:
        pki = self.core.pki
        core = str(self._folder / "core.kubeconfig")
        flags: Flags = {
            "etcd-servers": self.etcd.url,
            "etcd-prefix": "/apiextensions",
            "bind-address": LOOPBACK,
            "advertise-address": LOOPBACK,
            "secure-port": str(port),
            "tls-cert-file": str(pki.serving_certificate),
            "tls-private-key-file": str(pki.serving_key),
            "client-ca-file": str(pki.ca),
            "kubeconfig": core,
            "authentication-kubeconfig": core,
            "authorization-kubeconfig": core,
            "authentication-token-webhook-cache-ttl": "1s",
            "disable-admission-plugins": ",".join(self._settings.disable_admission_plugins) or None,
            "enable-priority-and-fairness": "false",
            **self._settings.flags,
        }
        return [str(self._programs["apiextensions-apiserver"]), *flag_list(flags)]

    async def _answers(self, port: int) -> bool:
        """Whether the server with our certificate is ready and answers an administrator."""
        config = replace(self.own_config(), host=f"https://{LOOPBACK}:{port}")
        return await answers_of(config, ("/readyz", _DEFINITIONS)) is not None


def _version(folder: Path) -> Version:
    """Return the release, which the program cannot report: a note beside it, or the folder's name."""
    note = folder / "VERSION"
    text = note.read_text() if note.exists() else folder.name.replace("apiextensions-", "v")
    return parse_version(text)

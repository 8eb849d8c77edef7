"""The real thing: etcd and kube-apiserver as child processes, kube-controller-manager on request."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import aiohttp
import orjson
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from ctrlruntime.client.auth import ClientCertificate
from ctrlruntime.client.config import Config
from ctrlruntime.envtest.assets import Assets
from ctrlruntime.envtest.backends.backend import BackendOptions, Version
from ctrlruntime.envtest.backends.etcd import Etcd
from ctrlruntime.envtest.backends.flags import Flags, flag_list
from ctrlruntime.envtest.backends.launch import Check, Command
from ctrlruntime.envtest.backends.ports import LOOPBACK
from ctrlruntime.envtest.backends.readiness import answers_of
from ctrlruntime.envtest.backends.server_on_port import ServerOnPort
from ctrlruntime.envtest.backends.token_review import TokenReviews
from ctrlruntime.envtest.backends.versions import parse_version
from ctrlruntime.envtest.kubeconfig import write_kubeconfig
from ctrlruntime.envtest.process import ChildProcess
from ctrlruntime.envtest.server.certificates import Authority
from ctrlruntime.envtest.users import Identity, User, administrator, write_token_file

MASTERS: Final = "system:masters"
SERVER_NAMES: Final = (
    LOOPBACK,
    "localhost",
    "kubernetes.default.svc",
    "kubernetes.default",
    "kubernetes",
)

OWN_USER: Final = "envtest-control-plane"
"""Who the backend itself is."""
_READY: Final = ("/readyz", "/api/v1/namespaces/default")
_RELEASE: Final = "/version"
_CONTROLLERS_KUBECONFIG: Final = "controller-manager.kubeconfig"
_CONTROLLERS: Final = (
    "clusterrole-aggregation",
    "garbagecollector",
    "namespace",
    "serviceaccount",
    "root-ca-cert-publisher",
)
"""What owner references and a namespace's life need; workloads are left to simulated nodes."""
_HEALTH_TIMEOUT: Final = aiohttp.ClientTimeout(total=5)


@dataclass(frozen=True, kw_only=True)
class KubeApiserverOptions:
    """`Environment(backend="kube-apiserver", server={...})`.

    `version` names a release (`v1.32.0`); without, the newest that is there is taken. With
    `controller_manager` (True, or the names of the controllers) kube-controller-manager runs
    beside it. `apiserver_flags`, `etcd_flags` and `controller_manager_flags` replace flags by name
    without dashes; None removes a default one.
    """

    version: str | None = None
    controller_manager: bool | Collection[str] = False
    enable_admission_plugins: Collection[str] = ()
    disable_admission_plugins: Collection[str] = ("ServiceAccount",)
    apiserver_flags: Mapping[str, str | None] = field(default_factory=dict)
    etcd_flags: Mapping[str, str | None] = field(default_factory=dict)
    controller_manager_flags: Mapping[str, str | None] = field(default_factory=dict)
    token_cache_seconds: float = 1.0
    """How long the server goes on accepting a token that was taken away."""
    etcd: Path | None = None
    """Another etcd than the one that comes with the release."""
    port: int | None = None
    etcd_port: int | None = None
    """Ports to try first. Without, and where they are taken, free ones are found."""
    start_timeout: float = 120.0
    stop_timeout: float = 5.0
    """Watches that are open keep a server from ending by itself; then it is killed."""


class KubeApiserverBackend:
    """A control plane on loopback; its processes are tied to no event loop."""

    def __init__(self, options: BackendOptions) -> None:
        self._options = options
        self._settings = KubeApiserverOptions(**options.server)
        self._programs: dict[str, Path] = {}
        self._folder = options.folder
        self.pki = PKI(options.folder / "pki")
        self._own = administrator(OWN_USER)
        self.reviews = TokenReviews()
        self._etcd: Etcd | None = None
        self._apiserver = self._server(
            "kube-apiserver", self._apiserver_command, self._answers, self._settings.port
        )
        self._controller_manager = self._server(
            "kube-controller-manager",
            self._controller_manager_command,
            lambda port: _is_controller_manager_healthy(port, self.pki),
        )
        self._version: Version = (0, 0)

    # The Backend protocol

    async def start(self) -> None:
        """Raise AssetsMissing, or ProcessFailed with the end of a log."""
        settings = self._settings
        self._programs = await asyncio.to_thread(self._find_programs)
        self.reviews.start()
        self._etcd = Etcd(
            self._programs["etcd"],
            self._folder,
            flags=settings.etcd_flags,
            timeout=settings.start_timeout,
            first_port=settings.etcd_port,
        )
        await self._etcd.start()
        write_token_file(self._folder / "tokens.csv", (*self._options.users, self._own))
        self.reviews.write_kubeconfig(self._folder / "token-reviews.kubeconfig")
        await self._apiserver.start()
        if settings.controller_manager:
            self._write_kubeconfig_of_controllers()
            await self._controller_manager.start()

    async def stop(self) -> None:
        for server in (self._controller_manager, self._apiserver):
            await server.stop()
        if self._etcd is not None:
            await self._etcd.stop()
            self._etcd = None
        self.reviews.stop()

    @property
    def url(self) -> str:
        return f"https://{self._apiserver.address}"

    @property
    def ca_data(self) -> bytes | None:
        return self.pki.ca_data

    @property
    def version(self) -> Version:
        return self._version

    # Faults

    async def kill(self) -> None:
        """SIGKILL for kube-apiserver; `restart` brings it back on the same port and data."""
        await self._apiserver.kill()

    async def restart(self) -> None:
        """Stop kube-apiserver if it runs, and start it with the same port and data."""
        await self._apiserver.restart()

    async def compact(self) -> int:
        """Have etcd forget all revisions but the last, and return that one."""
        return await self.etcd.compact()

    async def save(self, folder: Path) -> None:
        """Write what the cluster holds into a new folder, for `restore`; its servers are down meanwhile."""
        await self._apiserver.kill()
        await self.etcd.save(folder)
        await self._apiserver.restart()

    async def restore(self, folder: Path) -> None:
        """Bring the state back that `save` wrote, as from a backup of etcd: versions go back, UIDs stay."""
        await self._apiserver.kill()
        await self.etcd.restore(folder)
        await self._apiserver.restart()

    @property
    def etcd(self) -> Etcd:
        """Raises RuntimeError while there is none."""
        if self._etcd is None:
            raise RuntimeError("the API server is not running: call start() first")
        return self._etcd

    @property
    def processes(self) -> dict[str, ChildProcess]:
        """What runs, by name."""
        etcd = {} if self._etcd is None else {"etcd": self._etcd.process}
        servers = (self._apiserver, self._controller_manager)
        return {s.name: s.process for s in servers if s.process is not None} | etcd

    # Users

    def add_users(self, users: Iterable[User]) -> None:
        """Their tokens are good from now on."""
        self.reviews.add(users)

    def remove_users(self, users: Iterable[User]) -> None:
        """Remove the users: the tokens of users that were added are refused within `token_cache_seconds`."""
        self.reviews.remove(users)

    def identity(self, user: User) -> Identity:
        return Identity(token=user.token)

    def certified(self, user: User) -> Identity:
        """`user` by a new client certificate; no token is needed, so anybody can be made up."""
        return Identity(certificate=ClientCertificate(*self.pki.client(user.name, user.groups)))

    def own_config(self) -> Config:
        """Return the backend's own way in, as an administrator.

        By token: a client certificate's signature is verified anew for every request.
        """
        return Config(
            host=self.url,
            ca_data=self.ca_data,
            auth=self.identity(self._own).auth(),
            user_agent=OWN_USER,
        )

    # Commands

    def _find_programs(self) -> dict[str, Path]:
        settings = self._settings
        names = ["kube-apiserver"]
        names += [] if settings.etcd else ["etcd"]
        names += ["kube-controller-manager"] if settings.controller_manager else []
        found = Assets().find(names, settings.version)
        return found | ({"etcd": settings.etcd} if settings.etcd else {})

    def _apiserver_command(self, port: int) -> Sequence[str]:
        pki, folder = self.pki, self._folder
        cache = f"{self._settings.token_cache_seconds}s"
        flags: Flags = {
            "etcd-servers": self.etcd.url,
            "bind-address": LOOPBACK,
            "advertise-address": LOOPBACK,
            "secure-port": str(port),
            "cert-dir": str(folder / "pki"),
            "tls-cert-file": str(pki.serving_certificate),
            "tls-private-key-file": str(pki.serving_key),
            "client-ca-file": str(pki.ca),
            "token-auth-file": str(folder / "tokens.csv"),
            "authentication-token-webhook-config-file": str(folder / "token-reviews.kubeconfig"),
            "authentication-token-webhook-version": "v1",
            "authentication-token-webhook-cache-ttl": cache,
            "authorization-mode": self._options.authorization or "RBAC",
            "service-account-issuer": "https://kubernetes.default.svc",
            "service-account-key-file": str(pki.service_account_key),
            "service-account-signing-key-file": str(pki.service_account_key),
            "service-cluster-ip-range": "10.0.0.0/16",
            "allow-privileged": "true",
            "enable-admission-plugins": _names(self._settings.enable_admission_plugins),
            "disable-admission-plugins": _names(self._settings.disable_admission_plugins),
            **self._settings.apiserver_flags,
        }
        return [str(self._programs["kube-apiserver"]), *flag_list(flags)]

    def _write_kubeconfig_of_controllers(self) -> None:
        user = administrator("system:kube-controller-manager")
        path = self._folder / _CONTROLLERS_KUBECONFIG
        write_kubeconfig(path, self.url, self.ca_data, user, self.certified(user))

    def _controller_manager_command(self, port: int) -> Sequence[str]:
        wanted = self._settings.controller_manager
        flags = controller_manager_flags(
            port=port,
            kubeconfig=self._folder / _CONTROLLERS_KUBECONFIG,
            pki=self.pki,
            controllers=_CONTROLLERS if wanted is True else tuple(wanted or ()),
        )
        flags |= self._settings.controller_manager_flags
        return [str(self._programs["kube-controller-manager"]), *flag_list(flags)]

    # Readiness

    def _server(
        self, name: str, command: Command, check: Check, first_port: int | None = None
    ) -> ServerOnPort:
        return ServerOnPort(
            name,
            command,
            check,
            log=self._folder / f"{name}.log",
            timeout=self._settings.start_timeout,
            grace=self._settings.stop_timeout,
            first_port=first_port,
        )

    async def _answers(self, port: int) -> bool:
        """Whether the server with our certificate is ready and has made the default namespace."""
        config = replace(self.own_config(), host=f"https://{LOOPBACK}:{port}")
        found = await answers_of(config, (*_READY, _RELEASE))
        if found is None:
            return False
        self._version = parse_version(orjson.loads(found[_RELEASE])["gitVersion"])
        return True


def _names(given: Collection[str]) -> str | None:
    return ",".join(given) or None


def controller_manager_flags(
    *, port: int, kubeconfig: Path, pki: PKI, controllers: Collection[str]
) -> Flags:
    """Return its flags. It signs certificates and tokens with the keys of `pki`."""
    return {
        "kubeconfig": str(kubeconfig),
        "authentication-kubeconfig": str(kubeconfig),
        "authorization-kubeconfig": str(kubeconfig),
        "controllers": ",".join(controllers),
        "leader-elect": "false",
        "bind-address": LOOPBACK,
        "secure-port": str(port),
        "tls-cert-file": str(pki.serving_certificate),
        "tls-private-key-file": str(pki.serving_key),
        "service-account-private-key-file": str(pki.service_account_key),
        "root-ca-file": str(pki.trusted),
        "cluster-signing-cert-file": str(pki.ca),
        "cluster-signing-key-file": str(pki.ca_key),
    }


async def _is_controller_manager_healthy(port: int, pki: PKI) -> bool:
    """Whether the one with our certificate answers."""
    context = ssl.create_default_context(cadata=pki.ca_data.decode())
    connector = aiohttp.TCPConnector(ssl=context)
    async with aiohttp.ClientSession(connector=connector, timeout=_HEALTH_TIMEOUT) as session:
        try:
            async with session.get(f"https://{LOOPBACK}:{port}/healthz") as answer:
                return answer.status == 200
        except (aiohttp.ClientError, TimeoutError):
            return False


class PKI:
    """One authority for servers and clients, and the key of service account tokens.

    Servers that run read `folder`; a new serving certificate is picked up when they start again.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.authority = Authority("envtest control plane")
        self.serving_authority = self.authority
        self.ca = folder / "ca.crt"
        self.trusted = folder / "trusted.crt"
        self.ca_key = folder / "ca.key"
        self.serving_certificate = folder / "serving.crt"
        self.serving_key = folder / "serving.key"
        self.service_account_key = folder / "service-account.key"
        self.ca.write_bytes(self.authority.ca_data)
        _private(self.ca_key, self.authority.key_data)
        _private(self.service_account_key, _service_account_key())
        self.issue_serving()

    @property
    def ca_data(self) -> bytes:
        """What clients trust (PEM)."""
        return self.serving_authority.ca_data

    def issue_serving(self, *, new_authority: bool = False) -> None:
        """Make a new serving certificate, signed by a new authority if wanted."""
        if new_authority:
            self.serving_authority = Authority("envtest serving")
        self.trusted.write_bytes(self.ca_data)
        certificate, key = self.serving_authority.issue(SERVER_NAMES)
        self.serving_certificate.write_bytes(certificate)
        _private(self.serving_key, key)

    def client(self, name: str, groups: Sequence[str] = (MASTERS,)) -> tuple[bytes, bytes]:
        """Return a client certificate and its key (PEM)."""
        return self.authority.issue_client(name, groups)


def _service_account_key() -> bytes:
    """In the older form: as a file of public keys, kube-apiserver reads no other private one."""
    return ec.generate_private_key(ec.SECP256R1()).private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )


def _private(path: Path, data: bytes) -> None:
    path.touch(mode=0o600)
    path.write_bytes(data)

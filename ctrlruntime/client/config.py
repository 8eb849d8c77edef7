"""How to reach an API server and as whom."""

import ipaddress
import os
import ssl
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from ctrlruntime.client.auth import (
    Authenticator,
    AuthError,
    ClientCertificate,
    FileAuth,
    StaticAuth,
)
from ctrlruntime.client.certificates import CAFile, trust
from ctrlruntime.client.kubeconfig import ConfigError, Kubeconfig, check_proxy
from ctrlruntime.outbound_addresses import is_loopback

__all__ = ["AuthError", "Config", "ConfigError"]

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
USER_AGENT = "ctrlruntime"
_PLAIN: Final = (
    "the server of its kubeconfig is reached by http, so that credentials and objects can be read and changed on the "
    "way: write https:// there"
)
_UNVERIFIED: Final = (
    "its kubeconfig has insecure-skip-tls-verify, so that another server can take its place and read the credentials: "
    "remove it, and put the authority into certificate-authority-data"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """One API server and one identity. Immutable; credentials renew themselves inside ``auth``."""

    host: str
    """Base URL, for example ``https://10.0.0.1:6443``."""
    ca_data: bytes | None = None
    """PEM; None trusts the system's authorities."""
    ca_file: CAFile | None = None
    """Comes before ``ca_data``, and is read again when it is replaced."""
    verify: bool = True
    auth: Authenticator = field(default_factory=StaticAuth, repr=False)
    user_agent: str = USER_AGENT
    namespace: str = "default"
    """The namespace of the context, or of the service account."""
    tls_server_name: str | None = None
    proxy_url: str | None = None
    extra_headers: Mapping[str, str | Sequence[str]] = field(default_factory=dict)
    """Sent with every request, one with several values as several; impersonation comes this way."""
    foreign: bool = False
    """Whether the server was named by what came over the network: its answers are limited more tightly, and it is
    none of this machine, of a link or of a cloud's metadata."""

    @classmethod
    async def load(
        cls,
        kubeconfig: str | Path | None = None,
        context: str | None = None,
        *,
        environment: Mapping[str, str] | None = None,
        home: Path | None = None,
        service_account: Path = SERVICE_ACCOUNT,
    ) -> "Config":
        """Return the first of: ``kubeconfig``, ``$KUBECONFIG``, in-cluster, ``~/.kube/config``.

        ``context`` selects a context of a kubeconfig; the in-cluster configuration is skipped when
        it is given. A proxy is that of the kubeconfig, or else of ``$HTTPS_PROXY`` and its siblings.
        Raises ConfigError saying what was tried, or what is wrong in the file.
        """
        env = os.environ if environment is None else environment
        found = cls._found(kubeconfig, context, env, home, service_account)
        proxy = None if found.proxy_url else proxy_of_environment(found.host, env)
        if proxy is None:
            return found
        check_proxy(proxy[1], f"${proxy[0]}")
        return replace(found, proxy_url=proxy[1])

    @classmethod
    def _found(
        cls,
        kubeconfig: str | Path | None,
        context: str | None,
        env: Mapping[str, str],
        home: Path | None,
        service_account: Path,
    ) -> "Config":
        if kubeconfig is not None:
            return cls.of_kubeconfig(Kubeconfig.read([Path(kubeconfig)]), context)
        if listed := env.get("KUBECONFIG"):
            paths = [Path(part) for part in listed.split(os.pathsep) if part]
            present = [path for path in paths if path.exists()]
            if not present:
                raise ConfigError(f"$KUBECONFIG names no file that exists: {listed}")
            return cls.of_kubeconfig(Kubeconfig.read(present), context)
        host = env.get("KUBERNETES_SERVICE_HOST")
        if context is None and host and (service_account / "token").exists():
            return cls.in_cluster(
                host, env.get("KUBERNETES_SERVICE_PORT") or "443", service_account
            )
        default = (home or Path.home()) / ".kube" / "config"
        if default.exists():
            return cls.of_kubeconfig(Kubeconfig.read([default]), context)
        raise ConfigError(
            "no API server configuration: no kubeconfig was given, $KUBECONFIG is not set, this is "
            f"not a pod (no KUBERNETES_SERVICE_HOST or no token in {service_account}), and {default} "
            "does not exist. Pass --kubeconfig or set KUBECONFIG"
        )

    @classmethod
    def in_cluster(cls, host: str, port: str, service_account: Path = SERVICE_ACCOUNT) -> "Config":
        """As the pod's service account; its token file is read again every minute."""
        authority = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        ca = service_account / "ca.crt"
        namespace = service_account / "namespace"
        return cls(
            host=f"https://{authority}",
            ca_data=ca.read_bytes() if ca.exists() else None,
            ca_file=CAFile(ca) if ca.exists() else None,
            auth=FileAuth(service_account / "token"),
            namespace=namespace.read_text().strip() if namespace.exists() else "default",
        )

    @classmethod
    def of_kubeconfig(cls, kubeconfig: Kubeconfig, context: str | None = None) -> "Config":
        """Raise ConfigError naming the file and entry that is wrong."""
        chosen = kubeconfig.context(context)
        return cls(
            host=chosen.server,
            ca_data=chosen.ca_data,
            ca_file=chosen.ca_file,
            verify=chosen.verify,
            auth=chosen.auth,
            namespace=chosen.namespace,
            tls_server_name=chosen.tls_server_name,
            proxy_url=chosen.proxy_url,
            extra_headers=chosen.headers,
            foreign=kubeconfig.foreign,
        )

    @property
    def generation(self) -> tuple[int, int]:
        """Changes with the certificates: connections made before are no longer right."""
        return self.auth.generation, self.ca_file.generation if self.ca_file is not None else 0

    @property
    def insecurity(self) -> str:
        """What others on the way could read or change, with the remedy; empty: nothing.

        Plain HTTP to this machine goes over no network.
        """
        if not self._encrypted:
            return "" if _is_this_machine(self.host) else _PLAIN
        return "" if self.verify else _UNVERIFIED

    @property
    def _encrypted(self) -> bool:
        return self.host.lower().startswith("https:")

    def ssl_context(self) -> ssl.SSLContext | None:
        """For one connector; None for plain HTTP."""
        if not self._encrypted:
            return None
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        if not self.verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        elif self.ca_file is not None:
            trust(context, self.ca_file.current)
        elif self.ca_data is not None:
            trust(context, self.ca_data)
        else:
            context.load_default_certs()
        certificate = self.auth.certificate
        if certificate is not None:
            _load_certificate(context, certificate)
        return context


def _is_this_machine(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    return host == "localhost" or is_loopback(host)


def _load_certificate(context: ssl.SSLContext, certificate: ClientCertificate) -> None:
    """OpenSSL takes files only; this one is gone again before the call returns."""
    with tempfile.NamedTemporaryFile(prefix="ctrlruntime-", suffix=".pem") as file:
        file.write(certificate.certificate + b"\n" + certificate.key)
        file.flush()
        try:
            context.load_cert_chain(file.name)
        except ssl.SSLError as error:
            raise ConfigError(f"the client certificate and its key do not fit: {error}") from error


def proxy_of_environment(server: str, environment: Mapping[str, str]) -> tuple[str, str] | None:
    """Return the variable that names a proxy for the URL ``server``, and the proxy's URL; None: it is reached directly.

    ``HTTPS_PROXY`` and ``HTTP_PROXY`` count by the scheme of the server, ``NO_PROXY`` lists hosts, domains, addresses,
    networks and ``*``, each with a port if wanted; the names in lower case count too. This machine has no proxy.
    """
    parts = urlsplit(server)
    host = (parts.hostname or "").rstrip(".")
    if not host or host == "localhost" or is_loopback(host):
        return None
    variable, proxy = _variable(f"{parts.scheme}_proxy", environment)
    if not proxy:
        return None
    port = str(parts.port or (443 if parts.scheme == "https" else 80))
    _, excepted = _variable("no_proxy", environment)
    if any(_covers(each.strip().lower(), host, port) for each in excepted.split(",")):
        return None
    return variable, proxy if "://" in proxy else f"http://{proxy}"


def _variable(name: str, environment: Mapping[str, str]) -> tuple[str, str]:
    found = next((each for each in (name.upper(), name) if environment.get(each)), name.upper())
    return found, environment.get(found, "").strip()


def _covers(pattern: str, host: str, port: str) -> bool:
    """Whether an item of the list is about this host."""
    if pattern == "*":
        return True
    address, network = _address(host), _network(pattern)
    if network is not None:
        return address is not None and address in network
    name, _, wanted = pattern.rpartition(":") if pattern.count(":") == 1 else (pattern, "", "")
    name = name.removeprefix("*")
    if not name or (wanted and wanted != port):
        return False
    if address is not None:
        return address == _address(name)
    # "example.com" covers its subdomains too, ".example.com" only these
    return (
        host.endswith(name) if name.startswith(".") else host == name or host.endswith(f".{name}")
    )


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text.strip("[]"))
    except ValueError:
        return None


def _network(text: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
    try:
        return ipaddress.ip_network(text, strict=False) if "/" in text else None
    except ValueError:
        return None

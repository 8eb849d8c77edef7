"""Reading kubeconfig files: merging, contexts, and which credentials a user has."""

import base64
import binascii
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlsplit

from ctrlruntime.client.auth import (
    Authenticator,
    AuthError,
    CallbackAuth,
    ClientCertificate,
    ExecAuth,
    ExecPlugin,
    FileAuth,
    StaticAuth,
)
from ctrlruntime.client.certificates import CAFile, CertificateFiles
from ctrlruntime.client.dial import Endpoint
from ctrlruntime.intake import IntakeError, Limits, read_file, read_yaml
from ctrlruntime.json import Json

LIMITS: Final = Limits(bytes=2**20, depth=32, items=10_000)
"""Of one kubeconfig: as much as a Secret holds."""

_OUTSIDE: Mapping[str, Sequence[str]] = {
    "cluster": ("certificate-authority",),
    "user": ("client-certificate", "client-key", "tokenFile", "exec", "auth-provider"),
}
"""Fields by which a kubeconfig reads files or runs programs of the machine that uses it."""

_SECTIONS: Final = ("cluster", "user", "context")
_TEXTS: Final = frozenset(
    {
        *(
            "server",
            "tls-server-name",
            "proxy-url",
            "certificate-authority-data",
            "namespace",
            "cluster",
        ),
        *(
            "user",
            "token",
            "username",
            "password",
            "client-certificate-data",
            "client-key-data",
            "as",
        ),
    }
)
"""Fields of entries that are texts."""
_LINES: Final = ("server", "tls-server-name", "proxy-url", "token", "as")
"""Those of them that stand in a request or a TLS handshake: what they cannot hold is found here, not by each request.

A line's end after them, as block texts of YAML leave, is no part of them.
"""
_IN_NAMES: Final = "!#$&'*+.^`|~"
"""Characters beside letters, digits, ``-`` and ``_`` that the name of a header field may have."""
_LONGEST_NAME: Final = 100
_MOST_NAMED: Final = 10
_FLAG: Final = "insecure-skip-tls-verify"
_HOST: Final = re.compile(r"[A-Za-z0-9._:\[\]-]+(/.*)?")
"""A server without a scheme: host, port and path."""
_CONTRADICTING: Final = (("token", "username"), ("token", "password"), ("exec", "auth-provider"))
"""Credentials of which kubectl takes one."""
_AUTHORITIES: Final = ("certificate-authority-data", "certificate-authority")


class ConfigError(Exception):
    """The configuration is missing or wrong; the message names the place and the remedy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """A context with everything it refers to."""

    server: str
    ca_data: bytes | None
    ca_file: CAFile | None
    verify: bool
    auth: Authenticator
    namespace: str
    tls_server_name: str | None
    proxy_url: str | None
    headers: Mapping[str, str | Sequence[str]]


@dataclass(frozen=True, slots=True)
class _Named:
    """One named entry and the directory its relative paths start from."""

    body: Mapping[str, Any]
    directory: Path
    where: str


class Kubeconfig:
    """One or more files, merged as kubectl does: the first file that names a thing wins."""

    def __init__(self) -> None:
        self._sections: dict[str, dict[str, _Named]] = {"cluster": {}, "user": {}, "context": {}}
        self._current = ""
        self._paths: list[Path] = []
        self.foreign = False
        """Whether it came over the network."""

    @classmethod
    def read(cls, paths: Sequence[Path]) -> "Kubeconfig":
        config = cls()
        for path in paths:
            try:
                content = read_file(path, LIMITS, f"the kubeconfig {path}")
            except OSError as error:
                raise ConfigError(f"cannot read the kubeconfig {path}: {error.strerror}") from error
            except IntakeError as error:
                raise ConfigError(str(error)) from error
            if content.strip() or len(paths) == 1:
                config._merge(_mapping(content, f"the kubeconfig {path}"), path)
        return config

    @classmethod
    def parse(cls, content: bytes, where: str) -> "Kubeconfig":
        """Read one that came over the network, from ``where``: it has to be complete in itself.

        Raises ConfigError, which shows none of the content, and for files, exec plugins and auth providers.
        """
        document = _mapping(content, f"the kubeconfig of {where}")
        for section, fields in _OUTSIDE.items():
            for item in document.get(f"{section}s") or ():
                body = item.get(section) if isinstance(item, dict) else None
                found = next((field for field in fields if (body or {}).get(field)), None)
                if found is not None:
                    raise ConfigError(
                        f"the kubeconfig of {where} uses {found}, which is refused: put token, certificate "
                        "and key themselves into it (kubectl config view --raw --flatten)"
                    )
        config = cls()
        config.foreign = True
        config._merge(document, Path(where))
        return config

    def _merge(self, document: Mapping[str, Any], path: Path) -> None:
        self._paths.append(path)
        for section, known in self._sections.items():
            for item in document.get(f"{section}s") or ():
                if not isinstance(item, dict) or not isinstance(item.get("name"), str):
                    raise ConfigError(f"{path}: an entry under {section}s has no name")
                where = f"{section} {_cut(item['name'])!r} in {path}"
                known.setdefault(item["name"], _Named(item.get(section) or {}, path.parent, where))
        self._current = self._current or document.get("current-context") or ""

    def context(self, name: str | None = None) -> Context:
        """Return the named context, or the current one. Raises ConfigError for what cannot be used."""
        name = name or self._current
        if not name:
            known = _listed(self._sections["context"])
            raise ConfigError(
                f"{self._where()}: no current-context is set; name one of its contexts: {known}"
            )
        context = self._find("context", name)
        cluster = self._find("cluster", context.body.get("cluster") or "")
        user_name = context.body.get("user", "")
        user = self._find("user", user_name) if user_name else _Named({}, Path(), "no user")
        proxy_url = cluster.body.get("proxy-url")
        if proxy_url:
            check_proxy(proxy_url, f"proxy-url of {cluster.where}")
        return Context(
            server=_server(cluster, foreign=self.foreign),
            ca_data=_data_or_file(cluster, "certificate-authority"),
            ca_file=_ca_file(cluster),
            verify=not cluster.body.get(_FLAG, False),
            auth=_authenticator(user, cluster),
            namespace=context.body.get("namespace") or "default",
            tls_server_name=cluster.body.get("tls-server-name"),
            proxy_url=proxy_url,
            headers=_impersonation(user),
        )

    def _find(self, section: str, name: str) -> _Named:
        found = self._sections[section].get(name)
        if found is None:
            known = _listed(self._sections[section])
            raise ConfigError(f"{self._where()}: no {section} {_cut(name)!r}; there are: {known}")
        lines = {key: (found.body.get(key) or "").rstrip("\r\n") for key in _LINES}
        if wrong := next((key for key, line in lines.items() if not _is_line(line)), ""):
            raise ConfigError(f"{found.where}: {wrong} is not one line of printed text")
        return replace(
            found, body={**found.body, **{k: v for k, v in lines.items() if found.body.get(k)}}
        )

    def _where(self) -> str:
        return ", ".join(str(path) for path in self._paths)


def _cut(name: str, longest: int = _LONGEST_NAME) -> str:
    """Return a name for a message, which a file from outside may have made long."""
    return name if len(name) <= longest else f"{name[:longest]}…"


def _listed(names: Iterable[str]) -> str:
    """Return the first names for a message, without what does not print."""
    first = [_cut(name) for name in islice(names, _MOST_NAMED)]
    return ", ".join(name if name.isprintable() else repr(name) for name in first) or "none"


def _mapping(content: bytes, what: str) -> dict[str, Json]:
    """Raise ConfigError, which shows none of the content."""
    try:
        document = read_yaml(content, LIMITS, what)
    except IntakeError as error:
        raise ConfigError(str(error)) from None
    if not isinstance(document, dict):
        raise ConfigError(f"{what} is empty or not a mapping")
    _check_types(document, what)
    return document


def _check_types(document: Mapping[str, Any], what: str) -> None:
    """Raise ConfigError for a field of another type than kubectl reads."""
    if not isinstance(document.get("current-context") or "", str):
        raise ConfigError(f"{what}: current-context is not a text")
    for section in _SECTIONS:
        items = document.get(f"{section}s") or []
        if not isinstance(items, list):
            raise ConfigError(f"{what}: {section}s is not a list")
        for item in items:
            body = (item.get(section) if isinstance(item, dict) else None) or {}
            if not isinstance(body, dict):
                raise ConfigError(f"{what}: an entry under {section}s has no mapping {section!r}")
            wrong = [k for k, v in body.items() if k in _TEXTS and not isinstance(v or "", str)]
            if wrong:
                raise ConfigError(f"{what}: {wrong[0]} of a {section} is not a text")
            if not isinstance(body.get(_FLAG) or False, bool):
                raise ConfigError(f"{what}: {_FLAG} of a {section} is neither true nor false")


def check_proxy(url: str, where: str) -> None:
    """Raise ConfigError for a proxy that cannot be used: found at once, and not by each request."""
    try:
        _check_host(Endpoint.parse(url).host, where)
    except ValueError as error:
        raise ConfigError(
            f"{where}: {_cut(str(error), 500)}; proxies that speak SOCKS are not supported, use one that speaks HTTP"
        ) from None


def _server(cluster: _Named, *, foreign: bool) -> str:
    """Return the URL of the server; without a scheme it is https where the entry speaks of TLS, as for kubectl.

    One that came over the network has to have its scheme: credentials are never sent by plain http for a lack of it.
    """
    server, body = str(cluster.body.get("server") or ""), cluster.body
    if not server:
        raise ConfigError(f"{cluster.where} has no server")
    authorities = [name for name in _AUTHORITIES if body.get(name)]
    if body.get(_FLAG) and authorities:
        raise ConfigError(
            f"{cluster.where} has {authorities[0]} and {_FLAG}, which contradict each other: remove one"
        )
    if not foreign and "://" not in server and _HOST.fullmatch(server):
        server = f"{'https' if authorities or body.get(_FLAG) else 'http'}://{server}"
    try:
        host, path = Endpoint.parse(server).host, urlsplit(server).path
    except ValueError as error:
        raise ConfigError(
            f"the server of {cluster.where} is no URL: {_cut(str(error), 500)}"
        ) from None
    if " " in path or not path.isascii():
        raise ConfigError(f"the server of {cluster.where} is no URL: its path is not escaped")
    for name in (host, str(body.get("tls-server-name") or "")):
        _check_host(name, cluster.where)
    return server


def _authenticator(user: _Named, cluster: _Named) -> Authenticator:
    body = user.body
    certificate = _client_certificate(user)
    for names in _CONTRADICTING:
        if all(body.get(name) for name in names):
            raise ConfigError(f"{user.where} has {' and '.join(names)}, of which one is allowed")
    if body.get("exec"):
        try:
            plugin = ExecPlugin.parse(body["exec"], _cluster_info(cluster), user.directory)
        except AuthError as error:
            raise ConfigError(f"{user.where}: {error}") from error
        return ExecAuth(plugin)
    if body.get("tokenFile"):
        return FileAuth(user.directory / body["tokenFile"], certificate=certificate)
    if body.get("token"):
        return StaticAuth(token=body["token"], certificate=certificate)
    if body.get("auth-provider"):
        return _auth_provider(user, certificate)
    if body.get("username"):
        basic = (body["username"], body.get("password", ""))
        return StaticAuth(basic=basic, certificate=certificate)
    return StaticAuth(certificate=certificate)


def _auth_provider(
    user: _Named, certificate: ClientCertificate | CertificateFiles | None
) -> Authenticator:
    provider = user.body["auth-provider"]
    if not isinstance(provider, dict):
        raise ConfigError(f"{user.where}: auth-provider is not a mapping")
    name = provider.get("name")
    if name != "oidc":
        raise ConfigError(
            f"{user.where}: auth-provider {name!r} was removed from Kubernetes in 1.26; "
            "use the provider's exec plugin"
        )
    if not isinstance(provider.get("config"), dict):
        raise ConfigError(f"{user.where}: auth-provider 'oidc' has no config")
    if find_spec("kubernetes_asyncio") is None:
        raise ConfigError(
            f"{user.where}: auth-provider 'oidc' needs pip install 'ctrlruntime[oidc]', or use an exec plugin"
        )

    async def token() -> str:
        # Its import costs 70 MiB and half a second, so only those pay who use it.
        from kubernetes_asyncio.client import Configuration
        from kubernetes_asyncio.config import load_kube_config_from_dict

        configuration = Configuration()
        try:
            await load_kube_config_from_dict(document, client_configuration=configuration)
        except Exception as error:  # what it raises has no class in common
            raise AuthError(f"{user.where}: auth-provider 'oidc': {error!r}") from error
        return str(configuration.api_key.get("BearerToken", "")).removeprefix("Bearer ")

    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "only", "cluster": {"server": "https://unused.invalid"}}],
        "users": [{"name": "only", "user": dict(user.body)}],
        "contexts": [{"name": "only", "context": {"cluster": "only", "user": "only"}}],
        "current-context": "only",
    }
    return CallbackAuth(token, certificate=certificate)


def _client_certificate(user: _Named) -> ClientCertificate | CertificateFiles | None:
    certificate = _data_or_file(user, "client-certificate")
    if certificate is None:
        return None
    key = _data_or_file(user, "client-key")
    if key is None:
        raise ConfigError(f"{user.where} has a client certificate but no client-key")
    certificate_file, key_file = (_file(user, f"client-{name}") for name in ("certificate", "key"))
    if certificate_file is not None and key_file is not None:
        return CertificateFiles(certificate_file, key_file)
    return ClientCertificate(certificate, key)


def _ca_file(cluster: _Named) -> CAFile | None:
    path = _file(cluster, "certificate-authority")
    return None if path is None else CAFile(path)


def _file(entry: _Named, name: str) -> Path | None:
    """Return the path of what is given as a file and not as data."""
    if entry.body.get(f"{name}-data") or not entry.body.get(name):
        return None
    return Path(entry.directory, entry.body[name])


def _data_or_file(entry: _Named, name: str) -> bytes | None:
    """``<name>-data`` in base64, or else the file ``<name>``, relative to the kubeconfig."""
    if data := entry.body.get(f"{name}-data"):
        try:
            return base64.b64decode(data, validate=True)
        except (binascii.Error, ValueError) as error:
            raise ConfigError(f"{entry.where}: {name}-data is not base64") from error
    if path := entry.body.get(name):
        try:
            return Path(entry.directory, path).read_bytes()
        except OSError as error:
            raise ConfigError(f"{entry.where}: cannot read {name}: {error}") from error
    return None


def _cluster_info(cluster: _Named) -> dict[str, Any]:
    info = {"server": cluster.body.get("server")}
    ca = _data_or_file(cluster, "certificate-authority")
    if ca is not None:
        info["certificate-authority-data"] = base64.b64encode(ca).decode()
    for name in ("tls-server-name", _FLAG, "proxy-url"):
        if name in cluster.body:
            info[name] = cluster.body[name]
    for extension in cluster.body.get("extensions") or ():
        if extension.get("name") == "client.authentication.k8s.io/exec":
            info["config"] = extension.get("extension")
    return info


def _impersonation(entry: _Named) -> dict[str, str | Sequence[str]]:
    """Return the headers that ``as`` and its siblings stand for. Raises ConfigError: none of them is ever left out."""
    user = entry.body
    groups, extra = user.get("as-groups") or [], user.get("as-user-extra") or {}
    if not _is_texts(groups):
        raise ConfigError(f"{entry.where}: as-groups is not a list of texts")
    if not isinstance(extra, dict) or not all(map(_is_texts, extra.values())):
        raise ConfigError(f"{entry.where}: as-user-extra is not a mapping to lists of texts")
    headers: dict[str, str | Sequence[str]] = {}
    if user.get("as-uid"):
        headers["Impersonate-Uid"] = str(user["as-uid"])
    if groups:
        headers["Impersonate-Group"] = groups[0] if len(groups) == 1 else tuple(groups)
    for name, values in extra.items():
        # What is no token of HTTP is escaped, "%" too, as client-go does; the server reads names in lower case.
        headers[f"Impersonate-Extra-{quote(str(name), safe=_IN_NAMES)}"] = tuple(values)
    if user.get("as"):
        return {"Impersonate-User": str(user["as"]), **headers}
    if headers:
        raise ConfigError(
            f"{entry.where} impersonates by {_listed(headers)} and names no user: set as"
        )
    return headers


def _is_texts(value: object) -> bool:
    return isinstance(value, list) and all(
        isinstance(each, str) and _is_line(each) for each in value
    )


def _is_line(text: str) -> bool:
    return not any(ord(character) < 32 or character == "\x7f" for character in text)


def _check_host(name: str, where: str) -> None:
    """Raise ConfigError for a name that no handshake and no look-up takes."""
    try:
        name.encode("idna")
    except UnicodeError:
        raise ConfigError(f"{where} has a host name that is none") from None

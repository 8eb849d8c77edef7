"""Credentials that go with each request, and how they are renewed."""

import asyncio
import base64
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

import orjson

from ctrlruntime.api.scalars import time_or_none
from ctrlruntime.client.certificates import CertificateFiles
from ctrlruntime.client.certificates import ClientCertificate as ClientCertificate
from ctrlruntime.clock import monotonic, utc_now
from ctrlruntime.processes import end_process

REREAD_SECONDS = 60.0
"""How long a token read from a file is used before the file is read again (client-go: 1 min)."""
EXPIRY_MARGIN_SECONDS = 60.0
_EXEC_API_VERSION = "client.authentication.k8s.io/v1"
_EXEC_API_VERSIONS = (_EXEC_API_VERSION, f"{_EXEC_API_VERSION}beta1")
_EXEC_TEXTS = ("token", "clientCertificateData", "clientKeyData")


class AuthError(Exception):
    """Credentials could not be had. The message names the source and the remedy."""


class Authenticator(Protocol):
    """What the transport calls before each request."""

    @property
    def renewable(self) -> bool:
        """Whether asking again after a 401 can help."""

    @property
    def generation(self) -> int:
        """Changes with the client certificate: connections made before are no longer right."""

    @property
    def certificate(self) -> ClientCertificate | None: ...

    async def headers(self, *, refused: Mapping[str, str] | None = None) -> Mapping[str, str]:
        """Return ``Authorization``, or nothing.

        ``refused``: what an earlier call returned, and the server answered with 401. Raises AuthError.
        """


class _Certified:
    """Who has a client certificate that may be one in files."""

    def __init__(self, certificate: ClientCertificate | CertificateFiles | None) -> None:
        self._certificate = certificate

    @property
    def certificate(self) -> ClientCertificate | None:
        held = self._certificate
        return held.current if isinstance(held, CertificateFiles) else held

    @property
    def generation(self) -> int:
        held = self._certificate
        return held.generation if isinstance(held, CertificateFiles) else 0


class StaticAuth(_Certified):
    """A token, user name and password, or client certificate; only the last may change, if in files."""

    def __init__(
        self,
        *,
        token: str | None = None,
        basic: tuple[str, str] | None = None,
        certificate: ClientCertificate | CertificateFiles | None = None,
    ) -> None:
        self._headers: dict[str, str] = {}
        if token:
            self._headers["Authorization"] = f"Bearer {token}"
        elif basic:
            encoded = base64.b64encode(":".join(basic).encode()).decode()
            self._headers["Authorization"] = f"Basic {encoded}"
        self.renewable = False
        super().__init__(certificate)

    async def headers(self, *, refused: Mapping[str, str] | None = None) -> Mapping[str, str]:
        return self._headers


class FileAuth(_Certified):
    """A token in a file that is replaced from time to time: a service account's, or ``tokenFile``."""

    def __init__(
        self,
        path: Path,
        *,
        certificate: ClientCertificate | CertificateFiles | None = None,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._path = path
        self._clock = clock
        self._read_at = float("-inf")
        self._headers: dict[str, str] = {}
        self.renewable = True
        super().__init__(certificate)

    def renewed(self) -> "FileAuth":
        """Return an independent one for the same files, token and certificate, which it follows."""
        held = self._certificate
        certificate = held.renewed() if isinstance(held, CertificateFiles) else held
        return FileAuth(self._path, certificate=certificate, clock=self._clock)

    async def headers(self, *, refused: Mapping[str, str] | None = None) -> Mapping[str, str]:
        now = self._clock()
        if refused is not None or now - self._read_at >= REREAD_SECONDS:
            try:
                token = self._path.read_text(encoding="utf-8").strip()
            except (OSError, UnicodeDecodeError) as error:
                if self._headers and refused is None:
                    return self._headers  # keep using what worked until the server refuses it
                raise AuthError(f"cannot read the token file {self._path}: {error}") from error
            if not token:
                raise AuthError(f"the token file {self._path} is empty")
            self._headers = _bearer(token, f"the token file {self._path}")
            self._read_at = now
        return self._headers


def _bearer(token: str, source: str) -> dict[str, str]:
    """Return the header. Raises AuthError for what no header holds, as a token with a line's end in it."""
    if not token.isprintable():
        raise AuthError(f"the token of {source} is not one line of printed text")
    return {"Authorization": f"Bearer {token}"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecPlugin:
    """The ``exec`` section of a kubeconfig user."""

    command: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    api_version: str = _EXEC_API_VERSION
    install_hint: str = ""
    cluster: Mapping[str, Any] | None = None
    """What ``provideClusterInfo`` passes to the plugin."""
    timeout: float = 60.0

    @classmethod
    def parse(
        cls, section: object, cluster: Mapping[str, Any], directory: Path = Path()
    ) -> "ExecPlugin":
        """Read the section of a kubeconfig in ``directory``, where a relative command with a ``/`` begins.

        Raises AuthError.
        """
        command = section.get("command") if isinstance(section, dict) else None
        if not isinstance(section, dict) or not command or not isinstance(command, str):
            raise AuthError("the exec section of the kubeconfig user names no command")
        variables = section.get("env") or []
        if not all(isinstance(each, dict) and each.get("name") for each in variables):
            raise AuthError("an entry under env of the exec section has no name")
        arguments, version = section.get("args") or [], section.get("apiVersion")
        if not isinstance(arguments, list):
            raise AuthError("args of the exec section is not a list")
        if version and version not in _EXEC_API_VERSIONS:
            raise AuthError(f"exec plugins of {version} are not supported: {_EXEC_API_VERSIONS}")
        mode = section.get("interactiveMode") or "Never"
        if mode not in ("Never", "IfAvailable"):
            raise AuthError(
                f"interactiveMode of the exec section is {mode!r}, and no terminal is there: set IfAvailable or Never"
            )
        return cls(
            command=str(directory / command) if os.sep in command else command,
            args=tuple(map(str, arguments)),
            env={str(each["name"]): str(each.get("value") or "") for each in variables},
            api_version=version or _EXEC_API_VERSION,
            install_hint=section.get("installHint") or "",
            cluster=cluster if section.get("provideClusterInfo") else None,
        )

    async def run(self) -> Mapping[str, Any]:
        """Return the ``status`` of the ExecCredential it prints."""
        spec: dict[str, Any] = {"interactive": False}
        if self.cluster is not None:
            spec["cluster"] = dict(self.cluster)
        request = {"apiVersion": self.api_version, "kind": "ExecCredential", "spec": spec}
        environment = {
            **os.environ,
            **self.env,
            "KUBERNETES_EXEC_INFO": orjson.dumps(request).decode(),
        }
        code, output, errors = await _run((self.command, *self.args), environment, self)
        if code != 0:
            raise AuthError(
                f"credential plugin {self.command!r} failed with code {code}: "
                f"{errors.decode('utf-8', 'replace').strip()[:500]}"
            )
        try:
            printed = orjson.loads(output)
            status, version = printed["status"], printed.get("apiVersion")
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise AuthError(
                f"credential plugin {self.command!r} did not print an ExecCredential with a status"
            ) from error
        if version and version != self.api_version:
            raise AuthError(
                f"credential plugin {self.command!r} printed {version}, not {self.api_version}"
            )
        if not isinstance(status, dict) or not (
            status.get("token") or status.get("clientCertificateData")
        ):
            raise AuthError(
                f"credential plugin {self.command!r} gave neither token nor certificate"
            )
        if wrong := [name for name in _EXEC_TEXTS if not isinstance(status.get(name) or "", str)]:
            raise AuthError(f"credential plugin {self.command!r}: {wrong[0]} is not a text")
        if bool(status.get("clientCertificateData")) != bool(status.get("clientKeyData")):
            raise AuthError(
                f"credential plugin {self.command!r} gave of certificate and key only one"
            )
        return status


async def _run(
    command: Sequence[str], environment: Mapping[str, str], plugin: ExecPlugin
) -> tuple[int, bytes, bytes]:
    try:
        process = await asyncio.create_subprocess_exec(
            *command,
            env=environment,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
    except OSError as error:
        hint = f" {plugin.install_hint.strip()}" if plugin.install_hint else ""
        raise AuthError(
            f"cannot run credential plugin {plugin.command!r}: {error}.{hint}"
        ) from error
    try:
        async with asyncio.timeout(plugin.timeout):
            output, errors = await process.communicate()
    except TimeoutError as error:
        raise AuthError(
            f"credential plugin {plugin.command!r} gave no answer in {plugin.timeout:.0f} s"
        ) from error
    finally:
        await end_process(process)
    return process.returncode or 0, output, errors


class ExecAuth:
    """A credential plugin, run when its credentials near their expiry or were refused.

    Requests that come while it runs share that run, its failure included. A request whose credentials were
    refused does not start another run if there are newer ones by then, as in client-go.
    """

    def __init__(
        self,
        plugin: ExecPlugin,
        *,
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        self._plugin = plugin
        self._now = now
        self._lock = asyncio.Lock()
        self._expires: datetime | None = None
        self._headers: dict[str, str] = {}
        self._runs = 0
        self._error: AuthError | None = None
        """How the last run failed, if it did."""
        self.renewable = True
        self.generation = 0
        self.certificate: ClientCertificate | None = None

    def renewed(self) -> "ExecAuth":
        """Return the same plugin, to be run anew."""
        return ExecAuth(self._plugin, now=self._now)

    async def headers(self, *, refused: Mapping[str, str] | None = None) -> Mapping[str, str]:
        if self._is_usable(refused):
            return self._headers
        runs = self._runs
        async with self._lock:
            if runs == self._runs:
                await self._run()
            if self._error is not None:
                raise AuthError(str(self._error)) from self._error
        return self._headers

    def _is_usable(self, refused: Mapping[str, str] | None) -> bool:
        if not self._runs or self._error is not None or self._expired():
            return False
        return refused is None or refused != self._headers

    async def _run(self) -> None:
        """Run the plugin. A run that was cancelled does not count: the next request starts another."""
        try:
            self._take(await self._plugin.run())
        except AuthError as error:
            self._error = error
        else:
            self._error = None
        self._runs += 1

    def _expired(self) -> bool:
        if self._expires is None:
            return False
        return (self._expires - self._now()).total_seconds() < EXPIRY_MARGIN_SECONDS

    def _take(self, status: Mapping[str, Any]) -> None:
        self._expires = _expiry(status.get("expirationTimestamp"))
        token = status.get("token")
        source = f"credential plugin {self._plugin.command!r}"
        self._headers = _bearer(token, source) if token else {}
        if status.get("clientCertificateData"):
            certificate = ClientCertificate(
                status["clientCertificateData"].encode(), status.get("clientKeyData", "").encode()
            )
            if certificate != self.certificate:
                self.certificate = certificate
                self.generation += 1


def _expiry(stamp: object) -> datetime | None:
    """Raise AuthError for what is no time with a zone: how long the credentials hold is unknown then."""
    if not stamp:
        return None
    found = time_or_none(stamp)
    if found is None:
        raise AuthError(
            "the credential plugin printed an expirationTimestamp that is no time as 2030-01-02T15:04:05Z"
        )
    return found


class CallbackAuth(_Certified):
    """A token from a coroutine, asked for again at most every ``REREAD_SECONDS`` or after a 401."""

    def __init__(
        self,
        token: Callable[[], Awaitable[str]],
        *,
        certificate: ClientCertificate | CertificateFiles | None = None,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._token = token
        self._clock = clock
        self._asked_at = float("-inf")
        self._headers: dict[str, str] = {}
        self.renewable = True
        super().__init__(certificate)

    async def headers(self, *, refused: Mapping[str, str] | None = None) -> Mapping[str, str]:
        now = self._clock()
        if refused is not None or now - self._asked_at >= REREAD_SECONDS:
            self._headers = _bearer(await self._token(), "a callback")
            self._asked_at = now
        return self._headers

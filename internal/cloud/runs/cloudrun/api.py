"""Requests to Google's APIs: where, with which token, for the files of runs in a bucket, and their errors."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from urllib.parse import quote

import aiohttp
import orjson

from ctrlruntime.client.fence import READS, Fence
from internal.cloud.runs.provider import ProviderError

if TYPE_CHECKING:
    from aiohttp.abc import AbstractStreamWriter
    from aiohttp.client_reqrep import ClientResponse
    from aiohttp.connector import Connection

__all__ = [
    "BucketFiles",
    "CloudAPI",
    "CloudError",
    "CloudRunOptions",
    "TokenSource",
    "metadata_token",
]

TokenSource: TypeAlias = Callable[[], Awaitable[str]]
"""An OAuth access token for the scope `cloud-platform`; asked before every request."""
_TIMEOUT: Final = aiohttp.ClientTimeout(total=60, sock_connect=10)
_METADATA: Final = "http://metadata.google.internal"
_TOKEN_PATH: Final = "/computeMetadata/v1/instance/service-accounts/default/token"  # noqa: S105
_LARGEST: Final = 64 * 1024 * 1024
"""Bytes of an answer."""
_NOT_FOUND: Final = 404
_PRECONDITION_FAILED: Final = 412


@dataclass(frozen=True, slots=True, kw_only=True)
class CloudRunOptions:
    """One project and location, and one bucket that only the manager and its tasks may read."""

    project: str
    location: str
    bucket: str
    """Cloud Storage bucket in which runs find their input and leave their result."""
    image: str
    service_account: str = ""
    """Email address of the account that tasks run as, with `roles/storage.objectUser` on the bucket."""
    command: Sequence[str] = ()
    """The program; empty for the image's own entrypoint."""
    arguments: Sequence[str] = ("task", "run")
    """Before the name of the task."""
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    limits: Mapping[str, str] = field(default_factory=dict)
    """Of the container: cpu and memory."""
    grace: float = 30.0
    """Seconds that `delete` waits for a run that it cancelled."""
    run_url: str = "https://run.googleapis.com"
    storage_url: str = "https://storage.googleapis.com"

    @property
    def parent(self) -> str:
        """Where the jobs are."""
        return f"projects/{self.project}/locations/{self.location}"


class CloudError(ProviderError):
    """A request that was refused, or got no answer (`status` 0): then it may have been carried out."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(f"{message} ({status} {reason})" if status else message)
        self.status = status
        self.reason = reason
        self.message = message


class CloudAPI:
    """One session for all of a provider's requests.

    `fence`: asked as each leaves that may change something; raises to keep it from being sent.
    """

    def __init__(self, token: TokenSource, fence: Fence = lambda: None) -> None:
        self._token = token
        self._request_class = fenced(fence)
        self._session: aiohttp.ClientSession | None = None

    async def json(
        self,
        method: str,
        url: str,
        *,
        params: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Return the answer, an object. Raises CloudError."""
        data = None if body is None else orjson.dumps(body)
        answer = await self.send(method, url, params=params, data=data)
        try:
            return dict(orjson.loads(answer)) if answer else {}
        except (ValueError, TypeError) as error:
            start = answer[:200].decode("utf-8", "replace")
            raise CloudError(0, "", f"{method} {url}: no JSON object: {start}") from error

    async def send(
        self,
        method: str,
        url: str,
        *,
        params: Mapping[str, str] | None = None,
        data: bytes | None = None,
        content_type: str = "application/json",
        most: int | None = None,
    ) -> bytes:
        """Return the answer's body, or its first `most` bytes. Raises CloudError, for one that is too large as well."""
        headers = {"Authorization": f"Bearer {await self._token()}"}
        if data is not None:
            headers["Content-Type"] = content_type
        try:
            async with self._open().request(
                method, url, params=params, data=data, headers=headers
            ) as answer:
                kept = _LARGEST + 1 if most is None or answer.status >= 400 else most
                body = await _beginning(answer, kept)
        except (aiohttp.ClientError, TimeoutError) as error:
            raise CloudError(0, "", f"{method} {url}: no answer: {error!r}") from error
        if answer.status >= 400:
            raise _error_of(answer.status, body)
        if len(body) > _LARGEST:
            message = f"{method} {url}: the answer has more than {_LARGEST // 1024**2} MiB"
            raise CloudError(0, "", message)
        return body

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                timeout=_TIMEOUT, request_class=self._request_class
            )
        return self._session


def metadata_token(clock: Callable[[], float], url: str = _METADATA) -> TokenSource:
    """Tokens of the account that this program runs as: on GKE (Workload Identity), GCE, Cloud Run.

    Kept until a minute before they expire. `clock` is in seconds.
    """
    kept, until = "", 0.0

    async def token() -> str:
        nonlocal kept, until
        if clock() >= until:
            headers = {"Metadata-Flavor": "Google"}
            try:
                async with (
                    aiohttp.ClientSession(timeout=_TIMEOUT) as session,
                    session.get(url + _TOKEN_PATH, headers=headers) as answer,
                ):
                    answer.raise_for_status()
                    given = await answer.json()
                kept, until = str(given["access_token"]), clock() + given["expires_in"] - 60
            except (aiohttp.ClientError, TimeoutError, ValueError, KeyError, TypeError) as error:
                message = f"no token from the metadata server {url}, which only Google's machines have: {error!r}"
                raise CloudError(0, "", message) from error
        return kept

    return token


async def _beginning(answer: ClientResponse, most: int) -> bytes:
    body = bytearray()
    async for chunk in answer.content.iter_any():
        body += chunk
        if len(body) >= most:
            break  # what was not read ends with its connection
    return bytes(body[:most])


def _error_of(status: int, body: bytes) -> CloudError:
    try:
        error = orjson.loads(body)["error"]
        return CloudError(status, str(error.get("status", "")), str(error["message"]))
    except (ValueError, KeyError, TypeError, AttributeError):
        return CloudError(status, "", body[:500].decode("utf-8", "replace"))


def fenced(fence: Fence) -> type[aiohttp.ClientRequest]:
    """Return a request class for one session: checks the fence, then passes the bytes to the socket at once."""

    class FencedRequest(aiohttp.ClientRequest):
        """Without a body a request is sent by `send`, with one by `write_bytes`, often turns later."""

        async def send(self, conn: Connection) -> ClientResponse:
            if self.method not in READS:
                fence()
            return await super().send(conn)

        async def write_bytes(
            self, writer: AbstractStreamWriter, conn: Connection, content_length: int | None = None
        ) -> None:
            if self.method not in READS:
                try:
                    fence()
                except Exception as error:  # noqa: BLE001 - it is raised where the answer is awaited
                    if conn.protocol is not None:
                        conn.protocol.set_exception(error)
                    return
            await super().write_bytes(writer, conn, content_length)

    return FencedRequest


class BucketFiles:
    """A folder for each run: `<run id>/<file>`."""

    def __init__(self, api: CloudAPI, options: CloudRunOptions) -> None:
        self._api = api
        bucket = quote(options.bucket, safe="")
        self._objects = f"{options.storage_url}/storage/v1/b/{bucket}/o"
        self._uploads = f"{options.storage_url}/upload/storage/v1/b/{bucket}/o"

    async def make(self, run_id: str, files: Mapping[str, bytes]) -> None:
        """Write a file, unless it is there already."""
        for name, data in files.items():
            params = {"uploadType": "media", "name": f"{run_id}/{name}", "ifGenerationMatch": "0"}
            try:
                await self._api.send(
                    "POST",
                    self._uploads,
                    params=params,
                    data=data,
                    content_type="application/octet-stream",
                )
            except CloudError as error:
                if error.status != _PRECONDITION_FAILED:
                    raise

    async def read(self, run_id: str, name: str, most: int | None = None) -> bytes:
        """Return a file, or its first `most` bytes; empty if it is not there."""
        try:
            return await self._api.send(
                "GET", self._object(f"{run_id}/{name}"), params={"alt": "media"}, most=most
            )
        except CloudError as error:
            if error.status == _NOT_FOUND:
                return b""
            raise

    async def remove(self, folder: str) -> None:
        """Delete every file below a folder: `<run id>/` or `<run id>/<folder>/`."""
        params = {"prefix": folder, "fields": "items/name,nextPageToken"}
        while True:
            page = await self._api.json("GET", self._objects, params=params)
            for item in page.get("items", []):
                try:
                    await self._api.send("DELETE", self._object(item["name"]))
                except CloudError as error:
                    if error.status != _NOT_FOUND:
                        raise
            if not page.get("nextPageToken"):
                return
            params["pageToken"] = page["nextPageToken"]

    def _object(self, name: str) -> str:
        return f"{self._objects}/{quote(name, safe='')}"

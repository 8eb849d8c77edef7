"""Requests of a spec: placeholders and secret headers are filled in, the reply is checked."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import aiohttp
import jsonpath
import orjson

from apis.cloud import Expectation, HTTPRequest
from apis.references import SecretKeyRef
from ctrlruntime.clock import monotonic
from ctrlruntime.intake import describe_value
from ctrlruntime.json import Json, equal
from ctrlruntime.outbound_http import displayed_url, outbound_session
from internal.cloud.tasks.http import (
    BadAddress,
    ExchangeError,
    Message,
    Reply,
    RetryPolicy,
    exchange_with_retries,
)
from internal.cloud.tasks.placeholders import Places
from internal.cloud.tasks.redaction import Redaction
from internal.cloud.tasks.task import TaskRejected

_SAFE_TO_REPEAT: Final = frozenset({"GET", "HEAD", "PUT", "DELETE"})
_SHOWN: Final = 100
IDEMPOTENCY_KEY: Final = "Idempotency-Key"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What became of a request."""

    good: bool
    """Whether the answer was as the spec wants it."""
    text: str
    """What happened, for people; holds no secret."""
    status: int = 0
    """The code; 0 if there was no answer."""
    body: bytes = field(default=b"", repr=False)

    def json(self) -> Json:
        """Return the body as JSON. Raises ValueError."""
        return orjson.loads(self.body)


class Requests:
    """Sends requests. Use it as an async context manager: it keeps connections."""

    def __init__(
        self,
        places: Places,
        secret: Callable[[SecretKeyRef], str],
        *,
        retries: RetryPolicy | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._places = places
        self._secret = secret
        self._retries = retries or RetryPolicy()
        self._sleep = sleep
        self._clock = clock
        self._redaction = Redaction()
        self._http: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> "Requests":
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._http is not None:
            await self._http.close()
            self._http = None

    def check(self, request: HTTPRequest) -> None:
        """Find what is wrong with a request without sending it. Raises TaskRejected."""
        self._prepared(request, {})

    async def send(
        self, request: HTTPRequest, *, idempotency_key: str | None = None, limit: int = 1 << 20
    ) -> Answer:
        """Send a request, retry it as far as that is safe, and check the reply.

        A POST or PATCH that may have been carried out is sent again only with an idempotency key. At most `limit` bytes of the answer are read. Raises TaskRejected for
        unknown places, missing secrets and what is no address or JSONPath.
        """
        extra = {} if idempotency_key is None else {IDEMPOTENCY_KEY: idempotency_key}
        prepared = self._prepared(request, extra)
        repeatable = request.method in _SAFE_TO_REPEAT or idempotency_key is not None
        if self._http is None:
            self._http = outbound_session()
        try:
            reply = await exchange_with_retries(
                self._http,
                prepared.message,
                self._retries,
                repeatable=repeatable,
                limit=limit,
                accepted=lambda reply: prepared.judged(reply).good,
                sleep=self._sleep,
            )
        except BadAddress as error:
            raise TaskRejected(f"{prepared.name}: {prepared.censored(str(error))}") from error
        except ExchangeError as error:
            return Answer(good=False, text=f"{prepared.name}: {prepared.censored(str(error))}")
        return prepared.judged(reply)

    async def until_good(
        self, request: HTTPRequest, *, within: float, every: float = 5.0
    ) -> Answer:
        """Poll for at most `within` seconds; return the last answer, good or not."""
        end = self._clock() + within
        while True:
            answer = await self.send(request)
            if answer.good or self._clock() + every > end:
                return answer
            await self._sleep(every)

    def _prepared(self, request: HTTPRequest, extra: Mapping[str, str]) -> "_Prepared":
        places = self._places
        headers = {name: places.fill(value) for name, value in request.headers.items()}
        body = None
        if request.body is not None:
            body = orjson.dumps(places.fill_data(request.body, typed=True))
            headers.setdefault("Content-Type", "application/json")
        secrets = {each.name: self._secret_of(each.value_from) for each in request.secret_headers}
        prefixes = {each.name: each.prefix for each in request.secret_headers}
        url = places.fill(request.url)
        return _Prepared(
            name=f"{request.method} {self._redaction.text(displayed_url(url))}",
            message=Message(
                method=request.method,
                url=url,
                headers={**headers, **extra},
                secret_headers={name: prefixes[name] + value for name, value in secrets.items()},
                body=body,
                timeout=float(request.timeout_seconds),
            ),
            codes=request.status_codes,
            expected=[_Expected.of(each, places) for each in request.expect],
            redaction=self._redaction,
        )

    def _secret_of(self, ref: SecretKeyRef) -> str:
        value = self._secret(ref).strip("\r\n")
        if "\n" in value or "\r" in value or "\0" in value:
            raise TaskRejected(
                f"Secret {ref.name}, key {ref.key}: a header cannot have line breaks"
            )
        self._redaction.add(value)
        return value


@dataclass(frozen=True, slots=True, kw_only=True)
class _Expected:
    path: str
    query: jsonpath.JSONPath | jsonpath.CompoundJSONPath
    any: bool
    value: Any

    @classmethod
    def of(cls, expectation: Expectation, places: Places) -> "_Expected":
        try:
            query = jsonpath.compile(expectation.path)
        except jsonpath.JSONPathError as error:
            first = str(error).splitlines()[0]
            raise TaskRejected(f"expect: {expectation.path} is no JSONPath: {first}") from error
        return cls(
            path=expectation.path,
            query=query,
            any="equals" not in expectation.model_fields_set,
            value=places.fill_data(expectation.equals, typed=True),
        )

    def complaint(self, data: Json, censored: Callable[[str], str]) -> str | None:
        try:
            found = self.query.findall(data)
        except (jsonpath.JSONPathError, RecursionError) as error:
            return f"{self.path} cannot be looked for: {type(error).__name__}"
        if not found:
            return f"{self.path} is missing"
        wrong = [] if self.any else [value for value in found if not equal(value, self.value)]
        if not wrong:
            return None
        return f"{self.path} is {describe_value(wrong[0])}, not {_brief(self.value, censored)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Prepared:
    """A request that is ready to be sent, and what its answer has to be."""

    name: str
    message: Message
    codes: Sequence[int]
    expected: Sequence[_Expected]
    redaction: Redaction = field(repr=False)

    def judged(self, reply: Reply) -> Answer:
        complaint = self._complaint(reply)
        return Answer(
            good=complaint is None,
            text=f"{self.name} answered {complaint or reply.status}",
            status=reply.status,
            body=reply.body,
        )

    def censored(self, text: str) -> str:
        return self.redaction.text(text)

    def _complaint(self, reply: Reply) -> str | None:
        if reply.status not in self.codes:
            wanted = " or ".join(map(str, self.codes))
            return f"{reply.status}, not {wanted}"
        if not self.expected:
            return None
        if reply.cut:
            return f"{reply.status}, and more than can be looked through"
        try:
            data = orjson.loads(reply.body)
        except orjson.JSONDecodeError:
            return f"{reply.status}, and no JSON"
        complaints = (each.complaint(data, self.censored) for each in self.expected)
        found = [each for each in complaints if each is not None]
        return f"{reply.status}, and {'; '.join(found)}" if found else None


def _brief(value: object, censored: Callable[[str], str]) -> str:
    """Return a value of the spec, shortened."""
    text = censored(orjson.dumps(value).decode())
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"

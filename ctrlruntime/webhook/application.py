"""Webhooks over HTTP: which handler at which path, and what is answered to bad requests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

import orjson
from aiohttp import web
from prometheus_client import CollectorRegistry
from structlog.typing import FilteringBoundLogger

from ctrlruntime.api.kinds import GroupKind, GroupVersionKind
from ctrlruntime.api.resource import Resource
from ctrlruntime.client.errors import (
    APIError,
    BadRequest,
    InternalError,
    RequestEntityTooLarge,
    Timeout,
    TooManyRequests,
)
from ctrlruntime.clock import perf
from ctrlruntime.webhook.admission import (
    AdmissionRequest,
    AdmissionResponse,
    Handler,
    ReviewError,
    decode_review,
    encode_review,
    refused,
)
from ctrlruntime.webhook.authentication import LARGEST_TOKEN_REVIEW, Authenticate, TokenReviews
from ctrlruntime.webhook.conversion import (
    Conversion,
    ConversionError,
    decode_conversion,
    encode_conversion,
    encode_failure,
)
from ctrlruntime.webhook.declaration import AdmissionOptions, check_path, declared_by
from ctrlruntime.webhook.declaration import mutating_path as default_mutating_path
from ctrlruntime.webhook.declaration import validating_path as default_validating_path
from ctrlruntime.webhook.defaulting import Defaulting
from ctrlruntime.webhook.metrics import WebhookMetrics
from ctrlruntime.webhook.review import Step
from ctrlruntime.webhook.validating import Validating

JSON: Final = "application/json"
LARGEST_BODY: Final = 7 * 1024 * 1024
"""Bytes of a request, as upstream: twice what etcd stores, and some more."""
MOST_IN_FLIGHT: Final = 64 * 1024 * 1024
"""Bytes of all bodies that arrive or are being answered."""
RESERVED: Final = 4 * 1024 * 1024
"""Bytes of those that are kept for small bodies, however many large ones there are."""
SMALL_BODY: Final = 256 * 1024
"""Bytes up to which a body is small; most objects are."""

__all__ = ["CONVERT", "LARGEST_BODY", "Application", "Registration"]

CONVERT = "/convert"
LONGEST = 30.0
"""Seconds for a request that names no timeout: the longest the API server waits."""
RETRY_LATER = {"Retry-After": "1"}
"""With 429: bodies under way are answered within seconds."""

Answer = Callable[[bytes], Awaitable[tuple[int, bytes]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """What :meth:`Application.register` was called with, its paths filled in."""

    kind: type[Resource[Any, Any]] | GroupVersionKind
    steps: tuple[Step, ...]
    options: AdmissionOptions | None
    mutating_path: str
    validating_path: str


class Application:
    """The webhooks of a process as an aiohttp application: ``routes()``.

    Without a manager, add the routes to an application of your own.
    """

    def __init__(
        self, logger: FilteringBoundLogger, registry: CollectorRegistry | None = None
    ) -> None:
        self.metrics = WebhookMetrics(registry if registry is not None else CollectorRegistry())
        self._logger = logger
        self._answers: dict[str, Answer] = {}
        self._limits: dict[str, int] = {}
        self.bodies = Bodies()
        self._conversions: dict[GroupKind, Conversion] = {}
        self._registrations: list[Registration] = []

    def __len__(self) -> int:
        return len(self._answers)

    @property
    def paths(self) -> tuple[str, ...]:
        return tuple(sorted(self._answers))

    @property
    def conversions(self) -> tuple[Conversion, ...]:
        return tuple(self._conversions.values())

    @property
    def admission_paths(self) -> tuple[str, ...]:
        """Where admission reviews are served."""
        return tuple(path for path in self.paths if path not in {CONVERT, *self._limits})

    @property
    def registrations(self) -> tuple[Registration, ...]:
        return tuple(self._registrations)

    def handle(self, path: str, handler: Handler) -> None:
        """Serve admission reviews at ``path``. Raises ValueError if it is bad or taken."""

        async def answer(body: bytes) -> tuple[int, bytes]:
            return await self._admit(path, handler, body)

        self._add(path, answer)

    def register(
        self,
        kind: type[Resource[Any, Any]] | GroupVersionKind,
        *steps: Step,
        options: AdmissionOptions | None = None,
        mutating_path: str = "",
        validating_path: str = "",
    ) -> tuple[str, ...]:
        """Serve what the class declares, and further ``steps`` marked with the same decorators.

        The steps of a kind without a class receive dicts. Returns the paths, by default
        ``/mutate-<group>-<version>-<kind>`` and ``/validate-...``. Raises ValueError if there is
        nothing to serve, or a path is bad or taken.
        """
        typed, gvk = (None, kind) if isinstance(kind, GroupVersionKind) else (kind, kind.gvk())
        declared = declared_by(typed, steps, options)
        handlers: dict[str, Handler] = {}
        if declared.defaulters:
            path = mutating_path or default_mutating_path(gvk)
            handlers[path] = Defaulting(typed, declared.defaulters)
        if declared.validators:
            path = validating_path or default_validating_path(gvk)
            while_deleting = declared.options.while_deleting
            handlers[path] = Validating(typed, declared.validators, while_deleting=while_deleting)
        if not handlers:
            raise ValueError(f"{gvk} declares no defaults and nothing that validates")
        for path in handlers:
            self._check(path)
        for path, handler in handlers.items():
            self.handle(path, handler)
        self._registrations.append(
            Registration(
                kind=kind,
                steps=steps,
                options=options,
                mutating_path=mutating_path or default_mutating_path(gvk),
                validating_path=validating_path or default_validating_path(gvk),
            )
        )
        return tuple(handlers)

    def convert(self, conversion: Conversion) -> None:
        """Serve conversions of one more kind. Raises ValueError if it is served already."""
        if conversion.group_kind in self._conversions:
            raise ValueError(f"there is a conversion of {conversion.group_kind} already")
        if not self._conversions:
            self._add(CONVERT, self._convert)
        self._conversions[conversion.group_kind] = conversion

    def authenticate(self, path: str, authenticate: Authenticate) -> None:
        """Serve token reviews at ``path``."""
        self._check(path)
        self._limits[path] = LARGEST_TOKEN_REVIEW
        self._add(path, TokenReviews(authenticate, self.metrics, self._logger).answer)

    def routes(self) -> list[web.AbstractRouteDef]:
        return [web.post(path, self._route(path, answer)) for path, answer in self._answers.items()]

    def _check(self, path: str) -> None:
        if check_path(path) in self._answers:
            raise ValueError(f"there is a webhook at {path} already")

    def _add(self, path: str, answer: Answer) -> None:
        self._check(path)
        self.metrics.prepare(path)
        self._answers[path] = answer

    def _route(
        self, path: str, answer: Answer
    ) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        async def serve(request: web.Request) -> web.StreamResponse:
            self.metrics.began(path)
            began, code = perf(), 500
            try:
                code, body = await self._within(request, path, answer)
                later = RETRY_LATER if code == TooManyRequests.default_code else None
                return web.Response(status=code, body=body, content_type=JSON, headers=later)
            finally:
                self.metrics.ended(path, code, perf() - began)

        return serve

    async def _within(self, request: web.Request, path: str, answer: Answer) -> tuple[int, bytes]:
        """Read and answer in the time that the API server waits; after that the reply is ignored."""
        try:
            async with (
                asyncio.timeout(_seconds(request.query.get("timeout", ""))),
                self.bodies.read(request, self._limits.get(path, LARGEST_BODY)) as body,
            ):
                return await answer(body)
        except Aborted as error:
            self._logger.info("Request was aborted", webhook=path, peer=request.remote)
            return error.error.code, _unreviewed(error.error)
        except BadBody as error:
            return error.error.code, _unreviewed(error.error)
        except TimeoutError:
            self._logger.error("Webhook timed out", webhook=path)
            return 504, _unreviewed(Timeout("the webhook did not answer in time"))

    # -- admission ---------------------------------------------------------------------------

    async def _admit(self, path: str, handler: Handler, body: bytes) -> tuple[int, bytes]:
        try:
            api_version, request = decode_review(body)
        except ReviewError as error:
            return 400, _unreviewed(BadRequest(str(error)))
        code = 200
        try:
            response = await handler.handle(request)
        except ReviewError as error:
            code, response = 400, refused(BadRequest(str(error)))
        except Exception as error:
            self.metrics.panics.inc()
            self._logger.error(
                "Webhook failed", **_about(path, request), error=repr(error), exc_info=error
            )
            code = 500
            response = refused(InternalError("the webhook failed; its log has the reason"))
        self._logger.debug("Webhook answered", **_about(path, request), allowed=response.allowed)
        return code, encode_review(api_version, request.uid, response)

    # -- conversion --------------------------------------------------------------------------

    async def _convert(self, body: bytes) -> tuple[int, bytes]:
        try:
            api_version, request = decode_conversion(body)
        except ReviewError as error:
            return 400, orjson.dumps(BadRequest(str(error)).status())
        try:
            objects = []
            for raw in request.objects:
                objects.append(self._converted(bytes(raw), request.desired_api_version))
                await asyncio.sleep(0)  # a list of thousands must not hold up the loop
            return 200, encode_conversion(api_version, request.uid, objects)
        except ValueError as error:
            return 200, encode_failure(api_version, request.uid, str(error))
        except Exception as error:
            self.metrics.conversion_panics.inc()
            self._logger.error("Conversion failed", error=repr(error), exc_info=error)
            message = "internal error occurred during conversion"
            return 200, encode_failure(api_version, request.uid, message)

    def _converted(self, raw: bytes, api_version: str) -> dict[str, Any]:
        manifest = orjson.loads(raw)
        if not isinstance(manifest, dict):
            raise ConversionError("what is to be converted is not an object")
        gvk = GroupVersionKind.of(manifest)
        conversion = self._conversions.get(gvk.group_kind)
        if conversion is None:
            raise ConversionError(f"no conversion for {gvk.group_kind} is registered")
        return conversion.convert(manifest, api_version)


def _unreviewed(error: APIError) -> bytes:
    """Return the answer to a review without uid, in the version that every API server reads."""
    response: AdmissionResponse = refused(error)
    return encode_review("admission.k8s.io/v1", "", response)


def _about(path: str, request: AdmissionRequest) -> dict[str, Any]:
    return {
        "webhook": path,
        "webhook_group": request.kind.group,
        "webhook_kind": request.kind.kind,
        "namespace": request.namespace,
        "name": request.name,
        "operation": request.operation,
        "user": request.user_info.username,
        "request_id": request.uid,
    }


def _seconds(text: str) -> float:
    """Go's ``10s`` as the API server writes it."""
    try:
        seconds = float(text.removesuffix("s"))
    except ValueError:
        return LONGEST
    return seconds if 0 < seconds <= LONGEST else LONGEST


class BadBody(Exception):
    """A body that is not read further; ``error`` is the answer."""

    def __init__(self, error: APIError) -> None:
        super().__init__(str(error))
        self.error = error


class Aborted(BadBody):
    """A body that ended before it was whole: the client has gone, or sent no proper HTTP."""


class Bodies:
    """Reads the bodies of all requests of a server within one limit."""

    def __init__(self, most: int = MOST_IN_FLIGHT) -> None:
        """``most``: bytes of all bodies together."""
        self._most = most
        self.held = 0
        """Bytes of what is being read or answered."""

    @asynccontextmanager
    async def read(self, request: web.Request, largest: int = LARGEST_BODY) -> AsyncIterator[bytes]:
        """Read the JSON body of a request, and count it until the block ends. Raises BadBody."""
        if request.content_type != JSON:
            raise BadBody(BadRequest(f"the content type is {request.content_type}, not {JSON}"))
        chunks: list[bytes] = []
        size = 0
        try:
            async for chunk in request.content.iter_any():
                size += len(chunk)
                self.held += len(chunk)
                chunks.append(chunk)
                self._check(size, largest)
            if not chunks:
                raise BadBody(BadRequest("the body is empty"))
            body = b"".join(chunks)
            chunks.clear()
            yield body
        except (ConnectionError, web.RequestPayloadError) as error:
            # The request keeps this error, and by its traceback would keep the frames with all they hold.
            error.__traceback__ = None
            raise Aborted(BadRequest("the body ended before it was whole")) from None
        finally:
            chunks.clear()
            self.held -= size

    def _check(self, size: int, largest: int) -> None:
        if size > largest:
            raise BadBody(RequestEntityTooLarge(f"the body is larger than {largest} bytes"))
        if self.held > self._most - (RESERVED if size > SMALL_BODY else 0):
            raise BadBody(
                TooManyRequests(
                    f"the bodies of all requests are larger than {self._most} bytes together; try again"
                )
            )

"""From a parsed request to the handler that answers it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import orjson

from ctrlruntime.envtest.server import discovery
from ctrlruntime.envtest.server.admission import Admission
from ctrlruntime.envtest.server.auth import Authenticator, Authorizer
from ctrlruntime.envtest.server.cleaning import Cleaner
from ctrlruntime.envtest.server.definitions import deprecation
from ctrlruntime.envtest.server.deletion import Deleter, Remover
from ctrlruntime.envtest.server.descriptions import Descriptions
from ctrlruntime.envtest.server.errors import PageNotFound, method_not_allowed, unknown_path
from ctrlruntime.envtest.server.escalation import EscalationCheck
from ctrlruntime.envtest.server.impersonation import Impersonation
from ctrlruntime.envtest.server.kinds import Kind
from ctrlruntime.envtest.server.patching import Patcher
from ctrlruntime.envtest.server.reading import Reader
from ctrlruntime.envtest.server.request import Answer, Request, check_options, negotiate
from ctrlruntime.envtest.server.reviews import Reviews
from ctrlruntime.envtest.server.scaling import Scaling
from ctrlruntime.envtest.server.state import State
from ctrlruntime.envtest.server.steps import Steps
from ctrlruntime.envtest.server.subresources import Subresources
from ctrlruntime.envtest.server.watch import Watch
from ctrlruntime.envtest.server.writing import Writer

VERSION: Final = {
    "major": "1",
    "minor": "36",
    "gitVersion": "v1.36.2+ctrlruntime",
    "gitCommit": "",
    "gitTreeState": "clean",
    "buildDate": "1970-01-01T00:00:00Z",
    "goVersion": "",
    "compiler": "cpython",
    "platform": "linux/amd64",
}
_READS: Final = frozenset({"get", "list", "watch"})


@dataclass(slots=True)
class Reply:
    status: int
    body: bytes
    content_type: str = "application/json"
    headers: list[tuple[str, str]] = field(default_factory=list)


class Dispatcher:
    """Authenticates, authorizes and routes."""

    def __init__(self, state: State, admission: Admission) -> None:
        self._state = state
        self._descriptions = Descriptions(state.catalog, VERSION["gitVersion"])
        self._authenticator = Authenticator(state)
        self._authorizer = Authorizer(state)
        self._impersonation = Impersonation(self._authorizer.allows)
        cleaner = Cleaner(state)
        patcher = Patcher(state, cleaner)
        steps = Steps(state, admission, EscalationCheck(self._authorizer))
        self._reader = Reader(state)
        self._writer = Writer(state, cleaner, patcher, steps)
        remover = Remover(state)
        self._deleter = Deleter(state, admission, remover)
        self._subresources = Subresources(
            state,
            self._authenticator,
            self._reader,
            self._writer,
            remover,
            Scaling(state, self._reader, self._writer, patcher),
        )
        self._reviews = Reviews(state, self._authenticator, self._authorizer)

    async def handle(self, request: Request) -> Reply | Watch:
        request.user = self._authenticator.authenticate(request)
        request.user = self._impersonation.user(request)
        self._authorizer.check(request)
        request.require = partial(self._authorizer.check, request)
        if request.group is None:
            return self._outside(request)
        latency = self._state.options.latency
        delay = latency.read if request.verb in _READS else latency.write
        if delay:
            await asyncio.sleep(delay)
        kind = self._state.kind(request)
        if request.namespace and not kind.namespaced and kind.plural != "namespaces":
            raise unknown_path()
        if kind.custom and (warning := deprecation(kind, request.version)):
            request.warnings.append(warning)
        if kind.builtin.deprecated:
            request.warnings.append(kind.builtin.deprecated)
        request.form = negotiate(request.headers.get("Accept", ""), request.verb)
        if request.verb == "watch":
            return Watch(self._state, kind, request)
        if request.verb not in _READS:
            check_options(request)
        answer = await self._answer(kind, request)
        return Reply(answer.status, answer.body)

    async def _answer(self, kind: Kind, request: Request) -> Answer:
        if kind.create_only:
            if request.verb != "create":
                raise method_not_allowed()
            return self._reviews.answer(kind, request)
        if request.subresource and request.subresource != "status":
            return await self._subresources.answer(kind, request)
        if request.subresource and not self._has_status(kind, request):
            raise unknown_path()
        return await self._verb(kind, request)

    @staticmethod
    def _has_status(kind: Kind, request: Request) -> bool:
        return "status" in discovery.subresources(kind, request.version)

    async def _verb(self, kind: Kind, request: Request) -> Answer:
        _check_method(kind, request)
        match request.verb:
            case "get":
                return Answer(200, self._reader.one(kind, request))
            case "list":
                return Answer(200, self._reader.page(kind, request))
            case "create":
                return await self._writer.create(kind, request)
            case "update":
                return await self._writer.update(kind, request)
            case "patch":
                return await self._writer.patch(kind, request)
            case "delete":
                return await self._deleter.delete(kind, request)
        return await self._deleter.delete_collection(kind, request)

    # -- paths outside the API groups ------------------------------------------------------

    def _outside(self, request: Request) -> Reply:
        path = request.path.rstrip("/") or "/"
        if request.method != "GET" and path.startswith(("/api", "/openapi")):
            raise method_not_allowed()
        if path in {"/healthz", "/readyz", "/livez"} or path.startswith(
            ("/healthz/", "/readyz/", "/livez/")
        ):
            return Reply(200, b"ok", "text/plain; charset=utf-8")
        if path == "/version":
            return _json(VERSION)
        found = self._descriptions.answer(path, request)
        if found is not None:
            return Reply(found.status, found.body, found.content_type, found.headers)
        if path == "/":
            return _json({"paths": self._paths()})
        return Reply(404, b"404 page not found\n", "text/plain; charset=utf-8")

    def _paths(self) -> list[str]:
        paths = [
            "/api",
            "/api/v1",
            "/apis",
            "/healthz",
            "/livez",
            "/openapi/v2",
            "/openapi/v3",
            "/readyz",
            "/version",
        ]
        for group, versions in discovery.group_versions(self._state.catalog).items():
            paths.append(f"/apis/{group}")
            paths += [f"/apis/{group}/{version}" for version in versions]
        return sorted(paths)


def _json(body: object) -> Reply:
    return Reply(200, orjson.dumps(body))


def _check_method(kind: Kind, request: Request) -> None:
    """405 for a method the path does not have: POST to an object, PUT to a collection."""
    if request.method == "HEAD":
        raise method_not_allowed()
    named = bool(request.name)
    fits = request.verb in {"list", "create", "deletecollection"}
    if request.verb not in kind.verbs or named == fits:
        raise method_not_allowed()
    if request.subresource and request.verb in {"create", "delete"}:
        raise method_not_allowed()
    across = kind.namespaced and not request.namespace
    if across and request.verb not in {"list", "watch"}:
        if kind.custom:
            raise PageNotFound
        raise unknown_path() if named else method_not_allowed()

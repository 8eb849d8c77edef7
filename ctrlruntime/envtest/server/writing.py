"""create, update and patch: from a request to a stored object."""

from __future__ import annotations

from typing import Final

import orjson

from ctrlruntime.api.kinds import Manifest
from ctrlruntime.envtest.server.building import (
    Build,
    check_created,
    check_preconditions,
    other_name,
    place,
)
from ctrlruntime.envtest.server.cleaning import Cleaner
from ctrlruntime.envtest.server.codec import decode_object
from ctrlruntime.envtest.server.errors import conflict, not_found
from ctrlruntime.envtest.server.kinds import Kind
from ctrlruntime.envtest.server.patching import Patcher
from ctrlruntime.envtest.server.request import Answer, Request
from ctrlruntime.envtest.server.state import State
from ctrlruntime.envtest.server.steps import Steps, Write

_TRIES: Final = 8


class Writer:
    """Answers create, update and patch, on the objects themselves and on their status."""

    def __init__(self, state: State, cleaner: Cleaner, patcher: Patcher, steps: Steps) -> None:
        self._state = state
        self._cleaner = cleaner
        self._patcher = patcher
        self._steps = steps

    async def create(self, kind: Kind, request: Request) -> Answer:
        obj = self._decode(kind, request)
        return await self.write(kind, request, Build(lambda _: obj, replaces=False, creates=True))

    async def update(self, kind: Kind, request: Request) -> Answer:
        sent = self._decode(kind, request)
        name = sent["metadata"].get("name") or ""
        if name != request.name:
            raise other_name(name, request.name)
        raw = orjson.dumps(sent)

        def make(live: Manifest | None) -> Manifest:
            del live
            copy: Manifest = orjson.loads(raw)
            return copy

        creates = kind.create_on_update and not request.subresource
        return await self.write(kind, request, Build(make, creates=creates))

    async def patch(self, kind: Kind, request: Request) -> Answer:
        return await self.write(kind, request, self._patcher.build(kind, request))

    def _decode(self, kind: Kind, request: Request) -> Manifest:
        obj, repeated = decode_object(kind, request)
        self._cleaner.clean(kind, request, obj, repeated)
        place(kind, request, obj)
        return obj

    async def write(self, kind: Kind, request: Request, build: Build) -> Answer:
        """Build the object and take it through the steps; again where another write came between."""
        for _ in range(_TRIES):
            answer = await self._steps.run(self._built(kind, request, build))
            if answer is not None:
                return answer
        raise conflict(kind.group, kind.plural, request.name)

    def _built(self, kind: Kind, request: Request, build: Build) -> Write:
        if not build.replaces:
            return Write(kind, request, build.make(None), build.tracks)
        namespace = request.namespace if kind.namespaced else ""
        record = self._state.bucket(kind).get(namespace, request.name)
        if record is not None:
            live = self._state.load(kind, record, request.version)
            new = build.make(live)
            if new is live:  # changed in place: what was is needed beside it
                live = self._state.load(kind, record, request.version)
            check_preconditions(kind, request, new, live)
            return Write(kind, request, new, build.tracks, record, live)
        if not build.creates:
            raise not_found(kind.group, kind.plural, request.name)
        request.require("create")
        new = build.make(None)
        check_created(kind, request, new, tracked=build.tracks)
        return Write(kind, request, new, build.tracks)

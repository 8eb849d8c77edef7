"""Reads and writes of the scale subresource."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import orjson

from ctrlruntime.api.kinds import Manifest
from ctrlruntime.envtest.merge.apply import printed_kind
from ctrlruntime.envtest.merge.patches import json_patch, merge_patch
from ctrlruntime.envtest.server.building import Build
from ctrlruntime.envtest.server.codec import body_as_json
from ctrlruntime.envtest.server.errors import StatusError, bad_request, bad_value, conflict, invalid
from ctrlruntime.envtest.server.kinds import Kind, ScalePaths
from ctrlruntime.envtest.server.patching import JSON_PATCH, Patcher, invalid_patch, read_applied
from ctrlruntime.envtest.server.reading import Reader
from ctrlruntime.envtest.server.request import APPLY_YAML, Answer, Request
from ctrlruntime.envtest.server.scale import put, scale_of, scale_paths
from ctrlruntime.envtest.server.state import State
from ctrlruntime.envtest.server.writing import Writer

_SCALE: Final = ("autoscaling/v1", "Scale")
_NO_CUSTOM_SCALE: Final = (
    "failed to convert new object (/{}; autoscaling/v1, Kind=Scale) to proper version: request to "
    "convert CR to an invalid group/version: autoscaling/v1"
)


class Scaling:
    """Answers the scale subresource."""

    def __init__(self, state: State, reader: Reader, writer: Writer, patcher: Patcher) -> None:
        self._state = state
        self._reader = reader
        self._writer = writer
        self._patcher = patcher

    async def answer(self, kind: Kind, request: Request) -> Answer:
        """Return what a read or a write of the scale is answered with."""
        paths = scale_paths(kind, request.version)
        record = self._reader.get(kind, request)
        current = self._state.shown(kind, record, request.version)
        scale = scale_of(kind, current, paths)
        if request.verb == "get":
            return Answer(200, orjson.dumps(scale))
        if request.verb == "patch" and request.content_type == APPLY_YAML:
            return await self._apply(kind, request, paths)
        wanted = _wanted_scale(request, scale)
        version = (wanted.get("metadata") or {}).get("resourceVersion")
        if version and version != scale["metadata"]["resourceVersion"]:
            raise conflict(kind.group, kind.plural, request.name)
        replicas = (wanted.get("spec") or {}).get("replicas", 0)
        try:
            _check_replicas(kind, request, replicas)
        except StatusError as error:
            raise invalid_patch(wanted, error) if request.verb == "patch" else error from None

        def make(live: Manifest | None) -> Manifest:
            scaled: Manifest = orjson.loads(orjson.dumps(live))
            put(scaled, paths.spec, replicas)
            return scaled

        inner = replace(request, verb="patch", form="full", warnings=[])
        answer = await self._writer.write(kind, inner, Build(make))
        return Answer(200, orjson.dumps(scale_of(kind, orjson.loads(answer.body), paths)))

    async def _apply(self, kind: Kind, request: Request, paths: ScalePaths) -> Answer:
        """Return an apply of the one field, with owners as the scale shows them."""
        applied = read_applied(request)
        given = applied.get("apiVersion") or "", applied.get("kind") or ""
        if given != _SCALE:
            raise bad_request(f"invalid object type: {printed_kind(*given)}")
        body: Manifest = {
            "apiVersion": kind.api_version(request.version),
            "kind": kind.kind,
            "metadata": {"name": request.name},
        }
        replicas = (applied.get("spec") or {}).get("replicas")
        if replicas is not None:
            _check_replicas(kind, request, replicas)
            put(body, paths.spec, replicas)
        inner = replace(request, body=orjson.dumps(body), form="full", warnings=[])
        patch = self._patcher.build(kind, inner)

        def make(live: Manifest | None) -> Manifest:
            try:
                made = patch.make(live)
            except StatusError as error:
                raise _as_scale(error, body["apiVersion"]) from None
            if kind.custom:
                raise StatusError(500, "", _NO_CUSTOM_SCALE.format(request.name))
            return made

        answer = await self._writer.write(
            kind, inner, Build(make, creates=patch.creates, tracks=True)
        )
        return Answer(200, orjson.dumps(scale_of(kind, orjson.loads(answer.body), paths)))


def _as_scale(error: StatusError, api_version: str) -> StatusError:
    """Conflicts name the version of Scale."""
    text = orjson.dumps([error.message, error.details]).decode()
    text = text.replace(f" using {api_version}", f" using {_SCALE[0]}")
    message, details = orjson.loads(text)
    return StatusError(error.code, error.reason, message, details)


def _wanted_scale(request: Request, scale: Manifest) -> Manifest:
    body = orjson.loads(body_as_json(request) if request.verb == "update" else request.body)
    if request.verb == "update":
        given = body.get("kind") or "Scale"
        if given != "Scale":
            raise bad_request(
                f'{given} in version "v1" cannot be handled as a Scale: converting (v1.{given}) to '
                "(autoscaling.Scale): unknown conversion"
            )
        return dict(body)
    patched = (
        json_patch(scale, body) if request.content_type == JSON_PATCH else merge_patch(scale, body)
    )
    return dict(patched)


def _check_replicas(kind: Kind, request: Request, replicas: object) -> None:
    if isinstance(replicas, bool) or not isinstance(replicas, int):
        raise bad_request(
            'Scale in version "v1" cannot be handled as a Scale: spec.replicas must be an integer'
        )
    if not -(2**31) <= replicas < 2**31:
        raise bad_request(
            f'Scale in version "v1" cannot be handled as a Scale: json: cannot unmarshal number {replicas} '
            "into Go struct field ScaleSpec.spec.replicas of type int32"
        )
    if replicas < 0 and kind.custom:
        error = bad_value(".spec.replicas", replicas, "should be a non-negative integer")
        raise invalid(kind.group, kind.kind, request.name, [error])
    if replicas < 0:
        error = bad_value("spec.replicas", replicas, "must be greater than or equal to 0")
        raise invalid("autoscaling", "Scale", request.name, [error])

"""Renders manifests: on the event loop where the cost is bounded, else in the worker process."""

from __future__ import annotations

import asyncio
import contextlib
import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from ctrlruntime.clock import monotonic, perf
from internal.tenancy.rendering.checking import Report, check
from internal.tenancy.rendering.errors import LimitExceeded, RenderError, TemplateError
from internal.tenancy.rendering.limits import INLINE
from internal.tenancy.rendering.manifests import Manifest, render, strings
from internal.tenancy.rendering.templates import CACHED_TEMPLATES, Templates, is_large, namespace
from internal.tenancy.rendering.worker import Quarantine, Worker

MOST_INLINE_STRINGS = 500
MOST_TEMPLATES = 1000
"""Most template strings of one manifest: the rendering process has to compile them within its deadline."""
LONGEST_SLICE = 0.005
"""Seconds of compiling before the event loop gets its turn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RendererOptions:
    """`deadline`: seconds of the processor one manifest may take in the worker; `cached`: compiled templates kept."""

    deadline: float = 2.0
    cached: int = CACHED_TEMPLATES


class Renderer:
    """Renders and checks manifests. One is shared by all controllers of a process; close it at the end."""

    def __init__(
        self,
        options: RendererOptions | None = None,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._options = options or RendererOptions()
        self._templates = Templates(cached=self._options.cached)
        self._worker = Worker(deadline=self._options.deadline, clock=clock)
        self._quarantine = Quarantine(clock)
        self._namespace = ""

    def for_namespace(self, namespace: str | None) -> Renderer:
        """Return this renderer as used for a namespace, whose share of the worker's time it takes."""
        shared = copy.copy(self)
        shared._namespace = namespace or ""
        return shared

    @property
    def worker_starts(self) -> int:
        """How often a worker process was started: 0 until a template needs one."""
        return self._worker.restarts

    async def render(
        self,
        manifest: Mapping[str, Any],
        variables: Mapping[str, Any],
        lost: list[str] | None = None,
    ) -> Manifest:
        """Return the manifest rendered once with the variables. Raises RenderError, which quotes no value.

        What conversions such as `int` lost is added to `lost`, with its place and without the value.
        """
        lost = [] if lost is None else lost
        if not await self._inline(manifest):
            return await self._by_worker(manifest, variables, lost)
        meter = self._templates.meter
        try:
            meter.begin(INLINE)
            rendered = render(self._templates, manifest, namespace(variables))
            lost += meter.lost
            return rendered
        except RenderError as error:
            if not isinstance(error.__cause__, LimitExceeded):
                raise
        return await self._by_worker(manifest, variables, lost)

    async def check(self, manifest: Mapping[str, Any]) -> Report:
        """All errors that can be found without a row, and the variables the manifest reads.

        Raises RenderError for what is too large, or when the rendering process overran or was lost.
        """
        if await self._compiled(manifest):
            return check(self._templates, manifest)
        answer = await self._perform({"task": "check", "manifest": manifest, "variables": {}})
        return Report.from_json(answer["report"])

    async def close(self) -> None:
        """End the worker process, if there is one."""
        await self._worker.close()

    async def _compiled(self, manifest: Mapping[str, Any]) -> bool:
        """Compile what is not compiled yet, in slices; False: it has to be in the rendering process.

        Raises RenderError for what has more templates than can be compiled at all.
        """
        texts = list(dict.fromkeys(strings(manifest)))
        if len(texts) > MOST_TEMPLATES:
            raise RenderError(
                "",
                f"it has {len(texts)} different templates, more than the {MOST_TEMPLATES} allowed; "
                "split the resource, or write several values into one template",
            )
        unknown = [text for text in texts if not self._templates.known(text)]
        if len(texts) > MOST_INLINE_STRINGS or any(map(is_large, unknown)):
            return False
        started = perf()
        for text in unknown:
            with contextlib.suppress(TemplateError):
                self._templates.compile(text)
            if perf() - started > LONGEST_SLICE:
                await asyncio.sleep(0)
                started = perf()
        return True

    async def _inline(self, manifest: Mapping[str, Any]) -> bool:
        """Whether all of it may run on the event loop, where it is compiled then."""
        if not await self._compiled(manifest):
            return False
        for text in strings(manifest):
            with contextlib.suppress(TemplateError):
                if self._templates.compile(text).worker:
                    return False
        return True

    async def _by_worker(
        self, manifest: Mapping[str, Any], variables: Mapping[str, Any], lost: list[str]
    ) -> Manifest:
        job = {"task": "render", "manifest": manifest, "variables": dict(variables)}
        answer = await self._perform(job)
        lost += answer["lost"]
        rendered: Manifest = answer["manifest"]
        return rendered

    async def _perform(self, job: dict[str, Any]) -> dict[str, Any]:
        try:
            manifest = hash((self._namespace, orjson.dumps(job["manifest"])))
            keys = manifest, hash(orjson.dumps(job["variables"]))
        except TypeError:
            raise RenderError("", "the manifest is not plain JSON") from None
        if self._quarantine.refuses(*keys):
            raise RenderError(
                "",
                "rendering overran its deadline before and is tried again in a minute; "
                "simplify the loops or patterns of this resource",
                transient=True,
            )
        try:
            answer = await self._worker.perform(job, self._namespace)
        except RenderError:
            self._quarantine.record(*keys)
            raise
        if "message" in answer:
            raise RenderError(answer["path"], answer["message"])
        return answer

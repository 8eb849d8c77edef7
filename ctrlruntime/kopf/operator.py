"""An operator of kopf's handlers: a manager with a controller for each kind."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import replace
from typing import Any, Final, Protocol

import orjson

from ctrlruntime.client.client import Client
from ctrlruntime.client.config import Config
from ctrlruntime.clock import wall
from ctrlruntime.controller import Builder, ControllerOptions
from ctrlruntime.controller.predicates import more_than_status_changed
from ctrlruntime.kopf.admission import Review, path_of, serving, write_configurations
from ctrlruntime.kopf.bodies import Body, Logger, Memo
from ctrlruntime.kopf.errors import PermanentError
from ctrlruntime.kopf.handling import Attempts, Invocation, attempt
from ctrlruntime.kopf.indices import Indices
from ctrlruntime.kopf.kinds import ServedKind, keeps_records, served_kinds
from ctrlruntime.kopf.objects import Kind, ObjectHandling
from ctrlruntime.kopf.records import ConfigMapRecords, Records, StatusRecords
from ctrlruntime.kopf.registry import (
    ADMISSION,
    CHANGING,
    SPAWNING,
    Handler,
    OperatorRegistry,
    Selector,
    default_registry,
)
from ctrlruntime.kopf.settings import OperatorSettings
from ctrlruntime.kopf.tasks import ObjectTasks
from ctrlruntime.manager.http_message import ServerRequest, ServerResponse
from ctrlruntime.manager.manager import Manager
from ctrlruntime.manager.options import SERVICE_ACCOUNT_NAMESPACE, ManagerOptions

__all__ = ["operator"]

WORKERS: Final = 64
"""Objects of a kind that are handled at a time; kopf has no limit of its own."""
THREADS: Final = 256
"""Plain functions that run at a time: a thread is made when none is free."""
_LOGGER: Final = logging.getLogger("kopf.activities")


class Flag(Protocol):
    """A `threading.Event`, an `asyncio.Event` or alike."""

    def set(self) -> object: ...

    def is_set(self) -> bool: ...


async def operator(
    *,
    config: Config | None = None,
    options: ManagerOptions | None = None,
    registry: OperatorRegistry | None = None,
    settings: OperatorSettings | None = None,
    memo: Memo | None = None,
    namespaces: Sequence[str] = (),
    ready_flag: Flag | None = None,
    stop_flag: Flag | None = None,
) -> None:
    """Run handlers until cancelled, or until `stop_flag` is set.

    By default those of the default registry, on the cluster of the kubeconfig or the service account; `options`
    are the manager's. Raises KindNotServed, PermanentError of a startup handler, and what a manager raises.
    """
    async with running(
        config=config, options=options, registry=registry, settings=settings, memo=memo, namespaces=namespaces
    ) as manager:  # fmt: skip
        if ready_flag is not None:
            ready_flag.set()
        if isinstance(stop_flag, asyncio.Event):
            await stop_flag.wait()
        elif stop_flag is not None:
            while not stop_flag.is_set():  # noqa: ASYNC110 - set by another thread
                await asyncio.sleep(0.1)
        else:
            await asyncio.Event().wait()
        manager.logger.info("Operator is stopped by its flag")


@contextlib.asynccontextmanager
async def running(
    *,
    config: Config | None = None,
    options: ManagerOptions | None = None,
    registry: OperatorRegistry | None = None,
    settings: OperatorSettings | None = None,
    memo: Memo | None = None,
    namespaces: Sequence[str] = (),
) -> AsyncIterator[Manager]:
    """Run an operator for the length of a block, and clean up at its end; see `operator`."""
    registry = registry if registry is not None else default_registry()
    settings = settings if settings is not None else OperatorSettings()
    memo = memo if memo is not None else Memo()
    config = config if config is not None else await Config.load()
    if options is None:
        options = ManagerOptions(
            name="kopf", namespaces=tuple(namespaces) or None, metrics_bind_address="0", health_bind_address="0"
        )  # fmt: skip
    threads = ThreadPoolExecutor(THREADS, "kopf handler")
    made = Operator(registry, settings, memo, threads)
    try:
        await made.activities("startup")
        if settings.execution.max_workers is not None:
            made.threads = ThreadPoolExecutor(settings.execution.max_workers, "kopf handler")
        manager = await made.manager(config, options)
        try:
            async with manager.running():
                await made.install_webhooks(manager)
                yield manager
        finally:
            await made.activities("cleanup", must_succeed=False)
    finally:
        made.threads.shutdown(wait=False)
        threads.shutdown(wait=False)


class Operator:
    """Handlers with what they share."""

    def __init__(
        self, registry: OperatorRegistry, settings: OperatorSettings, memo: Memo, threads: Executor
    ) -> None:
        self.registry, self.settings, self.memo = registry, settings, memo
        self.threads = threads
        self.indices = Indices(threads)
        self.reviews: list[Review] = []

    async def activities(self, reason: str, *, must_succeed: bool = True) -> dict[str, Any]:
        """Call the handlers of the operator itself, again after errors; return what they return, by ID.

        Raises PermanentError if one fails for good and `must_succeed`.
        """
        results: dict[str, Any] = {}
        for handler in self.registry.of(reason):
            results[handler.id] = await self._activity(handler, must_succeed=must_succeed)
        return results

    async def _activity(self, handler: Handler, *, must_succeed: bool) -> Any:  # noqa: ANN401 - the user's own
        logger: Logger = _LOGGER
        kwargs = {"settings": self.settings, "memo": self.memo, "logger": logger}
        invocation = Invocation(None, asyncio.get_running_loop())
        state = Attempts()
        while True:
            call = attempt(handler, state, kwargs | self.indices.views, self.threads, logger)
            result = await invocation.call(call)
            if state.done:
                break
            await asyncio.sleep(max(0.0, state.delayed - wall()))
        if state.failed and must_succeed:
            raise PermanentError(f"the {handler.reason} handler {handler.id!r} failed")
        return result

    async def manager(self, config: Config, options: ManagerOptions) -> Manager:
        """Return a manager with a controller for each kind that has handlers."""
        options = replace(options, webhook=serving(options.webhook, self.settings.admission))
        manager = Manager(config, options)
        try:
            client = manager.cluster.live_client
            of_kinds = [handler for handler in self.registry.handlers if handler.selector]
            found = await served_kinds(client, {_selector(handler) for handler in of_kinds})
            by_kind: dict[ServedKind, list[Handler]] = {}
            for handler in of_kinds:
                by_kind.setdefault(found[_selector(handler)], []).append(handler)
            in_config_maps = ConfigMapRecords(client, options.name, namespace=_namespace(options))
            for served, handlers in by_kind.items():
                records = await self._records(client, served, handlers, in_config_maps)
                await self._add(manager, served, handlers, records)
        except BaseException:
            manager.close()
            await client.close()
            raise
        if self.registry.of("probe"):
            manager.add_metrics_handler("/probes", self._probe)
        return manager

    async def _records(
        self, client: Client, served: ServedKind, handlers: list[Handler], others: ConfigMapRecords
    ) -> Records:
        if not any(handler.reason in CHANGING for handler in handlers):
            return StatusRecords()  # nothing is recorded
        where = self.settings.persistence.records
        if where == "status" or (where == "auto" and await keeps_records(client, served.mapping)):
            return StatusRecords()
        return others

    async def _add(
        self, manager: Manager, served: ServedKind, handlers: list[Handler], records: Records
    ) -> None:
        kind = Kind(
            mapping=served.mapping, handlers=handlers, records=records, has_status=served.has_status
        )
        handling = ObjectHandling(
            kind, manager, self.indices, self.memo, self.threads, self.settings.persistence.finalizer
        )  # fmt: skip
        for handler in kind.of(*ADMISSION):
            review = Review(handler, handling, path_of(handler, kind.mapping))
            manager.webhooks.handle(review.path, review)
            self.reviews.append(review)
        if all(handler.reason in ADMISSION for handler in handlers):
            return
        if indexing := kind.of("index"):

            def cause_of(body: Body) -> Any:  # noqa: ANN401
                return handling.cause("index", body, Memo())

            self.indices.add(indexing, lambda: manager.cache.entries(kind.mapping), cause_of)
        tasks = ObjectTasks(handling) if kind.of(*SPAWNING) else None
        if tasks is not None:
            handling.changed = tasks.notify
        filters = (more_than_status_changed,) if _ignores_status(handlers) else ()
        workers = self.settings.batching.worker_limit or WORKERS
        gvk = served.mapping.gvk
        name = f"{served.mapping.plural}.{gvk.group}" if gvk.group else served.mapping.plural
        (
            Builder(manager)
            .for_(
                kind.mapping,
                predicates=(handling.note, *filters),
                daemon=None if tasks is None else tasks.follow,
            )
            .named(name)
            .options(ControllerOptions(max_concurrent_reconciles=workers))
            .build(handling.reconcile)
        )

    async def install_webhooks(self, manager: Manager) -> None:
        """Write the webhook configurations, if the settings name some. Raises APIError."""
        admission, options = self.settings.admission, manager.options
        if admission.managed and self.reviews:
            await write_configurations(
                manager.cluster.live_client, self.reviews, admission, options.webhook, _namespace(options)
            )  # fmt: skip

    async def _probe(self, _: ServerRequest) -> ServerResponse:
        results = await self.activities("probe", must_succeed=False)
        return ServerResponse(orjson.dumps(results, default=str), content_type="application/json")


def _selector(handler: Handler) -> Selector:
    assert handler.selector is not None  # noqa: S101 - of those that have one
    return handler.selector


def _ignores_status(handlers: list[Handler]) -> bool:
    """Whether changes of the status alone lead to no handler."""
    return all(
        handler.reason in CHANGING and handler.field[:1] != ("status",) for handler in handlers
    )


def _namespace(options: ManagerOptions) -> str:
    try:
        return options.leader_election_namespace or SERVICE_ACCOUNT_NAMESPACE.read_text().strip()
    except OSError:
        return "default"

"""What a builder needs of the manager that its controller is added to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from structlog.typing import FilteringBoundLogger

from ctrlruntime.controller.controller import Controller
from ctrlruntime.controller.loop_yielder import LoopYielder
from ctrlruntime.controller.metrics import ControllerMetrics
from ctrlruntime.controller.options import ControllerOptions, Settings
from ctrlruntime.controller.reconcile import Reconciler
from ctrlruntime.queue import QueueCore
from ctrlruntime.sharding.ownership import SlotOwnership
from ctrlruntime.tracing import Tracing

if TYPE_CHECKING:
    from ctrlruntime.cache.cache import Cache


class MetricsRegistry(Protocol):
    """Where a controller's series live."""

    def controller(self, name: str, workers: int, cluster: str = "") -> ControllerMetrics: ...

    def watch_queue(self, name: str, queue: QueueCore[Any], cluster: str = "") -> None: ...

    def unwatch_queue(self, name: str, queue: QueueCore[Any], cluster: str) -> None: ...


class ControllerHost(Protocol):
    """What a builder needs of a manager."""

    @property
    def cache(self) -> Cache: ...
    @property
    def controller_defaults(self) -> ControllerOptions: ...
    @property
    def controller_metrics(self) -> MetricsRegistry: ...
    @property
    def logger(self) -> FilteringBoundLogger: ...
    @property
    def tracing(self) -> Tracing: ...
    @property
    def pace(self) -> LoopYielder: ...
    @property
    def shards(self) -> SlotOwnership | None: ...
    def claim_controller_name(self, name: str) -> None: ...
    def prepare_controller(
        self, name: str, settings: Settings, reconciler: Reconciler[Any]
    ) -> tuple[Settings, Reconciler[Any]]: ...
    def add(self, runnable: Controller[Any], /) -> None: ...

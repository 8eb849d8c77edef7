"""Options of controllers and how they are inherited."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import TypeVar

from ctrlruntime.api.kinds import GroupKind
from ctrlruntime.queue.core import Ageing
from ctrlruntime.queue.limiters import ItemExponential, Limiter

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerOptions:
    """Options of one controller, or of all when given to the manager.

    ``None`` inherits: from the manager's options, then from the default named with each field.
    """

    max_concurrent_reconciles: int | None = None
    """Workers; 1."""
    group_kind_concurrency: Mapping[str, int] | None = None
    """Workers by "Kind.group" ("Deployment.apps", "ConfigMap"); only read from the manager's options."""
    cache_sync_timeout: float | None = None
    """Seconds each source has to deliver its first list; 120."""
    reconciliation_timeout: float | None = None
    """Seconds after which a run is cancelled; 0, which is none."""
    recover_panic: bool | None = None
    """Whether a bug in a reconciler (TypeError, KeyError, ...) is an error like any other; True.
    With False it stops the manager."""
    needs_leader_election: bool | None = None
    """Whether only the leader runs it; True."""
    enable_warmup: bool | None = None
    """Whether sources start, and the queue fills, before this process is elected; False."""
    limiter: Callable[[], Limiter] | None = None
    """Makes the retry limiter; exponential per item, 5 ms to 1000 s."""
    ageing: Ageing | None = None
    """Protects low priorities from starvation; patience 30 s, a share of one in four."""
    skip_name_validation: bool | None = None
    """Allows two controllers of one name, whose metrics then add up; False."""

    def over(self, defaults: ControllerOptions) -> ControllerOptions:
        """Return these options, those not given taken from ``defaults``."""
        values = {
            field.name: getattr(self, field.name)
            if getattr(self, field.name) is not None
            else getattr(defaults, field.name)
            for field in fields(self)
        }
        return ControllerOptions(**values)

    def settings(self) -> Settings:
        """Return the values in force. Raises ValueError for impossible ones."""
        workers = _given(self.max_concurrent_reconciles, 1)
        if workers < 1:
            raise ValueError(f"max_concurrent_reconciles must be at least 1, not {workers}")
        return Settings(
            workers=workers,
            cache_sync_timeout=_given(self.cache_sync_timeout, 120.0),
            reconciliation_timeout=self.reconciliation_timeout or None,
            recover_panic=_given(self.recover_panic, True),
            needs_leader_election=_given(self.needs_leader_election, True),
            enable_warmup=_given(self.enable_warmup, False),
            limiter=self.limiter if self.limiter is not None else ItemExponential,
            ageing=_given(self.ageing, Ageing()),
            skip_name_validation=_given(self.skip_name_validation, False),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What a controller runs with: :class:`ControllerOptions` with every default filled in."""

    workers: int
    cache_sync_timeout: float
    reconciliation_timeout: float | None
    recover_panic: bool
    needs_leader_election: bool
    enable_warmup: bool
    limiter: Callable[[], Limiter]
    ageing: Ageing
    skip_name_validation: bool


def merged(
    own: ControllerOptions, manager: ControllerOptions, kind: GroupKind | None = None
) -> Settings:
    """Own options beat the manager's concurrency for ``kind``, that its general ones, those the defaults."""
    combined = own.over(manager)
    if own.max_concurrent_reconciles is None and kind is not None:
        by_kind = (manager.group_kind_concurrency or {}).get(str(kind))
        if by_kind is not None:
            combined = ControllerOptions(max_concurrent_reconciles=by_kind).over(combined)
    return combined.settings()


def _given(value: T | None, default: T) -> T:
    return default if value is None else value

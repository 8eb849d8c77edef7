"""Why a cached read was refused. Each message names what to change."""

from ctrlruntime.api.kinds import GroupVersionKind


class CacheError(Exception):
    """A mistake in how the cache is used, never a fault of the server."""


class CacheSyncTimeout(TimeoutError):
    """Kinds were not read within their sync timeout. The message names them, and what to change."""


class CacheNotStarted(CacheError):
    """A read before the cache was started."""

    def __init__(self) -> None:
        super().__init__(
            "the cache is not started; read after the manager has started, or use manager.live_client"
        )


class UndeclaredKind(CacheError):
    """A read of a kind that no informer was declared for."""

    def __init__(self, gvk: GroupVersionKind) -> None:
        super().__init__(
            f"{gvk} is not declared: a read would need a watch that was not requested. Declare it with "
            f'builder.owns/watches or manager.cache.declare("{gvk.api_version}/{gvk.kind}") in setup, or read it once by '
            "manager.live_client"
        )
        self.gvk = gvk


class NotSynced(CacheError):
    """A read of a kind whose first list is not through."""

    def __init__(self, gvk: GroupVersionKind, error: BaseException | None) -> None:
        why = f"; last error: {error}" if error is not None else ""
        super().__init__(
            f"the informer of {gvk} has not read its first list yet; await its wait_synced() first{why}"
        )
        self.gvk = gvk


class OutsideCache(CacheError):
    """A read of a namespace that the kind is not watched in."""

    def __init__(self, gvk: GroupVersionKind, namespace: str, watched: list[str]) -> None:
        super().__init__(
            f"{gvk}: namespace {namespace!r} is not watched, only {', '.join(watched)}; "
            "declare the kind with that namespace or use manager.live_client"
        )


class OnlyMetadata(CacheError):
    """A read of the whole object where only metadata is watched."""

    def __init__(self, gvk: GroupVersionKind) -> None:
        super().__init__(
            f"{gvk} is watched as metadata only; read it with metadata_only=True, or declare it "
            "without metadata_only before the cache starts"
        )


class UnsupportedRead(CacheError):
    """An option that only a server can honour, such as ``continue`` or a ``!=`` field selector."""

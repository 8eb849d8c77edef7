"""All verbs on all kinds, live. Typed kinds give typed objects, all others plain manifests."""

from collections.abc import Callable
from typing import Self

from structlog.typing import FilteringBoundLogger

from ctrlruntime.api.kinds import Manifest
from ctrlruntime.client.arguments import check_config, check_connect_options
from ctrlruntime.client.call import Defaults, FieldValidation, Propagation
from ctrlruntime.client.config import Config
from ctrlruntime.client.fence import Fence
from ctrlruntime.client.metrics import RequestObserver
from ctrlruntime.client.patches import PatchType
from ctrlruntime.client.reads import ListPage, Reader
from ctrlruntime.client.transport import Transport, TransportOptions
from ctrlruntime.client.writes import Writer

__all__ = ["Client", "FieldValidation", "ListPage", "Manifest", "PatchType", "Propagation"]


class Client(Reader, Writer):
    """Reads and writes an API server. Every call goes to the server; see ``Cache.client()`` for cached reads.

    A call raises APIError (by type: NotFound, Conflict, Invalid, ...) for what the server refuses,
    TransportError where no answer came, WriteOutcomeUnknown where a write may have been carried out.
    ``namespaced``, ``dry_run``, ``field_owner`` and ``field_validation`` give clients with other
    defaults on the same connection; what a call sets itself always wins.
    """

    @classmethod
    def connect(
        cls,
        config: Config,
        options: TransportOptions | None = None,
        *,
        observer: RequestObserver | None = None,
        defaults: Defaults | None = None,
        fence: Fence | None = None,
        delay: Callable[[], float] | None = None,
        on_warning: Callable[[str], None] | None = None,
        logger: FilteringBoundLogger | None = None,
    ) -> Self:
        """Return a client with a transport of its own; no request is made yet. Close it when done.

        ``fence`` is asked about every write in the moment it is sent; see :class:`Transport`.
        ``delay`` returns the seconds that each request waits; ``on_warning`` receives the server's warnings.
        ``logger`` receives warnings and failures, by default structlog's own. Raises TypeError for a ``config`` or
        options of another type.
        """
        check_config(config)
        check_connect_options(options, defaults)
        transport = Transport(
            config,
            options,
            observer=observer,
            fence=fence,
            delay=delay,
            on_warning=on_warning,
            logger=logger,
        )
        return cls(transport, defaults=defaults)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        await self.transport.close()

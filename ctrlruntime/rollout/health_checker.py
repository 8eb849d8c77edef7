"""Evaluates the health checks of rollouts: queries of Prometheus, and hooks, at addresses that the manager allows."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from ipaddress import ip_network
from pathlib import Path
from typing import Any, Final

import aiohttp
import orjson
from yarl import URL

from ctrlruntime.intake import describe_error
from ctrlruntime.outbound_addresses import LOOPBACK, Network
from ctrlruntime.outbound_http import displayed_url, outbound_session
from ctrlruntime.queue import Request
from ctrlruntime.rollout.health import CheckedTarget, CheckResult
from ctrlruntime.rollout.health_checks import HealthCheck, HealthCheckState

__all__ = ["HealthChecker", "is_allowed"]

LARGEST_ANSWER: Final = 1 << 20
_OK: Final = 200
Answer = tuple[HealthCheckState, str]


class _NoResult(Exception):
    """A check gave no usable answer; the message names the reason."""


@dataclass(slots=True)
class _Known:
    """One check of one rollout."""

    of: tuple[HealthCheck, CheckedTarget]
    """What the result is of."""
    began: datetime
    result: CheckResult | None = None
    task: asyncio.Task[None] | None = None


@dataclass(slots=True)
class HealthChecker:
    """Keeps the last results, and evaluates each check once in its period while its results are read.

    `allowed`: addresses that checks may be below; `token_file` holds a bearer token for them. `notify` is called
    when a rollout has a new result. `remedy` is what allows an address, which is added to it.
    """

    allowed: Sequence[str]
    notify: Callable[[Request], None]
    clock: Callable[[], datetime]
    token_file: Path | None = None
    remedy: str = "allow"
    _known: dict[Request, dict[str, _Known]] = field(default_factory=dict)
    _http: aiohttp.ClientSession | None = None

    def results(
        self,
        request: Request,
        checks: Sequence[HealthCheck],
        target: CheckedTarget,
        now: datetime,
    ) -> Mapping[str, CheckResult]:
        """Return the last results by name, and begin to evaluate the checks whose period is over."""
        known = self._known.setdefault(request, {})
        names = {check.name for check in checks}
        for name in known.keys() - names:
            _cancel(known.pop(name))
        for check in checks:
            found = known.get(check.name)
            if found is None or found.of != (check, target):
                if found is not None:
                    _cancel(found)
                found = known[check.name] = _Known((check, target), now)
                self._begin(request, found, now)
            elif found.task is None and now >= found.began + _period(check):
                self._begin(request, found, now)
        return {name: item.result for name, item in known.items() if item.result is not None}

    def forget(self, request: Request) -> None:
        """Drop the results of a rollout, and end what is being evaluated for it."""
        for item in self._known.pop(request, {}).values():
            _cancel(item)

    async def aclose(self) -> None:
        """End everything that is being evaluated."""
        items = [item for known in self._known.values() for item in known.values()]
        tasks = [item.task for item in items if item.task is not None]
        for request in [*self._known]:
            self.forget(request)
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._http is not None:
            await self._http.close()

    def _begin(self, request: Request, known: _Known, now: datetime) -> None:
        known.began = now
        known.task = asyncio.get_running_loop().create_task(self._evaluate(request, known))

    async def _evaluate(self, request: Request, known: _Known) -> None:
        check, target = known.of
        try:
            async with asyncio.timeout(check.timeout_seconds):
                state, message = await self._answer(check, target)
        except TimeoutError:
            text = f"no answer within {check.timeout_seconds} s"
            state, message = HealthCheckState.UNKNOWN, text
        except _NoResult as error:
            state, message = HealthCheckState.UNKNOWN, str(error)
        except Exception as error:  # noqa: BLE001 - whatever a check meets is no result
            state, message = HealthCheckState.UNKNOWN, f"{type(error).__name__} while it was read"
        known.result = CheckResult(state, message, self.clock())
        known.task = None
        self.notify(request)

    async def _answer(self, check: HealthCheck, target: CheckedTarget) -> Answer:
        if check.prometheus is not None:
            url = URL(check.prometheus.url) / "api/v1/query"
            query = url.with_query(query=check.prometheus.query)
            return _of_prometheus(*await self._sent("GET", query))
        if check.hook is not None:
            return _of_hook(*await self._sent("POST", URL(check.hook.url), target.subject))
        raise _NoResult("it names neither prometheus nor hook")

    async def _sent(
        self, method: str, url: URL, body: Mapping[str, str] | None = None
    ) -> tuple[int, bytes]:
        """Send one request. Redirects are not followed: they may lead to an address that is not allowed."""
        if not is_allowed(url, self.allowed):
            raise _NoResult(f"{displayed_url(url)} is not allowed: {self.remedy} {url.origin()}")
        if self._http is None:
            self._http = outbound_session(_named_networks(self.allowed))
        try:
            async with self._http.request(
                method, url, json=body, headers=self._headers(), allow_redirects=False
            ) as answer:
                content = bytearray()
                async for chunk in answer.content.iter_chunked(65536):
                    content += chunk
                    if len(content) > LARGEST_ANSWER:
                        raise _NoResult(
                            f"{displayed_url(url)} answered more than {LARGEST_ANSWER} bytes"
                        )
                return answer.status, bytes(content)
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise _NoResult(
                f"{displayed_url(url)} does not answer: {describe_error(error)}"
            ) from error

    def _headers(self) -> dict[str, str]:
        if self.token_file is None:
            return {}
        try:
            token = self.token_file.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise _NoResult(f"{self.token_file} cannot be read: {type(error).__name__}") from None
        return {"Authorization": f"Bearer {token}"}


def _named_networks(allowed: Sequence[str]) -> list[Network]:
    """Return the addresses that the manager's options name as such, and not by a name that is resolved."""
    found: list[Network] = []
    for each in allowed:
        host = URL(each).host or ""
        if host == "localhost":
            found += LOOPBACK
        with suppress(ValueError):
            found.append(ip_network(host))
    return found


def is_allowed(url: URL, allowed: Sequence[str]) -> bool:
    """Whether an address is below one of those that are allowed: the same scheme, host and port, and the path below."""
    for each in allowed:
        base = URL(each)
        root = base.path.rstrip("/")
        same = url.scheme == base.scheme and url.host == base.host and url.port == base.port
        below = url.path.rstrip("/") == root or url.path.startswith(f"{root}/")
        if same and below and url.user is None and ".." not in url.raw_parts:
            return True
    return False


def _of_prometheus(status: int, body: bytes) -> Answer:
    """Return the result of an instant query: failing while it finds something."""
    answer = _json(status, body)
    if answer.get("status") != "success":
        raise _NoResult(f"Prometheus answered {status}, and no result: try the query there")
    data = answer.get("data") or {}
    kind, found = data.get("resultType"), data.get("result")
    if kind == "scalar" and isinstance(found, list):
        return _of_samples(int(float(str(found[-1])) != 0))
    if kind in ("vector", "matrix") and isinstance(found, list):
        return _of_samples(len(found))
    raise _NoResult("the query gives another type: write one that gives samples or a number")


def _of_samples(number: int) -> Answer:
    if not number:
        return HealthCheckState.HEALTHY, "the query finds nothing"
    return HealthCheckState.FAILING, f"the query finds {number} sample{'' if number == 1 else 's'}"


def _of_hook(status: int, body: bytes) -> Answer:
    if status != _OK:
        raise _NoResult(f"the hook answered {status}, and 200 is wanted")
    answer = _json(status, body)
    healthy = answer.get("healthy")
    if not isinstance(healthy, bool):
        raise _NoResult('the hook answered no JSON with "healthy": true or false')
    if healthy:
        return HealthCheckState.HEALTHY, "the hook answers that it is healthy"
    return HealthCheckState.FAILING, "the hook answers that it is not healthy"


def _json(status: int, body: bytes) -> dict[str, Any]:
    try:
        answer = orjson.loads(body)
    except orjson.JSONDecodeError:
        answer = None
    if not isinstance(answer, dict):
        raise _NoResult(f"the answer, {status}, is no JSON object")
    return answer


def _period(check: HealthCheck) -> timedelta:
    return timedelta(seconds=check.period_seconds)


def _cancel(item: _Known) -> None:
    if item.task is not None:
        item.task.cancel()

"""Assertions on what an API server comes to hold, by watch and with a time limit (komega's idea).

    pod = await eventually(client, POD, "web-0", {"status": {"phase": "Running"}}, namespace="shop")

While nothing changes, nothing is requested. After the timeout, AssertionError shows what was still
missing at the last state seen, the object's conditions and events, and the last errors of controllers
that run in this process.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Any, TypeVar, cast, overload

import orjson

from ctrlruntime.api.kinds import GroupVersionKind, Manifest
from ctrlruntime.api.resource import KindRef, Resource, UntypedKindRef, gvk_of
from ctrlruntime.client.client import Client
from ctrlruntime.client.errors import Expired, TransportError
from ctrlruntime.envtest.situation import situation

Expected = Any
"""A part of a manifest; see `differences`."""
_KEYS = ("type", "name", "containerPort", "ip")

TIMEOUT = 60.0
"""Seconds. Only a test that fails waits so long; a busy machine takes a while for what is well."""


R = TypeVar("R", bound=Resource[Any, Any])
T = TypeVar("T")


@overload
async def eventually(
    client: Client,
    kind: type[R],
    name: str,
    expect: Expected = ...,
    *,
    namespace: str | None = None,
    timeout: float = ...,
) -> R: ...
@overload
async def eventually(
    client: Client,
    kind: UntypedKindRef,
    name: str,
    expect: Expected = ...,
    *,
    namespace: str | None = None,
    timeout: float = ...,
) -> Manifest: ...
async def eventually(
    client: Client,
    kind: KindRef,
    name: str,
    expect: Expected = ...,
    *,
    namespace: str | None = None,
    timeout: float = TIMEOUT,
) -> Any:
    """Wait until the object is as expected, and return it (typed for typed kinds).

    `expect` is part of a manifest (see `differences`) or a function of the object that returns
    whether it is well or asserts. Raises AssertionError after `timeout` seconds.
    """
    last, seen = ["no answer yet"], None
    try:
        async with (
            asyncio.timeout(timeout),
            aclosing(_states(client, kind, name, namespace)) as states,
        ):
            async for state in states:
                seen = state
                last = ["there is no such object"] if state is None else _compare(expect, state)
                if not last:
                    return state
    except TimeoutError:
        pass
    last += await _situation(client, kind, name, namespace, seen)
    raise AssertionError(f"{_title(kind, name, namespace)} after {timeout:g} s:\n{_lines(last)}")


async def eventually_gone(
    client: Client,
    kind: KindRef,
    name: str,
    *,
    namespace: str | None = None,
    timeout: float = TIMEOUT,
) -> None:
    """Wait until the object does not exist. AssertionError tells what holds it."""
    last, seen = None, None
    try:
        async with (
            asyncio.timeout(timeout),
            aclosing(_states(client, kind, name, namespace)) as states,
        ):
            async for state in states:
                if state is None:
                    return
                seen, last = state, _manifest(state)["metadata"]
    except TimeoutError:
        pass
    last = last or {}
    more = _lines(await _situation(client, kind, name, namespace, seen))
    raise AssertionError(
        f"{_title(kind, name, namespace)} is still there after {timeout:g} s; deletionTimestamp "
        f"{last.get('deletionTimestamp')}, finalizers {last.get('finalizers', [])}\n{more}".rstrip()
    )


async def consistently(
    client: Client,
    kind: KindRef,
    name: str,
    expect: Expected = ...,
    *,
    namespace: str | None = None,
    seconds: float = 1.0,
) -> None:
    """Fail at the first state within `seconds` in which the object is not as expected."""
    try:
        async with (
            asyncio.timeout(seconds),
            aclosing(_states(client, kind, name, namespace)) as states,
        ):
            async for state in states:
                last = ["there is no such object"] if state is None else _compare(expect, state)
                if last:
                    last += await _situation(client, kind, name, namespace, state)
                    raise AssertionError(f"{_title(kind, name, namespace)}:\n{_lines(last)}")
    except TimeoutError:
        return


@overload
async def eventually_holds(
    question: Callable[[], Awaitable[T | None]], *, timeout: float = ..., interval: float = ...
) -> T: ...
@overload
async def eventually_holds(
    question: Callable[[], T | None], *, timeout: float = ..., interval: float = ...
) -> T: ...
async def eventually_holds(
    question: Callable[[], object], *, timeout: float = TIMEOUT, interval: float = 0.02
) -> object:
    """Poll until the answer is true, and return it; for what no watch reports.

    AssertionErrors of the question are its way to say no. Raises AssertionError with the last of
    them, or the last answer, after `timeout` seconds.
    """
    last = "no answer yet"
    try:
        async with asyncio.timeout(timeout):
            while True:
                try:
                    answer = question()
                    if inspect.isawaitable(answer):
                        answer = await answer
                    if answer:
                        return answer
                    last = f"the answer was {answer!r}"
                except AssertionError as error:
                    last = str(error)
                await asyncio.sleep(interval)
    except TimeoutError:
        name = getattr(question, "__qualname__", repr(question))
        raise AssertionError(f"{name} after {timeout:g} s: {last}") from None


async def _states(
    client: Client, kind: KindRef, name: str, namespace: str | None
) -> AsyncGenerator[Any, None]:
    """Yield the object now and after each change; None while it does not exist."""
    fields = f"metadata.name={name}"
    while True:
        pages = client.pages(cast("GroupVersionKind", kind), namespace, fields=fields)
        async with aclosing(pages):
            page = await anext(pages)
        yield page.items[0] if page.items else None
        events = client.watch(
            cast("GroupVersionKind", kind),
            namespace,
            fields=fields,
            resource_version=page.resource_version,
        )
        try:
            async with aclosing(events):
                async for type_, obj in events:
                    if type_ != "BOOKMARK":
                        yield None if type_ == "DELETED" else obj
        except (Expired, TransportError):
            continue


async def _situation(
    client: Client,
    kind: KindRef,
    name: str,
    namespace: str | None,
    state: Resource[Any, Any] | Manifest | None,
) -> list[str]:
    last = None if state is None else _manifest(state)
    return await situation(client, gvk_of(kind).kind, name, namespace=namespace, last=last)


def _lines(texts: list[str]) -> str:
    return "\n".join(f"  {text}" for text in texts)


def _compare(expect: Expected, state: Resource[Any, Any] | Manifest) -> list[str]:
    return differences(expect, state if callable(expect) else _manifest(state))


def _manifest(state: Resource[Any, Any] | Manifest) -> Manifest:
    return state.to_manifest() if isinstance(state, Resource) else state


def _title(kind: KindRef, name: str, namespace: str | None) -> str:
    return f"{gvk_of(kind).kind} {namespace + '/' if namespace else ''}{name}"


__all__ = [
    "consistently",
    "differences",
    "eventually",
    "eventually_gone",
    "eventually_holds",
]


def differences(expected: Expected, actual: object, path: str = "") -> list[str]:
    """One line for each place where `actual` is not as `expected`; empty if it is.

    Objects are expected in part: fields not named do not matter. Lists of objects with a key
    (`type`, `name`, ...) are matched by it and may hold more; other lists must be equal item by
    item. `None` expects that there is no value, `...` that there is one, and a callable is asked.
    """
    if callable(expected):
        return _asked(expected, actual, path)
    if expected is ...:
        return [f"{_at(path)}: is missing"] if actual is None else []
    if isinstance(expected, Mapping):
        if not isinstance(actual, Mapping):
            return [f"{_at(path)}: expected an object, there is {_show(actual)}"]
        return [
            line
            for key, value in expected.items()
            for line in differences(value, actual.get(key), f"{path}.{key}" if path else str(key))
        ]
    if isinstance(expected, list | tuple):
        return _lists(expected, actual, path)
    if expected != actual:
        return [f"{_at(path)}: expected {_show(expected)}, there is {_show(actual)}"]
    return []


def _asked(question: Callable[[Any], Any], actual: object, path: str) -> list[str]:
    try:
        answer = question(actual)
    except (AssertionError, LookupError, TypeError, AttributeError) as error:
        return [f"{_at(path)}: {type(error).__name__}: {error}"]
    if answer is None or answer:
        return []
    name = getattr(question, "__name__", "the condition")
    return [f"{_at(path)}: {name} does not hold for {_show(actual)}"]


def _lists(expected: Sequence[Any], actual: object, path: str) -> list[str]:
    if not isinstance(actual, list):
        return [f"{_at(path)}: expected a list, there is {_show(actual)}"]
    key = _key(expected)
    if key is not None:
        found = {item.get(key): item for item in actual if isinstance(item, Mapping)}
        lines: list[str] = []
        for item in expected:
            where = f"{path}[{key}={item[key]}]"
            if item[key] in found:
                lines += differences(item, found[item[key]], where)
            else:
                lines.append(f"{where}: is missing; there are {_show(sorted(map(str, found)))}")
        return lines
    if len(expected) != len(actual):
        return [f"{_at(path)}: expected {len(expected)} items, there are {_show(actual)}"]
    pairs = enumerate(zip(expected, actual, strict=True))
    return [line for i, (e, a) in pairs for line in differences(e, a, f"{path}[{i}]")]


def _key(expected: Sequence[Any]) -> str | None:
    for key in _KEYS:
        if expected and all(
            isinstance(item, Mapping) and isinstance(item.get(key), str | int) for item in expected
        ):
            return key
    return None


def _at(path: str) -> str:
    return path or "the object"


def _show(value: object) -> str:
    text = orjson.dumps(value, default=str, option=orjson.OPT_NON_STR_KEYS).decode()
    return text if len(text) <= 300 else f"{text[:300]}..."

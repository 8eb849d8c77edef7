"""Watch streams under fault rules: lines in, steps out. No I/O."""

from __future__ import annotations

from typing import Final

import msgspec

from ctrlruntime.envtest.proxy.requests import RequestInfo
from ctrlruntime.envtest.proxy.rules import (
    ActiveRule,
    CutWatch,
    DelayEvents,
    DropEvents,
    GoneWatch,
    RuleSet,
)


class Pass(msgspec.Struct, frozen=True):
    data: bytes


class Wait(msgspec.Struct, frozen=True):
    """All that follows comes `seconds` later."""

    seconds: float


class End(msgspec.Struct, frozen=True):
    """The stream ends here; `clean` as a server ends it."""

    clean: bool


Step = Pass | Wait | End

EXPIRED: Final = (
    b'{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","metadata":{},'
    b'"status":"Failure","message":"too old resource version (injected by envtest.Proxy)",'
    b'"reason":"Expired","code":410}}\n'
)


class _Meta(msgspec.Struct):
    name: str = ""
    namespace: str = ""


class _Object(msgspec.Struct):
    metadata: _Meta = msgspec.field(default_factory=_Meta)


class _Event(msgspec.Struct):
    type: str
    object: _Object


_EVENT = msgspec.json.Decoder(_Event)


class WatchFilter:
    """One watch stream. Without a rule that concerns it, bytes pass unparsed."""

    __slots__ = ("_carry", "_info", "_rules", "fired")

    def __init__(self, info: RequestInfo, rules: RuleSet) -> None:
        self._info = info
        self._rules = rules
        self._carry = b""  # an incomplete line not yet passed on
        self.fired: list[ActiveRule] = []

    def feed(self, payload: bytes) -> list[Step]:
        """Return what becomes of `payload`; rules that fired are put into `fired`."""
        if not self._rules or not self._rules.concerns_stream(self._info):
            data = self._carry + payload if self._carry else payload
            self._carry = b""
            return [Pass(data)]
        return self._by_line(payload)

    def _by_line(self, payload: bytes) -> list[Step]:
        lines = (self._carry + payload).split(b"\n")
        self._carry = lines.pop()
        steps: list[Step] = []
        for line in lines:
            steps.extend(self._line(line + b"\n"))
            if steps and isinstance(steps[-1], End):
                break
        return steps

    def _line(self, line: bytes) -> list[Step]:
        try:
            event = _EVENT.decode(line)
        except msgspec.DecodeError:
            # Its start went through before a rule came: the event cannot be taken back.
            return [Pass(line)]
        meta = event.object.metadata
        active = self._rules.on_event(self._info, event.type, meta.namespace, meta.name)
        if active is None:
            return [Pass(line)]
        self.fired.append(active)
        match active.rule.action:
            case DropEvents():
                return []
            case DelayEvents(seconds=seconds):
                return [Wait(seconds), Pass(line)]
            case GoneWatch():
                return [Pass(EXPIRED), End(clean=True)]
            case CutWatch(clean=clean):
                return [End(clean)]
            case _:
                return [Pass(line)]

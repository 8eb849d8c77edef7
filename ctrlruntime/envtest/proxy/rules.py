"""Fault rules: which requests they meet and what happens to them. No I/O.

A rule is a `Match`, an action and an ordinal: it fires on the `nth` request that matches and on
the `times - 1` matching requests after it. Rules are asked in the order they were added; the
first that fires decides. Every rule counts what it matches, also when another one decides.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import ClassVar, Literal

import msgspec

from ctrlruntime.envtest.proxy.requests import READS, WRITES, RequestInfo
from ctrlruntime.envtest.proxy.stale import Answers

Phase = Literal["before", "after"]


class Match(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which requests (or, for watch faults, which watch streams and events) are meant.

    `verb` is a verb of the log, "write" for all that write or "read" for get and list.
    `resource` is written as in the log (`deployments.apps/status`). All but `verb` may hold
    shell wildcards (`*`). What is left out matches everything. For watch faults `name` and
    `namespace` are those of the object in the event.
    """

    user: str | None = None
    verb: str | None = None
    resource: str | None = None
    namespace: str | None = None
    name: str | None = None

    def meets(self, info: RequestInfo) -> bool:
        return (
            self._verb_meets(info.verb)
            and _glob(self.user, info.user)
            and _glob(self.resource, info.resource)
            and _glob(self.namespace, info.namespace)
            and _glob(self.name, info.name)
        )

    def meets_stream(self, info: RequestInfo) -> bool:
        """Whether a watch stream may carry events that are meant."""
        return _glob(self.user, info.user) and _glob(self.resource, info.resource)

    def meets_object(self, namespace: str, name: str) -> bool:
        return _glob(self.namespace, namespace) and _glob(self.name, name)

    def _verb_meets(self, verb: str) -> bool:
        if self.verb is None:
            return True
        if self.verb == "write":
            return verb in WRITES
        if self.verb == "read":
            return verb in READS
        return self.verb == verb


def _glob(pattern: str | None, value: str) -> bool:
    return pattern is None or pattern == value or fnmatchcase(value, pattern)


class _Action(msgspec.Struct, frozen=True, kw_only=True, tag=True, forbid_unknown_fields=True):
    """What a rule does."""


class Kill(_Action, frozen=True):
    """SIGKILL for process `pid`; the request's connection is cut.

    `before`: the request is not forwarded. `after`: the server has answered with success, the
    answer never goes out; only committed writes are then counted towards `nth`.
    """

    pid: int
    when: Phase = "before"

    def __post_init__(self) -> None:
        if self.pid <= 1:
            raise ValueError(f"pid {self.pid} names no single process that may be killed")


class LoseReply(_Action, frozen=True):
    """The connection is cut after the server has answered: the work is done, the reply is lost."""


class Delay(_Action, frozen=True):
    """The request waits `seconds` before it is forwarded, or the answer before it is passed on."""

    seconds: float
    when: Phase = "before"


class Fail(_Action, frozen=True):
    """An error instead of an answer, with a `Status` body; nothing is forwarded.

    `retry_after` is in seconds and sent as Retry-After.
    """

    code: int
    reason: str | None = None
    message: str = "injected by envtest.Proxy"
    retry_after: int | None = None


class Cut(_Action, frozen=True):
    """The connection is cut without an answer; nothing is forwarded."""


class StaleReads(_Action, frozen=True):
    """Gets and lists are answered from an older answer to the same URL and user.

    `behind=None` freezes the first answer given after the rule was added; `behind=n` gives what
    the server answered n requests earlier. The server is asked all the same. Until there is such
    an answer the live one is given, and the rule does not count as fired.
    """

    behind: int | None = None


CHANGES = ("ADDED", "MODIFIED", "DELETED")


class DropEvents(_Action, frozen=True):
    """Watch events of these `types` (BOOKMARK may be named too) are left out."""

    types: tuple[str, ...] = CHANGES


class DelayEvents(_Action, frozen=True):
    """Watch events of these `types`, and all behind them in their stream, come `seconds` later."""

    seconds: float
    types: tuple[str, ...] = CHANGES


class CutWatch(_Action, frozen=True):
    """Watch streams end.

    `at_once`: up to `times` streams that are open when the rule is added. Else a stream ends in
    place of the n-th matching event. With `clean` it ends as the server would end it, else the
    connection breaks.
    """

    at_once: bool = True
    clean: bool = False
    types: tuple[str, ...] = CHANGES


class SilenceWatch(_Action, frozen=True):
    """Watch streams stay open and carry nothing more, not even bookmarks.

    Meets streams that are open when the rule is added, then new ones, up to `times` streams.
    """


class GoneWatch(_Action, frozen=True):
    """In place of an event the stream carries an ERROR of code 410 (Expired) and ends."""

    types: tuple[str, ...] = CHANGES


Action = (
    Kill
    | LoseReply
    | Delay
    | Fail
    | Cut
    | StaleReads
    | DropEvents
    | DelayEvents
    | CutWatch
    | SilenceWatch
    | GoneWatch
)
EventAction = DropEvents | DelayEvents | CutWatch | GoneWatch


class Rule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A fault; see the module's text. `times=None` fires without end."""

    match: Match
    action: Action
    nth: int = 1
    times: int | None = 1

    def __post_init__(self) -> None:
        if self.nth < 1:
            raise ValueError("nth counts from 1")
        if self.times is not None and self.times < 1:
            raise ValueError("times is at least 1, or None for no end")


class ActiveRule:
    """A rule with its counters."""

    _BEFORE: ClassVar = (Fail, Cut)

    def __init__(self, id_: int, rule: Rule) -> None:
        self.id = id_
        self.rule = rule
        self.matched = 0
        self.fired = 0
        action = rule.action
        self.answers = Answers(action.behind) if isinstance(action, StaleReads) else None

    @property
    def spent(self) -> bool:
        return self.rule.times is not None and self.fired >= self.rule.times

    def acts_in(self, phase: Phase) -> bool:
        action = self.rule.action
        if isinstance(action, Kill | Delay):
            return action.when == phase
        return (
            isinstance(action, self._BEFORE) if phase == "before" else isinstance(action, LoseReply)
        )

    def meets_new_stream(self, info: RequestInfo) -> bool:
        """Count a stream that the rule acts on as a whole; True if the rule takes it."""
        if self.spent or not self.rule.match.meets_stream(info):
            return False
        if not self.count():
            return False
        self.fired += 1
        return True

    def count(self) -> bool:
        """Count one match, and return whether the rule applies."""
        self.matched += 1
        return self.matched >= self.rule.nth and not self.spent


class RuleState(msgspec.Struct, frozen=True):
    """A rule as the control endpoint shows it."""

    id: int
    rule: Rule
    matched: int
    fired: int


class RuleSet:
    """The rules in force."""

    def __init__(self) -> None:
        self._rules: dict[int, ActiveRule] = {}
        self._next = 1

    def add(self, rule: Rule) -> ActiveRule:
        active = ActiveRule(self._next, rule)
        self._rules[self._next] = active
        self._next += 1
        return active

    def remove(self, id_: int) -> None:
        self._rules.pop(id_, None)

    def clear(self) -> None:
        self._rules.clear()

    def states(self) -> list[RuleState]:
        return [RuleState(a.id, a.rule, a.matched, a.fired) for a in self._rules.values()]

    def __bool__(self) -> bool:
        return bool(self._rules)

    def before(self, info: RequestInfo) -> ActiveRule | None:
        """Return the rule that decides a request that is about to be forwarded."""
        return self._decide("before", info)

    def after(self, info: RequestInfo, code: int) -> ActiveRule | None:
        """Return the rule that decides a request that the server has answered."""
        return self._decide("after", info, code)

    def stale(self, info: RequestInfo) -> list[ActiveRule]:
        """Return the stale-read rules that have to see the answer to this request."""
        if info.verb not in READS:
            return []
        return [
            a for a in self._rules.values() if a.answers is not None and a.rule.match.meets(info)
        ]

    def on_event(
        self, info: RequestInfo, type_: str, namespace: str, name: str
    ) -> ActiveRule | None:
        """Return the rule that decides a watch event, or None to let it pass."""
        decided: ActiveRule | None = None
        for active in self._rules.values():
            action, match = active.rule.action, active.rule.match
            if not isinstance(action, EventAction) or type_ not in action.types:
                continue
            if isinstance(action, CutWatch) and action.at_once:
                continue
            if not match.meets_stream(info) or not match.meets_object(namespace, name):
                continue
            if active.count() and decided is None:
                decided = active
        if decided is not None:
            decided.fired += 1
        return decided

    def concerns_stream(self, info: RequestInfo) -> bool:
        """Whether a watch stream's events have to be looked at."""
        return any(
            isinstance(a.rule.action, EventAction) and a.rule.match.meets_stream(info)
            for a in self._rules.values()
        )

    def silences(self, info: RequestInfo) -> ActiveRule | None:
        """Return the rule that silences a new watch stream."""
        for active in self._rules.values():
            if isinstance(active.rule.action, SilenceWatch) and active.meets_new_stream(info):
                return active
        return None

    def _decide(self, phase: Phase, info: RequestInfo, code: int = 0) -> ActiveRule | None:
        decided: ActiveRule | None = None
        for active in self._rules.values():
            action = active.rule.action
            if not active.acts_in(phase) or not active.rule.match.meets(info):
                continue
            if isinstance(action, Kill) and phase == "after" and (code >= 400 or info.dry_run):
                continue
            if active.count() and decided is None:
                decided = active
        if decided is not None:
            decided.fired += 1
        return decided

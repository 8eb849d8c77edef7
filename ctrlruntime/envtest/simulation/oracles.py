"""Rules that hold for every controller, checked at each request and each change.

Safety is checked while faults happen as well; that it all comes to an end, only after them.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, Final

from ctrlruntime.envtest.server.storage import Bucket, Change
from ctrlruntime.envtest.simulation.faults import Faults
from ctrlruntime.envtest.simulation.process import Process
from ctrlruntime.envtest.simulation.replica import Replica
from ctrlruntime.envtest.simulation.server import Call
from ctrlruntime.envtest.simulation.state import counts

LEASE: Final = "lease"
CHANGES_NOTHING: Final = "changes nothing"
ROLLED_BACK: Final = "rolled back"
OTHERS: Final = "others"
IDLE: Final = "idle"
ENDS: Final = "ends"
RULES: Final = {
    LEASE: "a process that led writes nothing once another one holds the lease",
    CHANGES_NOTHING: "no request of a manager leaves everything as it was",
    ROLLED_BACK: "a manager does not undo what it or its predecessor wrote from the same inputs",
    OTHERS: "a manager leaves fields alone that users set in their own objects",
    IDLE: "where nothing happens nothing is written, and watches last",
    ENDS: "a manager that meets no fault does not end",
}
"""What `Simulation.allow` takes."""
_WATCH: Final = 240.0
"""Seconds that a watch lasts at least, on average."""
_LOOK: Final = 5.0
"""The same between two looks for a kind that the server does not serve."""
_ON_THE_WAY: Final = 1.0
"""Seconds after which a manager has learnt at the latest what a user changed: until then it may want the same itself."""
_REVERSED: Final = 3.0
"""The same where a manager makes several requests for one change of a user: it ends what it began for the one before."""
_CONTENT: Final = ("metadata", "status", "apiVersion", "kind")
"""Members of an object that are no content."""
_Field = tuple[str, str]


class RuleBroken(AssertionError):
    """A rule that was broken, and how."""

    def __init__(self, rule: str, message: str) -> None:
        super().__init__(f"{rule}: {message}")
        self.rule = rule


class Oracles:
    """A witness of the server. ``broken`` takes a rule and how it was broken."""

    def __init__(
        self, now: Callable[[], float], faults: Faults, broken: Callable[[str, str], None]
    ) -> None:
        self.allowed: set[str] = set()
        """Rules that are not checked."""
        self._now = now
        self._faults = faults
        self._report = broken
        self._holders: dict[str, str] = {}
        """Identities by lease."""
        self._user_changes = 0
        self._user_changed_at = -_REVERSED
        self._generations: dict[str, int] = {}
        self._written: dict[_Field, tuple[str, str, int, int]] = {}
        """Of fields that managers changed: value before and after, generation of the owner, changes by users."""
        self._set_by_users: dict[_Field, str] = {}
        self._unsure: set[str] = set()
        """Objects of which a manager did not learn how its write ended."""
        self._by_users: dict[str, float] = {}
        """When users last wrote to an object."""
        self._idle = False
        self._watches: Counter[tuple[str, str, str, float]] = Counter()
        """Of each process, by what is watched, its labels, as what, and for how long: each is an informer of its own."""

    def _broken(self, rule: str, message: str) -> None:
        if rule not in self.allowed:
            self._report(rule, f"{message} ({RULES[rule]})")

    def inputs_change(self) -> None:
        """Take it that managers have other inputs now, from users or from what the API server does not hold."""
        self._user_changes += 1
        self._user_changed_at = self._now()

    def ended(self, replica: Replica, error: str) -> None:
        """Take the end of a process that was not killed."""
        if self._faults.last < 0 and not (self._faults.active or replica.disturbed):
            self._broken(ENDS, f"{replica.name} ends before any fault: {error}")

    # -- changes -------------------------------------------------------------------------------------------

    def changed(self, call: Call | None, bucket: Bucket, change: Change) -> None:
        """Take a change of an object, while it is made."""
        if bucket.resource.startswith("leases."):
            self._lease_changed(call, change)
        if not counts(bucket.resource):
            return
        obj = change.record.obj
        self._generations[change.record.uid] = obj["metadata"].get("generation", 0)
        if call is None:
            return
        if call.process is None:
            self.inputs_change()
            self._changed_by_user(change)
        else:
            self._check_lease(call, change)
            self._changed_by_manager(call, change)

    def _lease_changed(self, call: Call | None, change: Change) -> None:
        record = change.record
        lease = f"{record.namespace}/{record.name}"
        if call is not None:
            lease = call.server.qualified(lease)
        holder = (record.obj.get("spec") or {}).get("holderIdentity") or ""
        self._holders[lease] = "" if change.type == "DELETED" else holder
        for replica in self._faults.replicas:
            if replica.lease == lease:
                if holder and call is not None and call.process is not None:
                    self._names(call.process.root, change, holder)
                replica.elected = replica.process.identity == holder
                replica.process.led = replica.process.led or replica.elected

    def _names(self, process: Process, change: Change, holder: str) -> None:
        """Take the name by which a process takes part in an election from the Lease that it takes."""
        before = change.previous.obj.get("spec") or {} if change.previous is not None else {}
        if before.get("holderIdentity") != holder:
            process.identity = holder

    def _check_lease(self, call: Call, change: Change) -> None:
        process = call.process
        if process is None or not process.root.led:
            return
        for replica in self._faults.replicas:
            if process.root in replica.lives:
                holder = self._holders.get(replica.lease, "")
                if holder and holder != process.root.identity:
                    what = (
                        f"{process.root.identity} writes {call.path}, and {holder} holds the lease"
                    )
                    self._broken(LEASE, what)

    def _changed_by_user(self, change: Change) -> None:
        for path, (_, after) in _differences(change).items():
            where = (change.record.uid, path)
            self._written.pop(where, None)
            if change.type == "ADDED" or where in self._set_by_users:
                self._set_by_users[where] = after

    def _changed_by_manager(self, call: Call, change: Change) -> None:
        if change.type != "MODIFIED":
            return
        metadata = change.record.obj["metadata"]
        owners = [each for each in metadata.get("ownerReferences") or () if each.get("controller")]
        generation = self._generations.get(owners[0]["uid"], 0) if owners else 0
        for path, (before, after) in _differences(change).items():
            where = (change.record.uid, path)
            if where in self._set_by_users:
                what = f"{call.who} changes {call.path} {path} from {before} to {after}"
                self._broken(OTHERS, what)
            inputs = (generation, self._user_changes)
            knows = self._now() >= self._user_changed_at + _REVERSED
            if owners and knows and self._written.get(where) == (after, before, *inputs):
                what = f"{call.who} sets {call.path} {path} from {before} back to {after}"
                self._broken(ROLLED_BACK, what)
            self._written[where] = (before, after, *inputs)

    # -- requests ------------------------------------------------------------------------------------------

    def answered(self, call: Call) -> None:
        """Take a request whose answer is there, or is lost."""
        if not counts(call.request.resource + "."):
            return
        if self._idle:
            self._answered_while_idle(call)
        if not call.is_write:
            return
        if call.process is None:
            self._by_users[call.path] = self._now()
        elif call.lost or call.status >= 500 or call.process.dead:
            self._unsure.add(call.path)  # a creation names its object in what it made alone
            self._unsure.update(f"{call.path}{each.record.name}" for each in call.changes)
        elif call.status < 300 and not call.changes:
            same = self._now() - self._by_users.get(call.path, -_ON_THE_WAY) < _ON_THE_WAY
            if not (self._faults.stale or call.path in self._unsure or same):
                self._broken(CHANGES_NOTHING, f"{call.who}: {call.request.verb} {call.path}")
        else:
            self._unsure.discard(call.path)

    def _answered_while_idle(self, call: Call) -> None:
        if call.is_write:
            self._broken(IDLE, f"{call.who}: {call.request.verb} {call.path}")
        elif call.request.verb in ("watch", "list") and call.process is not None:
            what = call.request.query.get("labelSelector", "")
            of = call.request.headers.get("Accept", "")
            lasts = _LOOK if call.status == 404 else _WATCH
            self._watches[f"{call.who}: {call.request.verb} {call.path}", what, of, lasts] += 1

    @contextlib.contextmanager
    def idle(self, seconds: float) -> Iterator[None]:
        """Report what is written in the block, and watches that begin too often in these seconds."""
        self._idle = True
        self._watches.clear()
        try:
            yield
        finally:
            self._idle = False
        for (what, _, _, lasts), count in self._watches.items():
            if count > 2 + seconds / lasts:
                self._broken(IDLE, f"{what}: {count} times in {seconds:g} s")


def _differences(change: Change) -> dict[str, tuple[str, str]]:
    """Return the values before and after of the fields that a change set anew."""
    before = {} if change.previous is None else _content(change.previous.obj)
    after = _content(change.record.obj)
    if change.type == "ADDED":
        return {path: ("", value) for path, value in after.items()}
    paths = [path for path in after if path in before and before[path] != after[path]]
    return {path: (before[path], after[path]) for path in paths}


def _content(obj: dict[str, Any]) -> dict[str, str]:
    found: dict[str, str] = {}
    for key, value in obj.items():
        if key not in _CONTENT:
            _flatten(value, key, found)
    return found


def _flatten(value: object, at: str, found: dict[str, str]) -> None:
    if isinstance(value, dict):
        for key, inner in value.items():
            _flatten(inner, f"{at}.{key}", found)
    elif isinstance(value, list) and any(isinstance(each, dict) for each in value):
        for number, inner in enumerate(value):
            _flatten(inner, f"{at}[{number}]", found)
    else:
        found[at] = repr(value)

"""Every request of managers under test, test by test, in a file of one run.

with ledger.watch(environment.proxy.log, suite="tenancy", server="embedded", users=["manager"]) as audited:
    ...
assert audited.refused == []
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from ctrlruntime.envtest.proxy.log import LogEntry, RequestLog
from tests.audit.rights import Right, taken

FORBIDDEN = 403
ANY = "*"
"""As an expected refusal: whatever the resource."""


class Asked(msgspec.Struct, frozen=True, tag="asked", omit_defaults=True):
    """Requests of one test that are alike. `expected`: the test says that they may be refused."""

    suite: str
    server: str
    test: str
    user: str
    verb: str
    resource: str
    namespace: str
    code: int
    group: str = ""
    subresource: str = ""
    acting_as: str = ""
    expected: bool = False
    streams_list: bool = False
    count: int = 1

    @property
    def full_resource(self) -> str:
        """``deployments.apps/status``, or a path."""
        slash = "/" if self.subresource else ""
        dot = "." if self.group else ""
        return f"{self.resource}{dot}{self.group}{slash}{self.subresource}"

    @property
    def refused(self) -> bool:
        """Whether it was refused, and ought not to have been."""
        return self.code == FORBIDDEN and not self.expected

    def rights(self) -> list[Right]:
        """The rights of the user itself that were taken."""
        if self.acting_as:
            return [Right("impersonate", "serviceaccounts")]
        found = taken(self.verb, self.full_resource, self.namespace, self.code)
        if self.streams_list:  # informers list in pages wherever a stream of the list fails
            found += taken("list", self.full_resource, self.namespace, self.code)
        return found

    def __str__(self) -> str:
        where = f" in {self.namespace}" if self.namespace else ""
        whose = f" for {self.acting_as}" if self.acting_as else ""
        return f"{self.verb} {self.full_resource}{where}{whose}"


class Lacking(msgspec.Struct, frozen=True, tag="lacking"):
    """A resource that a server of the run does not serve, so that nothing can be asked of it."""

    suite: str
    server: str
    resource: str


Line = Asked | Lacking


class Audited:
    """The requests of some users of one proxy, for as long as they are watched."""

    def __init__(
        self,
        ledger: RequestRecorder,
        suite: str,
        server: str,
        users: Collection[str],
        expected: Collection[str],
        elsewhere: Callable[[str], bool],
    ) -> None:
        self._ledger = ledger
        self._suite = suite
        self._server = server
        self._users = frozenset(users)
        self._expected = frozenset(expected)
        self._elsewhere = elsewhere
        self._open = True
        self._excused = False
        self.refused: list[str] = []
        """Refusals that were not expected."""

    def note(self, entry: LogEntry) -> None:
        """One answered request. What the proxy refused by itself reached no server."""
        if not self._open or entry.user not in self._users or entry.injected == "Fail":
            return
        path = entry.resource.startswith("/")
        named, _, subresource = ("", "", "") if path else entry.resource.partition("/")
        plural, _, group = named.partition(".")
        asked = Asked(
            suite=self._suite,
            server=self._server,
            test=self._ledger.test,
            user=entry.user,
            verb=entry.verb,
            resource=entry.resource if path else plural,
            namespace=entry.namespace,
            code=entry.code,
            group=group,
            subresource=subresource,
            acting_as=entry.acting_as,
            expected=entry.code == FORBIDDEN and self._expects(named, entry.namespace),
            streams_list=entry.streams_list,
        )
        if asked.refused:
            self.refused.append(str(asked))
        self._ledger.count(asked)

    @contextmanager
    def excusing(self) -> Iterator[None]:
        """Whatever is refused meanwhile may be: a server that starts does not know its roles yet."""
        self._excused = True
        try:
            yield
        finally:
            self._excused = False

    def _expects(self, resource: str, namespace: str) -> bool:
        if self._excused or self._elsewhere(namespace):
            return True
        return ANY in self._expected or resource in self._expected

    def end(self) -> None:
        """Note nothing any more."""
        self._open = False


class RequestRecorder:
    """Takes down what is asked, and writes it to a file after every test."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.test = ""
        """The test that runs; what a world shared by several does in between counts as its own."""
        self._counts: Counter[Asked] = Counter()
        self._lacking: set[Lacking] = set()
        self._written: set[Lacking] = set()

    @contextmanager
    def watch(
        self,
        log: RequestLog,
        *,
        suite: str,
        server: str,
        users: Collection[str],
        expected: Collection[str] = (),
        elsewhere: Callable[[str], bool] = lambda _: False,
    ) -> Iterator[Audited]:
        """Note what `users` ask through a proxy. `expected`: resources they may be refused.

        `server` is the sort of server: each has to be asked for everything. `elsewhere`: whether a
        namespace is another test's, who may delete it meanwhile: what is refused there is no want of rights.
        """
        audited = Audited(self, suite, server, users, expected, elsewhere)
        log.observe(audited.note)
        try:
            yield audited
        finally:
            audited.end()

    def count(self, asked: Asked) -> None:
        """One request more."""
        self._counts[asked] += 1

    def lacks(self, suite: str, server: str, resources: Iterable[str]) -> None:
        """A server of a suite does not serve these."""
        self._lacking.update(Lacking(suite, server, resource) for resource in resources)

    def turn(self, test: str) -> None:
        """Another test begins: write what the last one has asked."""
        self.flush()
        self.test = test

    def flush(self) -> None:
        """Append to the file what is not there yet."""
        lines: list[Line] = [
            msgspec.structs.replace(asked, count=count) for asked, count in self._counts.items()
        ]
        lines += sorted(self._lacking - self._written, key=lambda each: each.resource)
        self._counts.clear()
        self._written |= self._lacking
        if lines:
            with self.place.open("ab") as file:
                file.write(msgspec.json.Encoder().encode_lines(lines))


def read(place: Path) -> Iterator[Line]:
    """What a file holds; nothing if there is none."""
    if place.exists():
        yield from msgspec.json.Decoder(Line).decode_lines(place.read_bytes())

"""Options of a process that works on slots."""

from __future__ import annotations

import re
import socket
from dataclasses import dataclass
from typing import Final

from ctrlruntime.sharding.members import LABEL_VERSION
from ctrlruntime.sharding.report import ACKNOWLEDGE_WITHIN
from ctrlruntime.sharding.slots import format_slots

_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
GROUP_LABEL: Final = "ctrlruntime.dev/shards"
"""The label of the Leases of one group: those of its members, and the one with the assignment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardingOptions:
    """Options of a process that works on slots. Times in seconds."""

    group: str
    """Names the processes that divide the slots among them: a DNS label. Their Leases begin with it."""
    member: str = ""
    """Names this process, the same after a restart: a DNS label. By default the host's name, which is the Pod's; with fixed
    slots these, so that processes with the same ones stand by for each other."""
    namespace: str = ""
    """Of the Leases; by default that of the manager's own."""
    slots: frozenset[int] | None = None
    """Fixed slots. By default the elected leader assigns them."""
    settle: float = 2.0
    """How long new members wait for others that start with them."""
    rule: int = LABEL_VERSION
    """What the slots divide, as a number: give another one when more of a program is divided than before. Members of other
    rules than the leader's own no slots, so that a version that works on all of something leads beside none that divides it."""
    acknowledge_within: float = ACKNOWLEDGE_WITHIN
    """After which time a member is reported that keeps slots assigned to others."""

    def __post_init__(self) -> None:
        if self.slots is not None and not self.slots:
            raise ValueError("fixed slots are at least one: leave them out to be assigned some")
        for what, name in (("group", self.group), ("member", self.name)):
            if not _NAME.fullmatch(name) or len(name) > 63:
                raise ValueError(
                    f"the {what} of a sharded manager is a DNS label of 63 characters at most (a-z, 0-9 and -), not {name!r}"
                )

    @property
    def name(self) -> str:
        """The member's name."""
        if self.member:
            return self.member
        if self.slots is not None:
            return "slots-" + format_slots(self.slots).replace(",", "-and-")
        return socket.gethostname().split(".")[0].lower()

    def lease_of(self, member: str) -> str:
        """Return the name of a member's Lease."""
        return f"{self.group}-shard-{member}"

    @property
    def assignment(self) -> str:
        """The name of the Lease with the assignment."""
        return f"{self.group}-slots"

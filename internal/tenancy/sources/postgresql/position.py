"""How far a server has got in the write-ahead log, so that a replica is never read backwards.

Behind one name there may be a primary and replicas. A reading from a replica that lags behind the
server of the reading before would look as if rows were gone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

POSITION: Final = """
SELECT s.system_identifier::text AS system, c.timeline_id::int AS timeline,
    (CASE WHEN pg_catalog.pg_is_in_recovery() THEN pg_catalog.pg_last_wal_replay_lsn()
     ELSE pg_catalog.pg_current_wal_insert_lsn() END - '0/0'::pg_catalog.pg_lsn)::bigint AS octets
FROM pg_catalog.pg_control_system() s, pg_catalog.pg_control_checkpoint() c
"""


_NUMBER: Final = re.compile("[0-9]{1,20}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Position:
    """A place in the log of a database cluster, in bytes from its start."""

    system: str
    timeline: int
    octets: int

    @classmethod
    def of(cls, row: Mapping[str, Any] | None) -> Position | None:
        """Return the position in a row of POSITION; None for a server that has none."""
        if row is None or row["octets"] is None:
            return None
        return cls(row["system"], row["timeline"], row["octets"])

    @classmethod
    def parse(cls, text: str) -> Position | None:
        """Return the position that `str` wrote; None for anything else."""
        system, _, place = text.partition("/")
        timeline, _, octets = place.partition("/")
        if not system or not (_NUMBER.fullmatch(timeline) and _NUMBER.fullmatch(octets)):
            return None
        return cls(system, int(timeline), int(octets))

    def __str__(self) -> str:
        return f"{self.system}/{self.timeline}/{self.octets}"

    def place(self) -> tuple[int, int]:
        """Return what orders the positions of one system."""
        return self.timeline, self.octets

    def is_behind(self, other: Position) -> bool:
        """Whether rows here may be older. A restored database or a later timeline is never behind."""
        return (
            self.system == other.system
            and self.timeline <= other.timeline
            and self.octets < other.octets
        )

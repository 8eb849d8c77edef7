"""The interface of what writes states of tenants back to a table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Protocol

from apis.tenancy import SecretKeyRef, WriteBack
from internal.tenancy.sources.errors import SourceError


class InvalidWriteBack(SourceError):
    """A write-back that cannot be used as it is described."""

    reason: ClassVar[str] = "InvalidWriteBack"


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteTarget:
    """The column to write, the column with the rows' uids, and as whom."""

    column: str
    key: str
    username: str | None = None
    password_ref: SecretKeyRef | None = None

    @classmethod
    def of(cls, fields: WriteBack, key: str) -> WriteTarget:
        """Return the target as the registry has it; `key` is the column with the uids."""
        return cls(
            column=fields.column,
            key=key,
            username=fields.username,
            password_ref=fields.password_ref,
        )

    @property
    def user(self) -> str:
        """The user to connect as. Raises InvalidWriteBack if there is none."""
        if not self.username:
            raise InvalidWriteBack(
                "spec.source.writeBack.username is missing; name a user that may SELECT the columns "
                f"{self.key!r} and {self.column!r} and UPDATE the latter, and nothing else"
            )
        return self.username


class StateWriter(Protocol):
    """Writes states. One is opened for each batch and closed after it."""

    async def write(self, states: Mapping[str, str]) -> None:
        """Write the states of some rows by uid, with one UPDATE. A row that is not there is left out. Raises SourceError."""

    async def close(self) -> None:
        """Close all connections."""

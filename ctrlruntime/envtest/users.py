"""Users of a test environment and their tokens."""

from __future__ import annotations

import csv
import secrets
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class User:
    """A user known by a bearer token; group `system:masters` may do everything."""

    name: str
    token: str = field(default_factory=lambda: secrets.token_hex(16), repr=False)
    uid: str = ""
    groups: tuple[str, ...] = ()


def administrator(name: str) -> User:
    """A user who may do everything."""
    return User(name=name, groups=("system:masters",))


def write_token_file(path: Path, users: Iterable[User]) -> None:
    """Writes kube-apiserver's --token-auth-file (CSV: token, user, uid, groups), mode 0600."""
    path.touch(mode=0o600)
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        for user in users:
            writer.writerow([user.token, user.name, user.uid or user.name, ",".join(user.groups)])


def read_token_file(path: Path) -> list[User]:
    """Reads such a file. Raises ValueError on a line without token and user."""
    users: list[User] = []
    with path.open(newline="") as file:
        for number, row in enumerate(csv.reader(file), start=1):
            if not row:
                continue
            if len(row) < 2 or not row[0] or not row[1]:
                raise ValueError(f"{path}, line {number}: token and user are needed")
            uid = row[2] if len(row) > 2 else ""
            groups = tuple(g for g in row[3].split(",") if g) if len(row) > 3 else ()
            users.append(User(name=row[1], token=row[0], uid=uid, groups=groups))
    return users

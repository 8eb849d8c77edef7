"""Users of a test environment and their tokens."""

from __future__ import annotations

import base64
import csv
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ctrlruntime.client.auth import ClientCertificate, StaticAuth
from ctrlruntime.clock import random_hex


@dataclass(frozen=True, kw_only=True)
class User:
    """A user known by a bearer token; group `system:masters` may do everything."""

    name: str
    token: str = field(default_factory=lambda: random_hex(16), repr=False)
    uid: str = ""
    groups: tuple[str, ...] = ()


def administrator(name: str) -> User:
    """Return a user who may do everything."""
    return User(name=name, groups=("system:masters",))


@dataclass(frozen=True, kw_only=True)
class Identity:
    """How a user is known to a server: by token, by client certificate, or as whom one acts."""

    token: str | None = field(default=None, repr=False)
    certificate: ClientCertificate | None = None
    acting_as: User | None = None
    """Impersonation, by whoever the token or the certificate belongs to."""

    def __post_init__(self) -> None:
        if self.acting_as is not None and len(self.acting_as.groups) > 1:
            raise ValueError(
                f"{self.acting_as.name} is in more than one group, and only one can be impersonated"
            )

    def auth(self) -> StaticAuth:
        """For a Config, together with `headers`."""
        return StaticAuth(token=self.token, certificate=self.certificate)

    def headers(self) -> dict[str, str]:
        """Those of impersonation."""
        if self.acting_as is None:
            return {}
        headers = {"Impersonate-User": self.acting_as.name}
        if self.acting_as.groups:
            headers["Impersonate-Group"] = self.acting_as.groups[0]
        return headers

    def kubeconfig_user(self) -> dict[str, Any]:
        """Return the `user` section of a kubeconfig."""
        section: dict[str, Any] = {}
        if self.token is not None:
            section["token"] = self.token
        if self.certificate is not None:
            section["client-certificate-data"] = _encoded(self.certificate.certificate)
            section["client-key-data"] = _encoded(self.certificate.key)
        if self.acting_as is not None:
            section["as"] = self.acting_as.name
            section |= {"as-groups": list(self.acting_as.groups)} if self.acting_as.groups else {}
        return section


def _encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


def write_token_file(path: Path, users: Iterable[User]) -> None:
    """Write kube-apiserver's --token-auth-file (CSV: token, user, uid, groups), mode 0600."""
    path.touch(mode=0o600)
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        for user in users:
            writer.writerow([user.token, user.name, user.uid or user.name, ",".join(user.groups)])


def read_token_file(path: Path) -> list[User]:
    """Read such a file. Raises ValueError on a line without token and user."""
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

"""Impersonation: who may act as whom, and for which requests.

As since Kubernetes 1.36, a right for one kind of identity and for the request (constrained impersonation)
is enough; the right `impersonate` covers every request.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final
from urllib.parse import unquote

from ctrlruntime.envtest.server.auth import (
    ANONYMOUS,
    AUTHENTICATED,
    SERVICE_ACCOUNT,
    Attributes,
    attributes_of,
    denial,
    service_account_user,
)
from ctrlruntime.envtest.server.errors import bad_request
from ctrlruntime.envtest.server.options import User
from ctrlruntime.envtest.server.request import Request

AUTHENTICATION: Final = "authentication.k8s.io"
_EXTRA: Final = "impersonate-extra-"
_NODE: Final = "system:node:"

Allows = Callable[[Attributes], bool]


@dataclass(frozen=True, slots=True)
class Wanted:
    """The identity that the headers of a request name."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def name_alone(self) -> bool:
        return not (self.uid or self.groups or self.extra)

    @property
    def account(self) -> tuple[str, str] | None:
        """Namespace and name of a service account."""
        if not self.name.startswith(SERVICE_ACCOUNT):
            return None
        namespace, colon, name = self.name.removeprefix(SERVICE_ACCOUNT).partition(":")
        return (namespace, name) if colon and namespace and name else None

    def user(self) -> User:
        """Return the identity with the groups that the server adds."""
        if self.account is not None and not self.groups:
            return replace(service_account_user(*self.account, self.uid), extra=self.extra)
        if self.name == ANONYMOUS.name:
            return User(self.name, (*self.groups, *ANONYMOUS.groups), self.uid, self.extra)
        groups = self.groups
        if AUTHENTICATED not in groups:
            groups = (*groups, AUTHENTICATED)
        return User(self.name, groups, self.uid, self.extra)


class Impersonation:
    """Decides who may act as whom.

    The way that succeeded last for a user is tried first, as the server does; it then is the one whose
    missing right an error names.
    """

    def __init__(self, allows: Allows) -> None:
        self._allows = allows
        self._last: dict[str, str] = {}

    def user(self, request: Request) -> User:
        """Return the user that the Impersonate headers name, or the sender where there are none.

        Raises BadRequest, and Forbidden with the first right that is missing.
        """
        wanted = _wanted(request.headers)
        if wanted is None:
            return request.user
        modes = dict(_modes(wanted, attributes_of(request)))
        last = self._last.get(request.user.name)
        missing = []
        for mode in sorted(modes, key=lambda mode: mode != last):
            refused = next((right for right in modes[mode] if not self._allows(right)), None)
            if refused is None:
                self._last[request.user.name] = mode
                return wanted.user()
            missing.append(refused)
        raise denial(missing[0])


def _modes(wanted: Wanted, asked: Attributes) -> Iterator[tuple[str, list[Attributes]]]:
    """Yield what each way of impersonation requires, in the server's order."""
    if (mode := _constrained_mode(wanted)) is not None:
        on = replace(asked, verb=f"impersonate-on:{mode}:{asked.verb}")
        yield mode, [on, *_rights(asked.user, wanted, f"impersonate:{mode}", AUTHENTICATION)]
    yield "legacy", list(_rights(asked.user, wanted, "impersonate", ""))


def _constrained_mode(wanted: Wanted) -> str | None:
    """Return the kind of identity. Nodes and service accounts have one only without groups, uid and extra."""
    if wanted.name.startswith(_NODE):
        return "arbitrary-node" if wanted.name_alone else None
    if wanted.account is not None:
        return "serviceaccount" if wanted.name_alone else None
    return "user-info"


def _rights(user: User, wanted: Wanted, verb: str, group: str) -> Iterator[Attributes]:
    """Yield the rights to an identity. `group`: where users, groups and accounts are for this verb."""
    right = Attributes(user, verb, group, "v1", "users", name=wanted.name)
    if wanted.account is not None:
        namespace, name = wanted.account
        right = replace(right, resource="serviceaccounts", namespace=namespace, name=name)
    elif group and wanted.name.startswith(_NODE):
        right = replace(right, resource="nodes", name=wanted.name.removeprefix(_NODE))
    yield right
    if wanted.uid:
        yield Attributes(user, verb, AUTHENTICATION, "v1", "uids", name=wanted.uid)
    for each in wanted.groups:
        yield Attributes(user, verb, group, "v1", "groups", name=each)
    for key, values in wanted.extra.items():
        for value in values:
            yield Attributes(user, verb, AUTHENTICATION, "v1", "userextras", key, name=value)


def _wanted(headers: Mapping[str, str]) -> Wanted | None:
    name = headers.get("Impersonate-User", "")
    wanted = Wanted(
        name,
        headers.get("Impersonate-Uid", ""),
        tuple(_all_headers(headers, "Impersonate-Group")),
        _extra_headers(headers),
    )
    if name:
        return wanted
    if wanted.name_alone:
        return None
    raise bad_request(f"requested {_in_go(wanted)} without impersonating a user name")


def _in_go(wanted: Wanted) -> str:
    """As Go prints it."""
    extra = ", ".join(
        f"{json.dumps(key)}:{_texts(wanted.extra[key])}" for key in sorted(wanted.extra)
    )
    shown = f"map[string][]string{{{extra}}}" if extra else "map[string][]string(nil)"
    return (
        f'&user.DefaultInfo{{Name:"", UID:{json.dumps(wanted.uid)}, '
        f"Groups:{_texts(wanted.groups)}, Extra:{shown}}}"
    )


def _texts(values: tuple[str, ...]) -> str:
    return f"[]string{{{', '.join(map(json.dumps, values))}}}" if values else "[]string(nil)"


def _all_headers(headers: Mapping[str, str], name: str) -> list[str]:
    getall = getattr(headers, "getall", None)
    if getall is None:
        return [headers[name]] if name in headers else []
    return list(getall(name, []))


def _extra_headers(headers: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for key, value in headers.items():
        if key.lower().startswith(_EXTRA):
            name = unquote(key.lower().removeprefix(_EXTRA))
            found[name] = (*found.get(name, ()), value)
    return found

"""Who sends a request, and whether RBAC lets them."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import orjson

from ctrlruntime.api.kinds import Manifest
from ctrlruntime.client.selectors import InvalidSelector, parse_fields, selector_matches
from ctrlruntime.clock import random_bytes, random_hex
from ctrlruntime.envtest.server.errors import StatusError, forbidden, unauthorized
from ctrlruntime.envtest.server.options import User
from ctrlruntime.envtest.server.request import Request
from ctrlruntime.envtest.server.state import State
from ctrlruntime.envtest.server.storage import Record

ANONYMOUS: Final = User("system:anonymous", ("system:unauthenticated",))
ISSUER: Final = "https://kubernetes.default.svc.cluster.local"
MASTERS: Final = "system:masters"
AUTHENTICATED: Final = "system:authenticated"
_RBAC: Final = "rbac.authorization.k8s.io"
_COLLECTIVE: Final = frozenset({"list", "watch", "deletecollection"})
_NAME: Final = ("metadata", "name")
SERVICE_ACCOUNT: Final = "system:serviceaccount:"


@dataclass(frozen=True, slots=True)
class Attributes:
    """One question to the authorizer. `path` is set for requests outside the API groups."""

    user: User
    verb: str
    group: str = ""
    version: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""


def service_account_user(namespace: str, name: str, uid: str) -> User:
    groups = (
        "system:serviceaccounts",
        f"system:serviceaccounts:{namespace}",
        AUTHENTICATED,
    )
    return User(f"{SERVICE_ACCOUNT}{namespace}:{name}", groups, uid)


class Authenticator:
    """Static bearer tokens and the tokens issued for service accounts."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._key = random_bytes(32)

    def authenticate(self, request: Request) -> User:
        """Raise Unauthorized."""
        header = request.headers.get("Authorization", "")
        scheme, _, token = header.partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            if not self._state.options.anonymous:
                raise unauthorized()
            return ANONYMOUS
        user = self.user_of(token.strip())
        if user is None:
            raise unauthorized()
        return user

    def user_of(self, token: str, audiences: Collection[str] = (ISSUER,)) -> User | None:
        """None for a token that is unknown, or not meant for any of the audiences."""
        known = self._state.options.tokens.get(token)
        if known is not None:
            if AUTHENTICATED in known.groups:
                return known
            return replace(known, groups=(*known.groups, AUTHENTICATED))
        return self._service_account(token, audiences)

    def issue(self, account: Record, audiences: list[str], seconds: int) -> tuple[str, float]:
        """Return a token for a service account and when it expires (Unix time)."""
        now = self._state.options.clock().timestamp()
        claims = {
            "aud": audiences or [ISSUER],
            "exp": int(now + seconds),
            "iat": int(now),
            "iss": ISSUER,
            "jti": random_hex(16),
            "kubernetes.io": {
                "namespace": account.namespace,
                "serviceaccount": {"name": account.name, "uid": account.uid},
            },
            "nbf": int(now),
            "sub": f"{SERVICE_ACCOUNT}{account.namespace}:{account.name}",
        }
        head = _encode(orjson.dumps({"alg": "HS256", "typ": "JWT"}))
        body = _encode(orjson.dumps(claims))
        return f"{head}.{body}.{self._sign(f'{head}.{body}')}", now + seconds

    def _sign(self, text: str) -> str:
        return _encode(hmac.new(self._key, text.encode(), hashlib.sha256).digest())

    def _service_account(self, token: str, audiences: Collection[str]) -> User | None:
        signed, _, signature = token.rpartition(".")
        if not signed or not hmac.compare_digest(signature, self._sign(signed)):
            return None
        claims = orjson.loads(_decode(signed.partition(".")[2]))
        if claims["exp"] <= self._state.options.clock().timestamp():
            return None
        if not set(claims["aud"]) & set(audiences):
            return None
        bound = claims["kubernetes.io"]
        account = bound["serviceaccount"]
        record = self._state.storage.bucket("serviceaccounts").get(
            bound["namespace"], account["name"]
        )
        if record is None or record.uid != account["uid"]:
            return None
        return service_account_user(bound["namespace"], account["name"], account["uid"])


def _encode(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def _decode(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


class Authorizer:
    """AlwaysAllow, or RBAC over the stored roles and bindings."""

    def __init__(self, state: State) -> None:
        self._state = state

    def check(self, request: Request, verb: str = "") -> None:
        """Raise Forbidden with the API server's words. `verb`: another than the request's own."""
        if self._state.options.authorization == "AlwaysAllow":
            return
        attributes = attributes_of(request)
        if verb:
            attributes = replace(attributes, verb=verb)
        if not self.allows(attributes):
            raise denial(attributes)

    @property
    def allows_all(self) -> bool:
        """Whether there is no authorization."""
        return self._state.options.authorization == "AlwaysAllow"

    def allows(self, asked: Attributes) -> bool:
        return self.decide(asked) is not None

    def decide(self, asked: Attributes) -> str | None:
        """Why it is allowed, in RBAC's words (empty: no reason reported); None: it is not."""
        if self.allows_all or MASTERS in asked.user.groups:
            return ""
        for binding, subject in self._bindings(asked.user, asked.namespace):
            rules = self.referenced(binding["roleRef"], asked.namespace) or ()
            if any(_rule_allows(rule, asked) for rule in rules):
                return _reason(binding, subject)
        return None

    def rules(self, user: User, namespace: str) -> Iterator[Mapping[str, Any]]:
        """All rules that apply to the user in the namespace, cluster-wide ones included."""
        for binding, _ in self._bindings(user, namespace):
            yield from self.referenced(binding["roleRef"], namespace) or ()

    def _bindings(self, user: User, namespace: str) -> Iterator[tuple[Manifest, Manifest]]:
        """Bindings that name the user, and the subject that does."""
        storage = self._state.storage
        for record in storage.bucket(f"clusterrolebindings.{_RBAC}").records.values():
            if (subject := _bound(record.obj, user, "")) is not None:
                yield record.obj, subject
        if not namespace:
            return
        for record in storage.bucket(f"rolebindings.{_RBAC}").scan(namespace):
            if (subject := _bound(record.obj, user, namespace)) is not None:
                yield record.obj, subject

    def referenced(self, ref: Mapping[str, str], namespace: str) -> list[Mapping[str, Any]] | None:
        """Return the rules of the role that a binding names; None where there is none."""
        storage = self._state.storage
        if ref.get("kind") == "Role":
            record = storage.bucket(f"roles.{_RBAC}").get(namespace, ref["name"])
            return None if record is None else record.obj.get("rules") or []
        record = storage.bucket(f"clusterroles.{_RBAC}").get("", ref["name"])
        return None if record is None else self.cluster_rules(record.obj, set())

    def cluster_rules(self, role: Manifest, seen: set[str]) -> list[Mapping[str, Any]]:
        """Rules of a cluster role, those it aggregates included."""
        seen.add(role["metadata"]["name"])
        aggregation = role.get("aggregationRule")
        if not aggregation:
            return role.get("rules") or []
        found: list[Mapping[str, Any]] = []
        bucket = self._state.storage.bucket(f"clusterroles.{_RBAC}")
        for selector in aggregation.get("clusterRoleSelectors") or ():
            for record in bucket.scan():
                if record.name not in seen and selector_matches(selector, record.labels):
                    found += self.cluster_rules(record.obj, seen)
        return found


def attributes_of(request: Request) -> Attributes:
    if request.group is None:
        return Attributes(request.user, request.verb, path=request.path)
    return Attributes(
        request.user,
        request.verb,
        request.group,
        request.version,
        request.resource,
        request.subresource,
        request.namespace,
        request.name or _selected_name(request),
    )


def _selected_name(request: Request) -> str:
    """Return a list, watch or delete of a collection is about one object if it selects `metadata.name`."""
    if request.verb not in _COLLECTIVE:
        return ""
    try:
        required = parse_fields(request.query.get("fieldSelector", ""))
    except InvalidSelector:
        return ""
    return next((r.value for r in required if r.path == _NAME and not r.negated), "")


def denial(asked: Attributes) -> StatusError:
    """Return the error for a request that is not allowed."""
    user = asked.user.name
    if asked.path:
        text = f'forbidden: User "{user}" cannot {asked.verb} path "{asked.path}"'
        return StatusError(403, "Forbidden", text, {})
    where = f' in the namespace "{asked.namespace}"' if asked.namespace else " at the cluster scope"
    resource = asked.resource + (f"/{asked.subresource}" if asked.subresource else "")
    why = (
        f'User "{user}" cannot {asked.verb} resource "{resource}" '
        f'in API group "{asked.group}"{where}'
    )
    return forbidden(asked.group, asked.resource, asked.name, why)


def _bound(binding: Manifest, user: User, namespace: str) -> Manifest | None:
    """Return the subject of the binding that is the user."""
    for subject in binding.get("subjects") or ():
        kind, name = subject.get("kind"), subject.get("name")
        if kind == "User" and name == user.name:
            return dict(subject)
        if kind == "Group" and name in user.groups:
            return dict(subject)
        if kind == "ServiceAccount":
            at = subject.get("namespace") or namespace
            if user.name == f"{SERVICE_ACCOUNT}{at}:{name}":
                return dict(subject)
    return None


def _reason(binding: Manifest, subject: Manifest) -> str:
    metadata, ref = binding["metadata"], binding["roleRef"]
    namespace = metadata.get("namespace")
    name = f"{metadata['name']}/{namespace}" if namespace else metadata["name"]
    who = subject["name"]
    if subject["kind"] == "ServiceAccount":
        who = f"{who}/{subject.get('namespace') or namespace}"
    return (
        f'RBAC: allowed by {"RoleBinding" if namespace else "ClusterRoleBinding"} "{name}" '
        f'of {ref["kind"]} "{ref["name"]}" to {subject["kind"]} "{who}"'
    )


def lists_value(values: Collection[str] | None, value: str) -> bool:
    """Return whether a list in a rule covers a value; `*` covers all."""
    return values is not None and ("*" in values or value in values)


def _rule_allows(rule: Mapping[str, Any], asked: Attributes) -> bool:
    if not lists_value(rule.get("verbs"), asked.verb):
        return False
    if asked.path:
        return any(_path_matches(item, asked.path) for item in rule.get("nonResourceURLs") or ())
    if not lists_value(rule.get("apiGroups"), asked.group):
        return False
    if not _resource_matches(rule.get("resources") or (), asked):
        return False
    names = rule.get("resourceNames")
    return not names or asked.name in names


def _path_matches(pattern: str, path: str) -> bool:
    if pattern in ("*", path):
        return True
    return pattern.endswith("*") and path.startswith(pattern.rstrip("*"))


def _resource_matches(resources: Collection[str], asked: Attributes) -> bool:
    if "*" in resources:
        return True
    if not asked.subresource:
        return asked.resource in resources
    return f"{asked.resource}/{asked.subresource}" in resources or (
        f"*/{asked.subresource}" in resources
    )

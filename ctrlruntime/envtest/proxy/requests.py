"""What a request to an API server is for, read from its request line and headers."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import unquote

WRITES = frozenset({"create", "update", "patch", "apply", "delete", "deletecollection"})
READS = frozenset({"get", "list"})

_WRITE_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_NAMESPACE_SUBRESOURCES = frozenset({"status", "finalize"})


class RequestInfo(NamedTuple):
    """One request in the API server's terms (apiserver's RequestInfo).

    `resource` is written as kubectl writes it, with the subresource: `pods`, `deployments.apps`,
    `deployments.apps/status`. For everything that is no resource it is the path (`/openapi/v3`).
    `acting_as` is whom the user impersonates, whose rights count then. `streams_list`: a watch that
    begins with the list (`sendInitialEvents`).
    """

    user: str
    verb: str
    resource: str
    namespace: str
    name: str
    dry_run: bool = False
    acting_as: str = ""
    streams_list: bool = False


class Target(NamedTuple):
    """The part of a request that its path names."""

    resource: str
    namespace: str
    name: str


def split_path(path: str) -> Target:
    """Resource, namespace and name of a request path without its query."""
    parts = path.strip("/").split("/")
    if parts[0] == "api" and len(parts) > 2:
        group, rest = "", parts[2:]
    elif parts[0] == "apis" and len(parts) > 3:
        group, rest = parts[1], parts[3:]
    else:
        return Target(path, "", "")
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2 and rest[2] not in _NAMESPACE_SUBRESOURCES:
        namespace, rest = rest[1], rest[2:]
    resource = f"{rest[0]}.{group}" if group else rest[0]
    name = rest[1] if len(rest) > 1 else ""
    if len(rest) > 2:
        resource = f"{resource}/{rest[2]}"
    if "%" in name:
        name = unquote(name)
    return Target(resource, namespace, name)


def classify(
    method: str, target: str, content_type: str, user: str, acting_as: str = ""
) -> RequestInfo:
    """Return the request's verb and object; `target` is the path with its query."""
    path, _, query = target.partition("?")
    resource, namespace, name = split_path(path)
    if resource.startswith("/"):
        verb = "get" if method in ("GET", "HEAD") else _WRITE_VERBS.get(method, method.lower())
        return RequestInfo(user, verb, resource, "", "", acting_as=acting_as)
    if method in ("GET", "HEAD"):
        verb = _read_verb(query, name)
    else:
        verb = _WRITE_VERBS.get(method, method.lower())
        if verb == "delete" and not name:
            verb = "deletecollection"
        elif verb == "patch" and content_type.startswith("application/apply-patch"):
            verb = "apply"
    streams_list = verb == "watch" and "sendInitialEvents=true" in query.split("&")
    return RequestInfo(
        user, verb, resource, namespace, name, "dryRun=" in query, acting_as, streams_list
    )


def _read_verb(query: str, name: str) -> str:
    if "watch=" in query:
        for pair in query.split("&"):
            if pair in ("watch=true", "watch=1", "watch=True"):
                return "watch"
    return "get" if name else "list"

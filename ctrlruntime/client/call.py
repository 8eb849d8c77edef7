"""One call of a client, before it becomes an HTTP request. Interceptors see it in this form."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from ctrlruntime.api.kinds import RESTMapping
from ctrlruntime.client.transport import JSON, Response
from ctrlruntime.fast_dataclass import fast_dataclass

Verb = Literal["get", "list", "create", "update", "patch", "apply", "delete", "deletecollection"]
FieldValidation = Literal["Ignore", "Warn", "Strict"]
Propagation = Literal["Background", "Foreground", "Orphan"]

METHODS: Mapping[Verb, str] = {
    "get": "GET",
    "list": "GET",
    "create": "POST",
    "update": "PUT",
    "patch": "PATCH",
    "apply": "PATCH",
    "delete": "DELETE",
    "deletecollection": "DELETE",
}


@fast_dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """``name`` is None for lists, delete-collection, and a create that lets the server choose the name."""

    verb: Verb
    mapping: RESTMapping
    namespace: str | None = None
    name: str | None = None
    subresource: str | None = None
    params: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = field(default=None, repr=False)
    content_type: str = JSON
    timeout: float = 30.0

    @property
    def is_write(self) -> bool:
        return self.verb not in ("get", "list")

    @property
    def is_dry_run(self) -> bool:
        return "dryRun" in self.params

    @property
    def path(self) -> str:
        """A create is posted to the collection, or to the subresource of a named object."""
        collection = self.verb in ("list", "deletecollection") or (
            self.verb == "create" and self.subresource is None
        )
        if collection:
            return self.mapping.path(namespace=self.namespace)
        return self.mapping.path(self.name, self.subresource, namespace=self.namespace)


Execute = Callable[[Call], Awaitable[Response]]
Interceptor = Callable[[Call, Execute], Awaitable[Response]]
"""Given a call and what would carry it out: delegate, change, answer by itself, or raise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Defaults:
    """What a client adds to calls that do not say otherwise."""

    namespace: str | None = None
    """Every namespaced call goes here; naming another namespace is an error."""
    dry_run: bool = False
    field_manager: str | None = None
    field_validation: FieldValidation | None = None
    timeout: float = 30.0
    """Seconds, for the answer to each attempt of a request."""

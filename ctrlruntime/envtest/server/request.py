"""What a request is for: its place in the API, its options, and the answer it accepts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal
from urllib.parse import parse_qsl, unquote

from ctrlruntime.envtest.server.errors import StatusError, bad_number, not_acceptable
from ctrlruntime.envtest.server.options import User

Form = Literal["full", "partial", "table"]
APPLY_YAML: Final = "application/apply-patch+yaml"

_READ_VERBS: Final = {"GET": "get", "HEAD": "get"}
_WRITE_VERBS: Final = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_ACCEPTED: Final = (
    "application/json, application/yaml, application/vnd.kubernetes.protobuf, "
    "application/json;stream=watch"
)
_OBJECT_FOR_LIST: Final = (
    "you requested PartialObjectMetadata, but the requested object is a list "
    "(*unstructured.UnstructuredList)"
)
_TRUE: Final = frozenset({"1", "t", "T", "true", "TRUE", "True"})


@dataclass(slots=True)
class Request:
    """One API request, already authenticated. `group` is None for paths outside the API."""

    method: str
    path: str
    query: dict[str, str]
    headers: Mapping[str, str]
    verb: str = ""
    group: str | None = None
    version: str = ""
    namespace: str = ""
    resource: str = ""
    name: str = ""
    subresource: str = ""
    user: User = field(default_factory=lambda: User("system:anonymous"))
    form: Form = "full"
    body: bytes = b""
    warnings: list[str] = field(default_factory=list)
    require: Callable[[str], None] = lambda _verb: None
    """Checks that the user may do something besides the request's own verb."""

    @property
    def dry_run(self) -> bool:
        return self.query.get("dryRun") == "All"

    @property
    def pretty(self) -> bool:
        return self.flag("pretty")

    def flag(self, name: str) -> bool:
        return self.query.get(name, "") in _TRUE

    def number(self, name: str) -> int:
        """Return an integer option; 0 where absent. Raises BadRequest."""
        value = self.query.get(name) or "0"
        try:
            return int(value)
        except ValueError:
            raise bad_number(value) from None

    @property
    def content_type(self) -> str:
        return self.headers.get("Content-Type", "").partition(";")[0].strip().lower()

    @property
    def field_manager(self) -> str:
        """The manager named by the client, else the first part of its user agent."""
        if given := self.query.get("fieldManager"):
            return given
        agent = self.headers.get("User-Agent", "")
        return agent.partition("/")[0][:128] or "unknown"

    @property
    def field_validation(self) -> str:
        return self.query.get("fieldValidation") or "Warn"


@dataclass(frozen=True, slots=True)
class Answer:
    """What a request is answered with: HTTP status and body."""

    status: int
    body: bytes


def parse_request(method: str, raw_path: str, headers: Mapping[str, str]) -> Request:
    """Split a request line. Raises StatusError for options no server would take."""
    raw, _, raw_query = raw_path.partition("?")
    path = unquote(raw)
    query: dict[str, str] = {}
    for key, value in parse_qsl(raw_query, keep_blank_values=True):
        query.setdefault(key, value)
    request = Request(method, path, query, headers)
    parts = [unquote(part) for part in raw.strip("/").split("/")]
    if len(parts) >= 2 and parts[0] == "api":
        request.group, request.version = "", parts[1]
        _place(request, parts[2:])
    elif len(parts) >= 3 and parts[0] == "apis":
        request.group, request.version = parts[1], parts[2]
        _place(request, parts[3:])
    if not request.resource:
        request.group = None
        request.verb = method.lower()
    return request


def _place(request: Request, parts: list[str]) -> None:
    watching = request.flag("watch")
    if len(parts) > 1 and parts[0] == "watch":
        watching, parts = True, parts[1:]
    if len(parts) >= 3 and parts[0] == "namespaces" and not _of_namespace(parts):
        request.namespace, parts = parts[1], parts[2:]
    if not parts or not parts[0]:
        return
    request.resource = parts[0]
    request.name = parts[1] if len(parts) > 1 else ""
    request.subresource = "/".join(parts[2:])
    if request.resource == "namespaces":
        request.namespace = request.name
    request.verb = _verb(request, watching)


def _of_namespace(parts: list[str]) -> bool:
    return len(parts) == 3 and parts[2] in {"status", "finalize"}


def _verb(request: Request, watching: bool) -> str:
    if request.method in _READ_VERBS:
        if watching:
            return "watch"
        return "get" if request.name else "list"
    verb = _WRITE_VERBS.get(request.method, request.method.lower())
    return "deletecollection" if verb == "delete" and not request.name else verb


def negotiate(accept: str, verb: str = "") -> Form:
    """Return the form of the answer; JSON is always among those the clients accept, or it is 406."""
    if not accept or accept == "application/json":
        return "full"
    for choice in accept.split(","):
        media, _, rest = choice.strip().partition(";")
        parameters = dict(
            part.strip().partition("=")[::2] for part in rest.split(";") if part.strip()
        )
        if media not in {"application/json", "*/*", "application/*"}:
            continue
        wanted = parameters.get("as", "")
        if not wanted:
            return "full"
        if parameters.get("g") != "meta.k8s.io" or parameters.get("v") not in {"v1", "v1beta1"}:
            continue
        if wanted == "Table":
            return "table"
        if wanted == "PartialObjectMetadata" and verb == "list":
            raise StatusError(406, "NotAcceptable", _OBJECT_FOR_LIST)
        if wanted in {"PartialObjectMetadata", "PartialObjectMetadataList"}:
            return "partial"
    raise not_acceptable(_ACCEPTED)


def check_options(request: Request) -> None:
    """Query options of writes, as the handlers' validation does."""
    query = request.query
    if (value := query.get("dryRun")) is not None and value != "All":
        raise _unsupported(request, "dryRun", f'["{value}"]', ("All",))
    if (value := query.get("fieldValidation")) and value not in {"Ignore", "Warn", "Strict"}:
        allowed = ("", "Ignore", "Strict", "Warn")
        raise _unsupported(request, "fieldValidation", f'"{value}"', allowed)
    manager = query.get("fieldManager", "")
    if len(manager) > 128:
        text = "Too long: may not be more than 128 bytes"
        raise _invalid_options(request, "fieldManager", "FieldValueTooLong", text)
    for at, sign in enumerate(manager):
        if not sign.isprintable():
            shown = manager.encode("unicode_escape").decode()
            text = (
                f'Invalid value: "{shown}": invalid character U+{ord(sign):04X} (at position {at})'
            )
            raise _invalid_options(request, "fieldManager", "FieldValueInvalid", text)


def _unsupported(request: Request, name: str, shown: str, allowed: tuple[str, ...]) -> StatusError:
    listed = ", ".join(f'"{item}"' for item in allowed)
    text = f"Unsupported value: {shown}: supported values: {listed}"
    return _invalid_options(request, name, "FieldValueNotSupported", text)


def _invalid_options(request: Request, name: str, reason: str, text: str) -> StatusError:
    kind = {"create": "CreateOptions", "update": "UpdateOptions", "patch": "PatchOptions"}.get(
        request.verb, "DeleteOptions"
    )
    details: dict[str, Any] = {
        "group": "meta.k8s.io",
        "kind": kind,
        "causes": [{"reason": reason, "message": text, "field": name}],
    }
    message = f'{kind}.meta.k8s.io "" is invalid: {name}: {text}'
    return StatusError(422, "Invalid", message, details)


def parse_version(value: str) -> int:
    """Return a resourceVersion option. Raises StatusError 500, as upstream."""
    if not value.isascii() or not value.isdigit():
        text = f'strconv.ParseUint: parsing "{value}": invalid syntax'
        raise StatusError(500, "", f'resourceVersion: Invalid value: "{value}": {text}')
    return int(value)

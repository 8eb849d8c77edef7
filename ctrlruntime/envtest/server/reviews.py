"""Reviews: questions about users and rights that are answered and never stored."""

from __future__ import annotations

from typing import Any

import orjson

from ctrlruntime.api.kinds import Manifest
from ctrlruntime.envtest.server.auth import ISSUER, Attributes, Authenticator, Authorizer
from ctrlruntime.envtest.server.codec import decode_object
from ctrlruntime.envtest.server.errors import bad_request, bad_value, invalid
from ctrlruntime.envtest.server.kinds import Kind
from ctrlruntime.envtest.server.options import User
from ctrlruntime.envtest.server.request import Answer, Request
from ctrlruntime.envtest.server.state import State


class Reviews:
    """Answers authentication and authorization reviews."""

    def __init__(self, state: State, authenticator: Authenticator, authorizer: Authorizer) -> None:
        self._state = state
        self._authenticator = authenticator
        self._authorizer = authorizer

    def answer(self, kind: Kind, request: Request) -> Answer:
        obj, _ = decode_object(kind, request)
        spec = obj.get("spec") or {}
        obj["spec"] = spec
        obj["metadata"] = {**obj["metadata"], "creationTimestamp": None}
        _validate(kind, spec)
        match kind.kind:
            case "TokenReview":
                obj["status"] = self._token(spec)
            case "SelfSubjectReview":
                obj.pop("spec")
                obj["status"] = {"userInfo": request.user.info()}
            case "SelfSubjectRulesReview":
                obj["status"] = self._rules(request.user, spec.get("namespace") or "")
            case "SelfSubjectAccessReview":
                obj["status"] = self._access(request.user, spec)
            case _:
                obj["status"] = self._access(self._subject(kind, request, obj), spec)
        return Answer(201, orjson.dumps(obj))

    @staticmethod
    def _subject(kind: Kind, request: Request, obj: Manifest) -> User:
        spec = obj["spec"]
        if kind.kind == "LocalSubjectAccessReview":
            asked = (spec.get("resourceAttributes") or {}).get("namespace") or ""
            if asked != request.namespace:
                raise bad_request("spec.resourceAttributes.namespace must match metadata.namespace")
        return User(spec.get("user") or "", tuple(spec.get("groups") or ()), spec.get("uid") or "")

    def _token(self, spec: Manifest) -> dict[str, Any]:
        audiences = spec.get("audiences") or [ISSUER]
        user = self._authenticator.user_of(spec.get("token") or "", audiences)
        if user is None:
            return {"user": {}, "error": "invalid bearer token"}
        return {"authenticated": True, "user": user.info(), "audiences": audiences}

    def _access(self, user: User, spec: Manifest) -> dict[str, Any]:
        resource, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
        if path is not None:
            asked = Attributes(user, path.get("verb") or "", path=path.get("path") or "/")
        else:
            resource = resource or {}
            asked = Attributes(
                user,
                resource.get("verb") or "",
                resource.get("group") or "",
                resource.get("version") or "",
                resource.get("resource") or "",
                resource.get("subresource") or "",
                resource.get("namespace") or "",
                resource.get("name") or "",
            )
        reason = self._authorizer.decide(asked)
        if reason is None:
            return {"allowed": False}
        return {"allowed": True, "reason": reason} if reason else {"allowed": True}

    def _rules(self, user: User, namespace: str) -> dict[str, Any]:
        resources: list[dict[str, Any]] = []
        paths: list[dict[str, Any]] = []
        if self._state.options.authorization == "AlwaysAllow" or "system:masters" in user.groups:
            resources.append({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]})
            paths.append({"verbs": ["*"], "nonResourceURLs": ["*"]})
        for rule in self._authorizer.rules(user, namespace):
            if rule.get("nonResourceURLs"):
                keys = ("verbs", "nonResourceURLs")
                paths.append({key: rule[key] for key in keys if key in rule})
            else:
                keys4 = ("verbs", "apiGroups", "resources", "resourceNames")
                resources.append({key: rule[key] for key in keys4 if key in rule})
        return {"resourceRules": resources, "nonResourceRules": paths, "incomplete": False}


def _validate(kind: Kind, spec: Manifest) -> None:
    """Raise Invalid for questions that are none, or two."""
    if not kind.kind.endswith("AccessReview"):
        return
    resource, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    errors = []
    if resource is not None and path is not None:
        detail = "cannot be specified in combination with resourceAttributes"
        errors.append(bad_value("spec.nonResourceAttributes", path, detail))
    elif resource is None and path is None:
        detail = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        errors.append(bad_value("spec.resourceAttributes", resource, detail))
    if not kind.kind.startswith("Self") and not spec.get("user") and not spec.get("groups"):
        detail = "at least one of user or group must be specified"
        errors.append(bad_value("spec.user", "", detail))
    if errors:
        raise invalid(kind.group, kind.kind, "", errors)

"""Configurations and roles from what classes declare."""

from __future__ import annotations

import types
from typing import Any

import pytest

from ctrlruntime.api import Manifest
from ctrlruntime.api.builtin import BUILTIN
from ctrlruntime.api.kinds import GroupVersionKind
from ctrlruntime.generate import (
    roles,
    serves_webhooks,
    webhook_configurations,
    webhook_conversion,
    webhooks_of,
)
from ctrlruntime.generate.discovery import find_webhooks
from ctrlruntime.webhook import AdmissionOptions, Review, defaults, validates
from tests.webhook.webhook_kinds import websites

OPTIONS = AdmissionOptions(
    failure_policy="Ignore",
    timeout_seconds=3,
    reinvocation_policy="IfNeeded",
    match_conditions=({"name": "n", "expression": "true"},),
)
SITES = websites(options=OPTIONS)


def test_a_class_reports_all_that_a_configuration_needs() -> None:
    mutating, validating = webhook_configurations(webhooks_of(SITES.current))
    (default,), (validate,) = mutating["webhooks"], validating["webhooks"]
    assert default == {
        "name": "default-v1.websites.sites.example.com",
        "admissionReviewVersions": ["v1"],
        "clientConfig": {
            "service": {
                "name": "webhook-service",
                "namespace": "system",
                "path": "/mutate-sites-example-com-v1-website",
            }
        },
        "failurePolicy": "Ignore",
        "matchPolicy": "Equivalent",
        "sideEffects": "None",
        "timeoutSeconds": 3,
        "reinvocationPolicy": "IfNeeded",
        "matchConditions": [{"name": "n", "expression": "true"}],
        "rules": [
            {
                "apiGroups": ["sites.example.com"],
                "apiVersions": ["v1"],
                "operations": ["CREATE", "UPDATE"],
                "resources": ["websites"],
                "scope": "*",
            }
        ],
    }
    assert validate["name"] == "validate-v1.websites.sites.example.com"
    assert validate["rules"][0]["operations"] == ["CREATE", "UPDATE", "DELETE"]
    assert "reinvocationPolicy" not in validate
    assert webhooks_of(SITES.old) == []


def test_steps_that_no_class_declares_are_given_as_they_are_registered() -> None:
    @defaults("create")
    def label(obj: Manifest, review: Review[Any]) -> None:
        obj["metadata"]["labels"] = {}

    @validates("delete")
    def keep(obj: object, review: Review[Any]) -> None:
        raise ValueError("no")

    config_map = BUILTIN[GroupVersionKind("", "v1", "ConfigMap")]
    made = webhooks_of(config_map, label, keep, service_name="mine", service_namespace="here")
    entries = [hook.entry() for hook in made]
    assert [entry["name"] for entry in entries] == [
        "default-v1.configmaps.core.k8s",
        "validate-v1.configmaps.core.k8s",
    ]
    assert [entry["rules"][0]["operations"] for entry in entries] == [["CREATE"], ["DELETE"]]
    assert entries[0]["clientConfig"]["service"] == {
        "name": "mine",
        "namespace": "here",
        "path": "/mutate--v1-configmap",
    }


def test_the_generator_finds_what_classes_declare() -> None:
    module = types.ModuleType(SITES.current.__module__)
    module.Website = SITES.current  # type: ignore[attr-defined]
    module.OldWebsite = SITES.old  # type: ignore[attr-defined]
    found = find_webhooks([module])
    assert [hook.path for hook in found] == [
        "/mutate-sites-example-com-v1-website",
        "/validate-sites-example-com-v1-website",
    ]


def test_a_subclass_inherits_and_replaces() -> None:
    class Stricter(SITES.current, group="strict.example.com", version="v1", kind="Website"):  # type: ignore[name-defined,misc,call-arg]
        """A website with a rule more, and a default of its own."""

        @defaults("create")
        def fill_in(self, review: Review[Any]) -> None:
            self.spec.tier = "large"

    default, validate = webhooks_of(Stricter)
    assert default.verbs == ("CREATE",)
    assert validate.verbs == ("CREATE", "UPDATE", "DELETE")


def test_roles_name_the_objects_they_are_about() -> None:
    rules = serves_webhooks(
        "cert", "system", mutating=["m"], validating=["v"], definitions=["sites.example.com"]
    )
    cluster, namespaced = roles(rules)
    assert namespaced["metadata"]["namespace"] == "system"
    assert {tuple(rule.get("resourceNames", ())) for rule in namespaced["rules"]} == {(), ("cert",)}
    for rule in cluster["rules"]:
        assert rule["verbs"] == ["get", "patch", "watch"]
        assert rule["resourceNames"]
    everything, _ = roles(serves_webhooks("cert", "system", annotated=True))
    assert all(rule["verbs"] == ["get", "list", "patch", "watch"] for rule in everything["rules"])


def test_a_definition_is_converted_by_the_service() -> None:
    assert webhook_conversion("mine", "here") == {
        "strategy": "Webhook",
        "webhook": {
            "clientConfig": {"service": {"name": "mine", "namespace": "here", "path": "/convert"}},
            "conversionReviewVersions": ["v1"],
        },
    }


def test_operations_have_names_that_exist() -> None:
    with pytest.raises(ValueError, match="operations here are CREATE, UPDATE, not DELETE"):
        defaults("delete")

"""Webhook configurations."""

from __future__ import annotations

from typing import Any

import pytest

from ctrlruntime.generate import Webhook, webhook_configurations


def hook(name: str = "v.example.com", *, mutating: bool = False, **more: object) -> Webhook:
    where: dict[str, Any] = {} if "url" in more else {"path": "/validate"}
    return Webhook(
        name=name,
        mutating=mutating,
        groups=("example.com",),
        versions=("v1",),
        resources=("websites",),
        **{**where, **more},
    )


def test_a_configuration_of_each_sort_with_sorted_webhooks() -> None:
    manifests = webhook_configurations(
        [hook("b.example.com"), hook("a.example.com"), hook("m.example.com", mutating=True)]
    )
    assert [(m["kind"], [w["name"] for w in m["webhooks"]]) for m in manifests] == [
        ("MutatingWebhookConfiguration", ["m.example.com"]),
        ("ValidatingWebhookConfiguration", ["a.example.com", "b.example.com"]),
    ]


def test_a_webhook_reports_what_it_wants() -> None:
    entry = hook(verbs=("create",), timeout_seconds=5, match_conditions=({"name": "n"},)).entry()
    assert entry["rules"][0]["operations"] == ["CREATE"]
    assert entry["clientConfig"]["service"] == {
        "name": "webhook-service",
        "namespace": "system",
        "path": "/validate",
    }
    assert entry["timeoutSeconds"] == 5
    assert entry["sideEffects"] == "None"
    assert entry["matchConditions"] == [{"name": "n"}]
    assert "namespaceSelector" not in entry
    assert hook(url="https://x/y").entry()["clientConfig"] == {"url": "https://x/y"}


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": "short"},
        {"path": "/a", "url": "https://x"},
        {"path": None},
        {"path": "relative"},
        {"timeout_seconds": 31},
        {"reinvocation_policy": "IfNeeded"},
    ],
)
def test_what_the_server_would_refuse_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="webhook"):
        hook(**wrong)


def test_two_webhooks_of_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match="same name"):
        webhook_configurations([hook(), hook()])

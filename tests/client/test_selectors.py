"""Selectors are read and matched as the API server does."""

from __future__ import annotations

from typing import Any

import pytest

from ctrlruntime.api.builtin import BUILTIN
from ctrlruntime.api.resource import gvk_of
from ctrlruntime.client.client import Client
from ctrlruntime.client.config import Config
from ctrlruntime.client.errors import BadRequest
from ctrlruntime.client.selectors import (
    InvalidSelector,
    label_matcher,
    label_text,
    selector_matches,
)
from ctrlruntime.resources import Desired
from tests.client.support import CONFIG_MAP, config_map

LABELS = {"app": "web", "tier": "2", "empty": ""}


@pytest.mark.parametrize(
    ("text", "matches"),
    [
        ("", True),
        ("app", True),
        ("!app", False),
        ("app=web", True),
        ("app == web", True),
        ("app!=web", False),
        ("missing!=web", True),
        ("app in (web,db),tier", True),
        ("app notin (web)", False),
        ("tier>1", True),
        ("tier < 2", False),
        ("app>1", False),
        ("empty=", True),
        ("empty in ()", True),
    ],
)
async def test_a_label_selector_matches_as_on_the_server(
    api_config: Config, text: str, matches: bool
) -> None:
    assert label_matcher(text)(LABELS) is matches
    async with Client.connect(api_config) as client:
        body = config_map("selected")
        body["metadata"] |= {"labels": {**LABELS, "lot": "selectors"}}
        await client.create(body)
        found = await client.list(CONFIG_MAP, "default", labels=f"lot=selectors,{text}".strip(","))
        await client.delete(CONFIG_MAP, "selected", namespace="default")
    assert bool(found) is matches


@pytest.mark.parametrize(
    "text",
    ["app=", "a b", "app in web", "app>x", "-x", "a=b c", ",a", "=a", "a=b)", "a,,b", "app in (a"],
)
async def test_a_label_selector_that_the_server_refuses_is_refused_with_its_words(
    api_config: Config, text: str
) -> None:
    async with Client.connect(api_config) as client:
        try:
            await client.list(CONFIG_MAP, "default", labels=text)
        except BadRequest as error:
            said = str(error)
        else:
            label_matcher(text)
            return
    with pytest.raises(InvalidSelector) as refused:
        label_matcher(text)
    assert str(refused.value) in said


@pytest.mark.parametrize(
    ("selector", "matches"),
    [
        ({}, True),
        ({"matchLabels": {"app": "web"}}, True),
        ({"matchLabels": {"app": "db"}}, False),
        ({"matchExpressions": [{"key": "app", "operator": "In", "values": ["web"]}]}, True),
        ({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["web"]}]}, False),
        ({"matchExpressions": [{"key": "app", "operator": "Exists"}]}, True),
        ({"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]}, False),
        ({"matchExpressions": [{"key": "app", "operator": "Near"}]}, False),
        ({"matchExpressions": [{"operator": "Exists"}]}, False),
        ({"matchExpressions": ["app"]}, False),
        ({"matchLabels": "app"}, False),
    ],
)
def test_a_selector_object_matches_nothing_where_a_server_would_refuse_it(
    selector: dict[str, Any], matches: bool
) -> None:
    assert selector_matches(selector, LABELS) is matches


@pytest.mark.parametrize("labels", [{"a": 1}, {"a": None}, {"a": ["x", 2]}])
def test_a_label_that_is_no_text_is_named_with_what_to_write(
    labels: dict[str, Any],
) -> None:
    with pytest.raises(TypeError, match=r"labels: the value of 'a' is .*, not text: write"):
        label_text(labels)
    manifest = {"metadata": {"name": "a"}}
    mapping = BUILTIN[gvk_of("v1/ConfigMap")]
    with pytest.raises(TypeError, match=r"Desired\(labels=...\): the value of 'a' is .*, not text"):
        Desired(mapping=mapping, manifest=manifest, labels=labels)

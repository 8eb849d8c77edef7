"""One order of arguments everywhere: kind, name, and the namespace by keyword alone."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from ctrlruntime import ApiModel, GroupVersionKind, ObjectMeta, Owner, Request, Resource
from ctrlruntime.cache.entry import EntryDecoder

pytestmark = pytest.mark.criterion("DX-3")

ROOT = Path(__file__).parents[1]
WIRE = ("ctrlruntime/envtest/server/", "ctrlruntime/envtest/proxy/")
"""They read paths of requests, where the namespace comes first."""

Function = ast.FunctionDef | ast.AsyncFunctionDef


def public_functions() -> Iterator[tuple[str, Function]]:
    """Functions of the library that take a name and a namespace."""
    for path in sorted((ROOT / "ctrlruntime").rglob("*.py")):
        where = path.relative_to(ROOT).as_posix()
        if where.startswith(WIRE):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, Function) or node.name.startswith("_") != (
                node.name == "__init__"
            ):
                continue
            arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
            if {"name", "namespace"} <= {each.arg for each in arguments}:
                yield f"{where}:{node.lineno} {node.name}", node


def test_the_namespace_is_given_by_keyword_wherever_a_name_is_given() -> None:
    found = dict(public_functions())
    assert len(found) > 20
    by_place = [
        where
        for where, node in found.items()
        if "namespace" not in {each.arg for each in node.args.kwonlyargs}
    ]
    assert by_place == []


def test_the_kind_comes_before_the_name() -> None:
    for where, node in public_functions():
        order = [each.arg for each in node.args.args]
        if "kind" in order and "name" in order:
            assert order.index("kind") + 1 == order.index("name"), where


def test_requests_are_sorted_by_namespace_first() -> None:
    requests = [Request("a", namespace="z"), Request("b", namespace="y"), Request("c")]
    assert [str(each) for each in sorted(requests)] == ["c", "y/b", "z/a"]
    with pytest.raises(TypeError):
        Request("default", "web")  # type: ignore[call-arg]


class ShopSpec(ApiModel):
    open: bool = True


class Shop(Resource[ShopSpec], group="example.com", version="v1"):
    """A shop."""


def test_an_owner_is_made_of_an_object_of_any_form() -> None:
    meta = ObjectMeta(name="corner", namespace="town", uid="u-1")
    shop = Shop(metadata=meta, spec=ShopSpec())
    expected = Owner(gvk=Shop.gvk(), namespace="town", name="corner", uid="u-1")
    manifest = shop.to_manifest()
    assert Owner.of(shop) == Owner.of(manifest) == expected
    assert Owner.of(EntryDecoder(Shop.gvk()).decode_manifest(manifest)) == expected
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "uid": "u-2"}}
    gvk = GroupVersionKind("", "v1", "Node")
    assert Owner.of(node) == Owner(gvk=gvk, namespace="", name="n", uid="u-2")


def test_an_object_that_the_server_has_not_returned_is_no_owner() -> None:
    with pytest.raises(ValueError, match="Shop 'corner' has no uid"):
        Owner.of(Shop(metadata=ObjectMeta(name="corner"), spec=ShopSpec()))

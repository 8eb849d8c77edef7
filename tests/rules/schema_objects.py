"""Hypothesis strategies for objects of a CRD, from its structural schema alone.

    spec_of(crd)                      any spec that the schema admits, most of it left out
    mutated(crd, sample)              a valid manifest with up to three fields replaced or removed

What CEL rules or admission refuse besides is for the server to say.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

from hypothesis import strategies as st

Schema = Mapping[str, Any]
JSON = Any
Strategy = st.SearchStrategy[JSON]

TEXTS = (
    "",
    "a",
    "abc",
    "lots",
    "10%",
    "150%",
    "-1",
    "0",
    "007",
    "1e400",
    "1Gi",
    "5m",
    "1h30m",
    "true",
    "null",
    "a.b",
    "A_B",
    "../..",
    "/",
    "é",
    "ı\u0307",
    "🦆",
    "a b",
    "a\nb",
    "{{ .uid }}",
    "{{ .missing }}",
    "{{ fail",
    "${x}",
    "* * * * *",
    "@yearly",
    "https://127.0.0.1:1/x",
    "127.0.0.1",
    "x" * 64,
    "x" * 300,
)
"""Texts that people write by mistake, and those that look like another type."""
INTEGERS = (0, 1, 2, -1, 3, 7, 80, 65536, 2**31 - 1, -(2**31))
DEEPEST = 6
FREE = st.recursive(
    st.none() | st.booleans() | st.sampled_from(INTEGERS) | st.sampled_from(TEXTS),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(("a", "spec", "metadata", "kind", "x-y")), inner, max_size=2
        )
    ),
    max_leaves=4,
)
"""Values where the schema says nothing."""


def spec_schema(crd: Mapping[str, Any]) -> Schema:
    """Return the schema of `spec` in the first version of a CRD."""
    root = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return dict(root["properties"]["spec"])


def spec_of(crd: Mapping[str, Any]) -> Strategy:
    """Return a strategy of specs that the schema admits."""
    return values(spec_schema(crd))


def mutated(crd: Mapping[str, Any], sample: Mapping[str, Any]) -> Strategy:
    """Return a strategy of manifests like the sample, with one to three changes in their spec."""
    schema = spec_schema(crd)

    @st.composite
    def build(draw: st.DrawFn) -> JSON:
        manifest = copy.deepcopy(dict(sample))
        for _ in range(draw(st.integers(1, 3))):
            manifest["spec"] = draw(_changed(schema, manifest.get("spec", {})))
        return manifest

    return build()


def values(schema: Schema, depth: int = 0) -> Strategy:
    """Return a strategy of values that a schema admits."""
    if schema.get("x-kubernetes-int-or-string"):
        found: Strategy = st.sampled_from(INTEGERS) | _texts(schema)
    elif "enum" in schema:
        found = st.sampled_from(list(schema["enum"]))
    else:
        found = _typed(schema, depth)
    return st.none() | found if schema.get("nullable") else found


def _typed(schema: Schema, depth: int) -> Strategy:
    match schema.get("type"):
        case "object":
            return _objects(schema, depth)
        case "array":
            return _arrays(schema, depth)
        case "string":
            return _texts(schema)
        case "integer" | "number":
            return _numbers(schema)
        case "boolean":
            return st.booleans()
    return FREE


def _objects(schema: Schema, depth: int) -> Strategy:
    properties: Mapping[str, Schema] = schema.get("properties") or {}
    additional = schema.get("additionalProperties")
    if not properties and isinstance(additional, Mapping):
        keys = st.sampled_from([text for text in TEXTS if text])
        return st.dictionaries(keys, values(additional, depth + 1), max_size=3)
    if not properties:
        return st.dictionaries(st.sampled_from(("a", "metadata", "spec", "kind")), FREE, max_size=3)
    required = set(schema.get("required") or ())
    optional = [name for name in properties if name not in required]

    @st.composite
    def build(draw: st.DrawFn) -> JSON:
        chosen = [name for name in properties if name in required]
        if optional and depth < DEEPEST:
            chosen += draw(st.lists(st.sampled_from(optional), max_size=3, unique=True))
        return {name: draw(values(properties[name], depth + 1)) for name in chosen}

    return build()


def _arrays(schema: Schema, depth: int) -> Strategy:
    least = int(schema.get("minItems", 0))
    most = min(int(schema.get("maxItems", 3)), max(3, least))
    if depth >= DEEPEST:
        most = least
    items = values(schema.get("items") or {}, depth + 1)
    keys: Sequence[str] = schema.get("x-kubernetes-list-map-keys") or ()
    if keys:
        return st.lists(
            items,
            min_size=least,
            max_size=most,
            unique_by=lambda item: tuple(repr(item.get(key)) for key in keys),
        )
    unique = repr if schema.get("x-kubernetes-list-type") == "set" else None
    return st.lists(items, min_size=least, max_size=most, unique_by=unique)


def _texts(schema: Schema) -> Strategy:
    least, most = int(schema.get("minLength", 0)), int(schema.get("maxLength", 300))
    pattern = schema.get("pattern")
    if pattern is None:
        return st.sampled_from(
            [text for text in TEXTS if least <= len(text) <= most] or ["x" * least]
        )
    matching = st.from_regex(pattern, fullmatch=True, alphabet=st.characters(codec="ascii"))
    return matching.filter(lambda text: least <= len(text) <= most)


def _numbers(schema: Schema) -> Strategy:
    least, most = schema.get("minimum"), schema.get("maximum")
    bounds = [int(bound) for bound in (least, most) if bound is not None]
    inside = [
        number
        for number in (*INTEGERS, *bounds)
        if (least is None or number >= least) and (most is None or number <= most)
    ]
    return st.sampled_from(inside or bounds)


def _changed(schema: Schema, value: JSON) -> Strategy:
    """Return a strategy of the value with one change, somewhere in it."""
    properties: Mapping[str, Schema] = schema.get("properties") or {}
    items: Schema = schema.get("items") or {}

    @st.composite
    def build(draw: st.DrawFn) -> JSON:
        deeper = draw(st.integers(0, 3)) > 0
        if deeper and properties and isinstance(value, dict):
            name = draw(st.sampled_from(list(properties)))
            if name not in value:
                return {**value, name: draw(values(properties[name]))}
            if name not in schema.get("required", ()) and draw(st.integers(0, 4)) == 0:
                return {key: each for key, each in value.items() if key != name}
            return {**value, name: draw(_changed(properties[name], value[name]))}
        if deeper and items and isinstance(value, list) and value:
            place = draw(st.integers(0, len(value) - 1))
            return [*value[:place], draw(_changed(items, value[place])), *value[place + 1 :]]
        return draw(values(schema))

    return build()

"""The deep walk through a manifest: which strings are templates, which stay text.

Keys are never rendered. Strings in mappings, lists and lists of lists are, each exactly once. A
string that is one whole expression becomes that expression's native value, except in places that
hold text by definition: names, labels, annotations, selectors, the data of ConfigMaps and Secrets,
environment values, arguments and commands.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ctrlruntime.json import Json
from internal.tenancy.rendering.errors import RenderError, TemplateError
from internal.tenancy.rendering.limits import DEEPEST_VALUE
from internal.tenancy.rendering.templates import Templates, is_template
from internal.tenancy.rendering.values import to_text

Manifest = dict[str, Any]
Path = tuple[str | int, ...]
Leaf = Callable[[str, Path], Any]
"""What becomes of a template string at a path."""

LARGEST_MANIFEST = 50_000
"""Most values of one manifest, lists and mappings included: what a pass over all of them may take on the event loop."""

_TEXT_VALUES = frozenset({"apiVersion", "kind"})
_TEXT_CHILDREN = frozenset(
    {"labels", "annotations", "matchLabels", "nodeSelector", "args", "command"}
)
_TEXT_METADATA = frozenset({"name", "namespace", "generateName"})
_TEXT_DATA = frozenset({"data", "binaryData", "stringData"})


def combine(
    manifest: Mapping[str, Any],
    *,
    name: str | None = None,
    namespace: str | None = None,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
) -> Manifest:
    """Return the manifest with a resource's own templates put into its metadata, nothing rendered yet.

    Labels and annotations are merged over those of the manifest; name and namespace replace its own
    only where they are given. Raises RenderError for metadata that is no object, or kinds that are no text.
    """
    _check_shape(manifest)
    metadata = dict(_mapping(manifest.get("metadata")))
    if name:
        metadata["name"] = name
    if namespace:
        metadata["namespace"] = namespace
    for key, templates in (("labels", labels), ("annotations", annotations)):
        if templates:
            metadata[key] = {**_mapping(metadata.get(key)), **templates}
    return {**manifest, "metadata": metadata}


def _check_shape(manifest: Mapping[str, Any]) -> None:
    """Raise RenderError for what the rest of this module relies on: what kind it is, and its metadata."""
    for key in ("apiVersion", "kind"):
        if key in manifest and not isinstance(manifest[key], str):
            raise RenderError(key, "this has to be text")
    metadata = manifest.get("metadata")
    parts = {"metadata": metadata}
    if isinstance(metadata, Mapping):
        parts |= {f"metadata.{key}": metadata.get(key) for key in ("labels", "annotations")}
    for path, part in parts.items():
        if part is not None and not isinstance(part, Mapping):
            raise RenderError(path, "this has to be an object with fields")


def strings(manifest: object, most_nodes: int = LARGEST_MANIFEST) -> Iterator[str]:
    """All template strings, in no particular order. Raises RenderError above so many values."""
    waiting, nodes = [manifest], 0
    while waiting:
        node = waiting.pop()
        nodes += 1
        if nodes > most_nodes:
            raise RenderError("", f"the manifest has more than {most_nodes} values; split it")
        if isinstance(node, str):
            if is_template(node):
                yield node
        elif isinstance(node, Mapping):
            waiting.extend(node.values())
        elif isinstance(node, list):
            waiting.extend(node)


def render(
    templates: Templates, manifest: Mapping[str, Any], variables: Mapping[str, Any]
) -> Manifest:
    """Return the manifest with every template rendered; its own fresh structure. Raises RenderError.

    What conversions lost is in `templates.meter.lost` then, with the places.
    """

    def leaf(text: str, path: Path) -> Json:
        value = templates.render(text, variables)
        templates.meter.place_losses(lambda: locate(path))
        return value

    return walk(manifest, leaf)


def walk(manifest: Mapping[str, Any], leaf: Leaf) -> Manifest:
    """Return the manifest with `leaf` applied to every template string. Raises RenderError with its path."""
    kind = manifest.get("kind")
    data = _TEXT_DATA if kind in {"ConfigMap", "Secret"} else frozenset()
    return {
        key: _value(item, (key,), leaf, text=key in _TEXT_VALUES or key in data)
        for key, item in manifest.items()
    }


def _value(node: object, path: Path, leaf: Leaf, *, text: bool) -> Json:
    if isinstance(node, str):
        return _leaf(node, path, leaf, text=text) if is_template(node) else node
    if len(path) > DEEPEST_VALUE:
        raise RenderError(
            locate(path), f"the manifest is nested deeper than {DEEPEST_VALUE} levels"
        )
    if isinstance(node, Mapping):
        return {
            key: _value(item, (*path, key), leaf, text=text or _is_text(path, key))
            for key, item in node.items()
        }
    if isinstance(node, list):
        return [_value(item, (*path, i), leaf, text=text) for i, item in enumerate(node)]
    return node


def _leaf(node: str, path: Path, leaf: Leaf, *, text: bool) -> Json:
    try:
        value = leaf(node, path)
        return to_text(value) if text else value
    except TemplateError as error:
        raise RenderError(locate(path), str(error)) from error


def _is_text(parent: Path, key: str) -> bool:
    if key in _TEXT_VALUES or key in _TEXT_CHILDREN:
        return True
    if key == "value":
        return len(parent) >= 2 and parent[-2] == "env"
    return key in _TEXT_METADATA and parent[-1] == "metadata"


def locate(path: Path) -> str:
    """Return a path as people write it: `spec.containers[0].image`, `metadata.annotations["a/b"]`."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        elif part.replace("_", "").replace("-", "").isalnum():
            text += f".{part}" if text else part
        else:
            text += f'["{part}"]'
    return text


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}

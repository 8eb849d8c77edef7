"""YAML that is the same each time: sorted keys, literal blocks for text, no aliases."""

from __future__ import annotations

import re
from collections.abc import Iterable

import yaml

from ctrlruntime.api.kinds import Manifest
from ctrlruntime.json import Json

__all__ = ["to_yaml"]

_WIDTH = 100
# Strings that readers of YAML 1.2, or of Go's YAML, take for something else than PyYAML does.
_AMBIGUOUS = re.compile(
    r"[-+]?(\.[0-9]+|[0-9]+\.?[0-9]*)([eE][-+]?[0-9]+)?|0[xXoObB][0-9a-fA-F_]+|[yYnN]|[-+]?\.(inf|nan)",
    re.IGNORECASE,
)


class _Dumper(yaml.CSafeDumper):
    def ignore_aliases(self, data: object) -> bool:
        return True


def _represent_str(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    style = None
    if "\n" in text:
        style = "|"
    elif _AMBIGUOUS.fullmatch(text):
        style = "'"
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _represent_str)


def to_yaml(manifests: Manifest | Iterable[Manifest]) -> str:
    """One manifest, or several as a stream of documents; each begins with ``---``."""
    if isinstance(manifests, dict):
        manifests = [manifests]
    text: str = yaml.dump_all(
        [_head_first(manifest) for manifest in manifests],
        Dumper=_Dumper,
        default_flow_style=False,
        explicit_start=True,
        sort_keys=False,
        allow_unicode=True,
        width=_WIDTH,
    )
    return text


def _head_first(manifest: Manifest) -> Manifest:
    """apiVersion, kind and metadata on top as people expect, all else sorted at every level."""
    head = {key: manifest[key] for key in ("apiVersion", "kind") if key in manifest}
    return {**head, **_sorted({k: v for k, v in manifest.items() if k not in head})}


def _sorted(value: object) -> Json:
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    if isinstance(value, list | tuple):
        return [_sorted(item) for item in value]
    return value

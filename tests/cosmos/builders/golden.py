"""What the builders make of each sample, as files that are committed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from apis.cosmos import CosmosFullNode
from ctrlruntime.json import Json
from ctrlruntime.resources import Desired
from internal.cosmos.fullnode.additional_pod_builder import build_additional_pods
from internal.cosmos.fullnode.configmap_builder import build_config_maps
from internal.cosmos.fullnode.disruption_budget import build_disruption_budgets
from internal.cosmos.fullnode.node_key_collector import build_node_keys
from internal.cosmos.fullnode.peers import build_peers
from internal.cosmos.fullnode.plain_control import build_role_bindings, build_roles
from internal.cosmos.fullnode.pod_builder import build_pods, sidecar_image_of
from internal.cosmos.fullnode.pvc_builder import build_claims
from internal.cosmos.fullnode.service_account_builder import build_service_accounts
from internal.cosmos.fullnode.service_builder import build_services

from .samples import NAMES, SIDECAR, balanced, keys_of, sample

FOLDER = Path(__file__).parent / "golden"
RENEW = (
    "What is built of an unchanged resource has changed: at run time it is held back until the resource "
    "changes or somebody opts in (spec.strategy.builderChanges: Roll), and then Pods are rolled. If that "
    "is meant: python -m tests.cosmos.builders --write, and say so in the notes of the release."
)


def built(nodes: CosmosFullNode) -> list[Desired]:
    """All that a set consists of. Its first node has an address for peers outside."""
    keys = keys_of(nodes)
    first = nodes.spec.ordinals.start
    service = balanced(nodes, first, ip="203.0.113.7")
    known = nodes.spec.service.max_p2p_external_addresses > 0
    peers = build_peers(nodes, keys, {service["metadata"]["name"]: service} if known else {})
    checksums = {pod: f"checksum-of-{pod}" for pod in keys}
    image = sidecar_image_of(nodes, SIDECAR)
    return [
        *build_service_accounts(nodes),
        *build_roles(nodes),
        *build_role_bindings(nodes),
        *build_services(nodes),
        *build_disruption_budgets(nodes, nodes.spec.replicas),
        *build_node_keys(nodes, keys),
        *build_config_maps(nodes, keys, peers),
        *(claim.desired for claim in build_claims(nodes)),
        *build_pods(nodes, checksums, sidecar_image=image),
        *build_additional_pods(nodes),
    ]


def text_of(desired: list[Desired]) -> str:
    """Return a document for each object: what it is, and what is recorded beside it.

    Of an object that is like an earlier one of its kind, only the differences: leaves by path, lines of texts by number.
    """
    texts: list[str] = []
    earlier: dict[str, list[tuple[str, dict[str, Json]]]] = {}
    for item in desired:
        whole: dict[str, Any] = {
            **item.manifest,
            "built": {"inputs": item.inputs, "revision": item.revision},
        }
        leaves, kind = dict(_leaves(whole)), item.mapping.gvk.kind
        documents = [whole]
        for name, others in earlier.get(kind, ()):
            differing = {
                path: each for path, each in leaves.items() if others.get(path, ...) != each
            }
            gone = sorted(others.keys() - leaves)
            documents.append({"kind": kind, "like": name, "differing": differing, "absent": gone})
        texts.append(min(map(_dumped, documents), key=lambda text: text.count("\n")))
        earlier.setdefault(kind, []).append((item.name, leaves))
    return "---\n".join(texts)


def _leaves(value: Json, path: str = "") -> Iterator[tuple[str, Json]]:
    if isinstance(value, str) and "\n" in value:
        value = value.split("\n")
    if isinstance(value, list):
        value = {str(number): each for number, each in enumerate(value)}
    if not isinstance(value, dict) or not value:
        yield path, value
    else:
        for name, each in value.items():
            yield from _leaves(each, f"{path}/{name}")


def _dumped(document: Json) -> str:
    return yaml.dump(document, Dumper=_Dumper, sort_keys=True, width=110)


class _Dumper(yaml.SafeDumper):
    """Texts of several lines are written so that people can read them."""

    def ignore_aliases(self, data: object) -> bool:
        return True


def _text(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)


def files() -> dict[Path, str]:
    """Return the text of each file."""
    return {FOLDER / f"{name}.yaml": text_of(built(sample(name))) for name in NAMES}

"""Every leaf of the specs of the product's CRDs, and values that a CRD admits there.

    for leaf in leaves_of("CosmosFullNode"):
        spec = with_ancestors(leaf, base)
        spec = replaced(leaf, spec, plausible(leaf)[0])

The leaves come from the CRDs alone, so a new field is one of them by itself. What a schema cannot say, such as which
key a map understands, is in the tables below; a leaf without a value that the server accepts fails the test.
"""

from __future__ import annotations

import copy
import random
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ctrlruntime.json import Json
from tests.rules.harness import crds
from tests.rules.schema_objects import INTEGERS, TEXTS, Schema, spec_schema

JSON = Any
Path = tuple[str, ...]
ITEM, VALUE = "[]", "{}"
"""Steps of a path: the first item of an array, one value of a map."""
ABSENT: Any = object()

WORDS = (
    "abc",
    "changed",
    "1Gi",
    "2Gi",
    "5m",
    "10m",
    "1h30m",
    "10%",
    "20%",
    "30 3 * * *",
    "0 4 * * *",
    "Europe/Berlin",
    "a" * 64,
    "b" * 64,
    "123456789012",
    "210987654321",
    "http://127.0.0.1:1/x",
    "https://127.0.0.1:1/y",
    "tcp://0.0.0.0:26661",
    "tcp://0.0.0.0:26662",
    "GET",
    "POST",
    "cli",
    "vcs",
    "Always",
    "Never",
    "Cluster",
    "Local",
    "ClusterIP",
    "NodePort",
    "ReadWriteOnce",
    "ReadWriteMany",
    "Filesystem",
    "Block",
    "VolumeSnapshot",
    "PersistentVolumeClaim",
    "A_",
)
"""Texts that mean something in one field or another; a schema's pattern chooses."""

GIVEN: dict[str, tuple[JSON, ...]] = {
    "ChangeFreeze.startsAt": ("2026-01-01T00:00:00Z", "2098-01-01T00:00:00Z"),
    "ChangeFreeze.until": ("2099-01-01T00:00:00Z", "2026-02-01T00:00:00Z"),
    "env.[]": ({"name": "A", "value": "1"}, {"name": "A", "value": "2"}),
    "ports.[]": ({"name": "extra", "containerPort": 8080}, {"containerPort": 8081}),
    "volumeMounts.[]": (
        {"name": "vol-chain-home", "mountPath": "/more"},
        {"name": "missing", "mountPath": "/x"},
    ),
    "tolerations.[]": (
        {"key": "a", "operator": "Exists"},
        {"key": "b", "operator": "Exists"},
    ),
    "imagePullSecrets.[]": ({"name": "pull"}, {"name": "other"}),
    "podTemplate.affinity": (
        {"podAntiAffinity": {}},
        {"nodeAffinity": {}},
    ),
    "preferredDuringSchedulingIgnoredDuringExecution.[]": (
        {"weight": 1, "podAffinityTerm": {"topologyKey": "zone"}},
    ),
    "bundle.manifests.[]": (
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "more"}},
    ),
    "privateLinks.[].ports.[]": (443, 8443),
    "statusCodes.[]": (200, 202),
    "config.overrides": ('log_level = "debug"\n', "indent = 2\n"),
    "app.overrides": ('pruning = "nothing"\n', "halt-time = 0\n"),
    "resources.limits.{}": ("100m", "200m"),
    "resources.requests.{}": ("100m", "200m"),
    "volumeClaimTemplate.resources.limits.{}": ("3Gi", "4Gi"),
    "requests.storage": ("1Gi", "2Gi"),
    "maxUnavailable": (1, "50%"),
    "haltOnFailures": (1, "50%"),
    "maxSkew": (1, "50%"),
    "extraValueMappings.{}": ("plan", {"column": "plan", "sensitive": True}, "missing"),
    "CosmosFullNode.replicas": (3, 0),
    "source.type": ("sqlite", "mysql", "postgresql"),
    "FleetRollout.startAt": ("abc", "more"),
}
"""Values by the end of a path, for what no schema says: the longest end that fits counts."""

MAP_KEYS = {
    "instanceOverrides": "shop-0",
    "resources.limits": "cpu",
    "resources.requests": "cpu",
    "volumeClaimTemplate.resources.limits": "storage",
    "versions.[].containers": "node",
    "versions.[].initContainers": "chain-init",
    "extraValueMappings": "tier",
}
"""The key that a value of a map gets, by the end of the map's path; others are called `key`."""

ONE_OF = {
    "upgrade.backup": ("http", "job"),
    "upgrade.migrate": ("http", "job"),
    "steps.backup": ("http", "job"),
    "steps.migrate": ("http", "job"),
    "rollout.canary": ("percent", "selector"),
    "additionalVersionedPods.[]": ("spec", "containers"),
    "healthChecks.[]": ("hook", "prometheus"),
}
"""Objects of which exactly one field is set: the first, unless the leaf is in another."""

UNREACHABLE = {
    "host": "127.0.0.1",
    "port": 1,
    "username": "reader",
    "database": "shop",
    "table": "tenants",
    "passwordRef": {"name": "db", "key": "p"},
}
BESIDES: dict[str, dict[Path, JSON]] = {
    "source.mysql": {("source", "type"): "mysql"},
    "source.postgresql": {("source", "type"): "postgresql"},
    "startAt": {("waves",): [{"name": "abc"}, {"name": "more"}]},
    "source.type": {("source", "mysql"): UNREACHABLE, ("source", "postgresql"): UNREACHABLE},
}
"""What else must be set for a leaf to mean something, by the begin of its path."""
FIXED: dict[str, JSON] = {
    "source.mysql": UNREACHABLE,
    "source.postgresql": UNREACHABLE,
    "spec.volumes.[]": {"name": "more", "emptyDir": {}},
    "podTemplate.volumes.[]": {"name": "more", "emptyDir": {}},
    "containers.[]": {"name": "more", "image": "more:v1"},
    "initContainers.[]": {"name": "before", "image": "more:v1"},
    "additionalVersionedPods.[]": {"name": "indexer"},
    "additionalVersionedPods.[].spec": {"containers": [{"name": "indexer", "image": "indexer:v1"}]},
    "ports.[]": {"name": "extra", "port": 8085},
    "chain.versions.[]": {"height": 0, "image": "gaia:v1"},
    "autoDataSource": {"volumeSnapshotSelector": {"taken": "by-hand"}, "onFailure": "CreateEmpty"},
    "dataSource": {"kind": "PersistentVolumeClaim", "name": "pvc-shop-1", "apiGroup": ""},
}
"""What an ancestor of a leaf is made of where it is not set, by the end of its path; else its required fields."""

WORKLOAD = {
    "selector": {"matchLabels": {"app": "more"}},
    "template": {
        "metadata": {"labels": {"app": "more"}},
        "spec": {"containers": [{"name": "more", "image": "more:v1"}]},
    },
}
JOB = {
    "template": {
        "spec": {"restartPolicy": "Never", "containers": [{"name": "more", "image": "more:v1"}]}
    }
}
RESOURCES: dict[str, JSON] = {
    "serviceAccounts": ("v1", "ServiceAccount", {}),
    "deployments": ("apps/v1", "Deployment", {"spec": {"replicas": 1, **WORKLOAD}}),
    "statefulSets": ("apps/v1", "StatefulSet", {"spec": {"serviceName": "more", **WORKLOAD}}),
    "daemonSets": ("apps/v1", "DaemonSet", {"spec": WORKLOAD}),
    "services": ("v1", "Service", {"spec": {"ports": [{"port": 80}]}}),
    "ingresses": (
        "networking.k8s.io/v1",
        "Ingress",
        {"spec": {"defaultBackend": {"service": {"name": "more", "port": {"number": 80}}}}},
    ),
    "configMaps": ("v1", "ConfigMap", {"data": {"a": "1"}}),
    "secrets": ("v1", "Secret", {"stringData": {"a": "1"}}),
    "persistentVolumeClaims": (
        "v1",
        "PersistentVolumeClaim",
        {
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": "standard",
                "resources": {"requests": {"storage": "1Gi"}},
            }
        },
    ),
    "jobs": ("batch/v1", "Job", {"spec": JOB}),
    "cronJobs": (
        "batch/v1",
        "CronJob",
        {"spec": {"schedule": "0 4 * * *", "jobTemplate": {"spec": JOB}}},
    ),
    "podDisruptionBudgets": (
        "policy/v1",
        "PodDisruptionBudget",
        {"spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "more"}}}},
    ),
    "networkPolicies": ("networking.k8s.io/v1", "NetworkPolicy", {"spec": {"podSelector": {}}}),
    "horizontalPodAutoscalers": (
        "autoscaling/v2",
        "HorizontalPodAutoscaler",
        {
            "spec": {
                "maxReplicas": 2,
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            }
        },
    ),
    "namespaces": ("v1", "Namespace", {}),
    "manifests": ("v1", "ConfigMap", {"data": {"a": "1"}}),
}
"""Of each list of resources of a template one object: apiVersion, kind and what else it has."""


@dataclass(frozen=True, slots=True)
class Leaf:
    """One field of a kind's spec that has no fields of its own."""

    kind: str
    path: Path
    schema: Schema = field(hash=False, compare=False)

    def __str__(self) -> str:
        return f"{self.kind}.spec.{'.'.join(self.path)}"


def leaves_of(kind: str) -> list[Leaf]:
    """Return every leaf of a kind, with one item of each array and one value of each map."""
    return [Leaf(kind, path, schema) for path, schema in _leaves(spec_schema(crds()[kind]), ())]


def _leaves(schema: Schema, path: Path) -> Iterator[tuple[Path, Schema]]:
    below = _below(schema)
    if not below:
        yield path, schema
    for step, each in below.items():
        yield from _leaves(each, (*path, step))


def _below(schema: Schema) -> dict[str, Schema]:
    """Return the schemas one step down."""
    if schema.get("properties"):
        return dict(schema["properties"])
    if schema.get("items"):
        return {ITEM: schema["items"]}
    if isinstance(schema.get("additionalProperties"), Mapping):
        return {VALUE: schema["additionalProperties"]}
    return {}


def transition_rules(leaf: Leaf) -> set[str]:
    """Return the messages of CEL rules on the way to a leaf that compare with the former object."""
    schema = spec_schema(crds()[leaf.kind])
    found = _transitions(schema)
    for step in leaf.path:
        schema = _below(schema)[step]
        found |= _transitions(schema)
    return found


def _transitions(schema: Schema) -> set[str]:
    rules = schema.get("x-kubernetes-validations") or ()
    return {str(rule["message"]) for rule in rules if "oldSelf" in rule["rule"]}


# -- values ---------------------------------------------------------------------------------


def plausible(leaf: Leaf) -> list[JSON]:
    """Return values that somebody might write, the likeliest first."""
    found = _plausible(leaf.path, leaf.schema, leaf.kind)
    assert found, f"{leaf}: no value is known: add some to GIVEN in {__name__}"
    return found


def odd(leaf: Leaf, chance: random.Random) -> list[JSON]:
    """Return values that the schema admits, plausible or not, in the order of chance."""
    schema = leaf.schema
    found = [*_plausible(leaf.path, schema, leaf.kind)]
    if "enum" not in schema and schema.get("type") in ("string", None):
        found += [text for text in TEXTS if _fits(text, schema)]
    if schema.get("type") == "integer" or schema.get("x-kubernetes-int-or-string"):
        found += [number for number in INTEGERS if _inside(number, schema)]
    if schema.get("x-kubernetes-preserve-unknown-fields"):
        found += [{}, {"a": 1}, {"metadata": {"name": "X_"}}]
    return chance.sample(found, len(found))


def _plausible(path: Path, schema: Schema, kind: str = "") -> list[JSON]:
    given = _longest(GIVEN, (kind, *path))
    if given is None and path[-1] == "spec" and path[0] in RESOURCES:
        return _resources(path[0])
    if given is not None:
        return copy.deepcopy(list(given))
    if "enum" in schema:
        return list(schema["enum"])
    match schema.get("type"):
        case "boolean":
            return [not schema.get("default", False), bool(schema.get("default", False))]
        case "integer":
            bounds = (1, 2, 3, int(schema.get("minimum", 0)), int(schema.get("maximum", 7)))
            return [each for each in dict.fromkeys(bounds) if _inside(each, schema)]
        case "object":
            return [{"a": "b"}, {"c": 1}]
    return [word for word in WORDS if _fits(word, schema)]


def _resources(plural: str) -> list[JSON]:
    api_version, kind, rest = RESOURCES[plural]
    made = {"apiVersion": api_version, "kind": kind, **copy.deepcopy(rest)}
    return [made, {**made, "metadata": {"labels": {"more": "yes"}}}]


def _fits(text: str, schema: Schema) -> bool:
    pattern = schema.get("pattern")
    least, most = int(schema.get("minLength", 0)), int(schema.get("maxLength", 1 << 16))
    return least <= len(text) <= most and (pattern is None or bool(re.search(pattern, text)))


def _inside(number: int, schema: Schema) -> bool:
    least, most = schema.get("minimum"), schema.get("maximum")
    return (least is None or number >= least) and (most is None or number <= most)


def _longest(table: Mapping[str, Any], path: Path) -> Json:
    """Return the entry whose name is the longest end of the path, or None."""
    for start in range(len(path)):
        end = ".".join(path[start:])
        if end in table:
            return table[end]
    return None


# -- specs -----------------------------------------------------------------------------------


def with_ancestors(leaf: Leaf, base: JSON) -> JSON:
    """Return the spec with what a leaf is in, where the spec does not have it; without the leaf itself if it may be."""
    made = copy.deepcopy(base)
    for part, besides in BESIDES.items():
        if ".".join(leaf.path).startswith(part):
            for path, value in besides.items():
                made = replaced(Leaf(leaf.kind, path, {}), made, value)
    schema = spec_schema(crds()[leaf.kind])
    place = made
    for index, step in enumerate(leaf.path[:-1]):
        path = leaf.path[: index + 1]
        schema = _below(schema)[step]
        key = _key(leaf.path, index, place)
        following = leaf.path[index + 1]
        if isinstance(place, list) and not place:
            place.append(_ancestor(path, schema, following))
        elif isinstance(place, dict) and place.get(key) is None:
            place[key] = _ancestor(path, schema, following)
        place = place[key]
        for name, value in _alternative(path, schema, following).items():
            if not set(place) & set(_longest(ONE_OF, path)):
                place[name] = value
    return made


def _alternative(path: Path, schema: Schema, following: str) -> dict[str, JSON]:
    names = _longest(ONE_OF, path) or ()
    if not names:
        return {}
    name = following if following in names else names[0]
    chosen = schema["properties"][name]
    if name == following and _below(chosen):
        return {}
    fixed = _longest(FIXED, (*path, name))
    return {name: _minimal((*path, name), chosen) if fixed is None else copy.deepcopy(fixed)}


def _ancestor(path: Path, schema: Schema, following: str) -> JSON:
    fixed = _longest(FIXED, path)
    if fixed is not None and schema.get("type") == "object":
        return copy.deepcopy(fixed)
    if len(path) == 2 and path[0] in RESOURCES:
        name = f"more-{path[0].lower()}"
        return {
            "id": name,
            "nameTemplate": f"{{{{ .uid }}}}-{name}",
            "spec": _resources(path[0])[0],
        }
    if following in (ITEM, VALUE):
        return [] if following == ITEM else {}
    return _minimal(path, schema, following)


def _minimal(path: Path, schema: Schema, following: str = "") -> JSON:
    """Return the least that a schema admits, made of plausible values, for a leaf in the field that follows."""
    if schema.get("properties"):
        made = {
            name: _minimal((*path, name), schema["properties"][name])
            for name in schema.get("required") or ()
        }
        return made | _alternative(path, schema, following)
    if schema.get("items"):
        least = int(schema.get("minItems", 0))
        return [_minimal((*path, ITEM), schema["items"]) for _ in range(least)]
    if isinstance(schema.get("additionalProperties"), Mapping):
        return {}
    return _plausible(path, schema)[0]


def replaced(leaf: Leaf, spec: JSON, value: JSON) -> JSON:
    """Return the spec with a leaf's value replaced; :data:`ABSENT` removes it."""
    made = copy.deepcopy(spec)
    place = made
    for index in range(len(leaf.path) - 1):
        place = place[_key(leaf.path, index, place)]
    key = _key(leaf.path, len(leaf.path) - 1, place)
    if isinstance(place, list):
        place[0:1] = [] if value is ABSENT else [value]
    elif value is ABSENT:
        place.pop(key, None)
    else:
        place[key] = value
    return made


def value_at(leaf: Leaf, spec: JSON) -> JSON:
    """Return a leaf's value, or :data:`ABSENT`."""
    place = spec
    for index in range(len(leaf.path)):
        key = _key(leaf.path, index, place)
        if isinstance(place, list):
            if not place:
                return ABSENT
        elif not isinstance(place, dict) or key not in place:
            return ABSENT
        place = place[key]
    return place


def _key(path: Path, index: int, place: JSON) -> str | int:
    """Return where the step of a path leads in a value: an index, or a key."""
    step = path[index]
    if step == ITEM:
        return 0
    if step != VALUE:
        return step
    known = _longest(MAP_KEYS, path[:index])
    return known or next(iter(place), "key")

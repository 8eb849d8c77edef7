"""What the cache costs: KiB for each Deployment held, microseconds of processor time for each watch event and read.

Run: python benchmarks/cache.py [--objects 10000]
"""

import argparse
import gc
import time
from collections.abc import Callable
from typing import Any

import orjson

from benchmarks.frame import resident_mib
from ctrlruntime.api.kinds import GroupVersionKind
from ctrlruntime.cache.entry import EntryDecoder
from ctrlruntime.cache.reflector import _event_decoder
from ctrlruntime.cache.store import Store
from ctrlruntime.cache.write_overlay import WriteOverlay
from ctrlruntime.client.patches import difference
from ctrlruntime.client.reads import list_items

GVK = GroupVersionKind("apps", "v1", "Deployment")


def deployment(number: int, version: int) -> dict[str, Any]:
    """About 3.5 KB of JSON, as an API server sends it."""
    labels = {"app": "web", "tenant": f"tenant-{number:06}", "ctrlruntime.dev/template": "web"}
    container = _container(number)
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": _metadata(number, version, labels, _owned(labels, container["env"])),
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"app": "web"}},
            "strategy": {"type": "RollingUpdate"},
            "revisionHistoryLimit": 10,
            "progressDeadlineSeconds": 600,
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "containers": [container],
                    "restartPolicy": "Always",
                    "dnsPolicy": "ClusterFirst",
                    "schedulerName": "default-scheduler",
                    "securityContext": {},
                    "terminationGracePeriodSeconds": 30,
                },
            },
        },
        "status": {
            "observedGeneration": 1,
            "replicas": 2,
            "readyReplicas": 2,
            "conditions": [
                {
                    "type": "Available",
                    "status": "True",
                    "lastUpdateTime": "2026-01-02T03:04:05Z",
                    "lastTransitionTime": "2026-01-02T03:04:05Z",
                    "reason": "MinimumReplicasAvailable",
                    "message": "Deployment has minimum availability.",
                }
            ],
        },
    }


def _container(number: int) -> dict[str, Any]:
    return {
        "name": "main",
        "image": "registry.example.com/team/main:1.2.3",
        "env": [{"name": f"SETTING_{i}", "value": f"value-{number}-{i}"} for i in range(12)],
        "ports": [{"containerPort": 8080, "name": "http", "protocol": "TCP"}],
        "resources": {"limits": {"cpu": "1", "memory": "512Mi"}, "requests": {"cpu": "100m"}},
        "livenessProbe": {"httpGet": {"path": "/healthz", "port": "http", "scheme": "HTTP"}},
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "imagePullPolicy": "IfNotPresent",
    }


def _owned(labels: dict[str, str], environment: list[dict[str, str]]) -> dict[str, Any]:
    """Return the fields that the manager applied, as managedFields list them."""
    variables: dict[str, Any] = {
        f'k:{{"name":"{item["name"]}"}}': {".": {}, "f:name": {}, "f:value": {}}
        for item in environment
    }
    container = {".": {}, "f:name": {}, "f:image": {}, "f:env": variables}
    return {
        "f:metadata": {"f:labels": {f"f:{label}": {} for label in labels}},
        "f:spec": {
            "f:replicas": {},
            "f:selector": {},
            "f:template": {"f:spec": {"f:containers": {'k:{"name":"main"}': container}}},
        },
    }


def _metadata(
    number: int, version: int, labels: dict[str, str], owned: dict[str, Any]
) -> dict[str, Any]:
    return {
        "name": f"tenant-{number:06}-web",
        "namespace": "tenants",
        "uid": f"5b0bb3a2-3c8f-4d5e-9a7b-{number:012}",
        "resourceVersion": str(version),
        "generation": 1,
        "creationTimestamp": "2026-01-02T03:04:05Z",
        "labels": labels,
        "annotations": {"ctrlruntime.dev/revision": f"{number:08x}"},
        "ownerReferences": [
            {
                "apiVersion": "tenancy.ctrlruntime.dev/v1",
                "kind": "Tenant",
                "name": f"tenant-{number:06}",
                "uid": f"6b0bb3a2-3c8f-4d5e-9a7b-{number:012}",
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ],
        "managedFields": [
            {
                "manager": "tenancy",
                "operation": "Apply",
                "apiVersion": "apps/v1",
                "time": "2026-01-02T03:04:05Z",
                "fieldsType": "FieldsV1",
                "fieldsV1": owned,
            }
        ],
    }


def pages(objects: int, size: int = 500) -> list[bytes]:
    return [
        orjson.dumps(
            {"items": [deployment(n, n + 1) for n in range(start, min(start + size, objects))]}
        )
        for start in range(0, objects, size)
    ]


def memory(objects: int, *, metadata_only: bool, track: bool) -> float:
    """KiB of resident memory for each object, with the ledger's usual indexes."""
    decoder = EntryDecoder(
        GVK, metadata_only=metadata_only, track_manager="tenancy" if track else None
    )
    ledger = WriteOverlay(Store(), clock=time.monotonic)
    gc.collect()
    before = resident_mib()
    for start in range(0, objects, 500):
        # One page at a time, as it comes from the wire.
        page = orjson.dumps({"items": [deployment(n, n + 1) for n in range(start, start + 500)]})
        entries = [decoder.decode(item) for item in list_items(page)]
        for entry in entries:
            ledger.observe("", entry)
    gc.collect()
    held = (1024 * (resident_mib() - before)) / objects
    assert len(ledger.store) >= objects
    return held


def microseconds(call: Callable[[int], object], times: int) -> float:
    """The best of five rounds, for each call."""
    best = float("inf")
    for _ in range(5):
        started = time.process_time()
        for number in range(times):
            call(number)
        best = min(best, time.process_time() - started)
    return best / times * 1e6


def watch_event(*, metadata_only: bool, track: bool) -> float:
    """A line of a watch into the store: split off, decoded, judged, indexed."""
    decoder = EntryDecoder(
        GVK, metadata_only=metadata_only, track_manager="tenancy" if track else None
    )
    ledger = WriteOverlay(Store(), clock=time.monotonic)
    lines = [
        orjson.dumps({"type": "MODIFIED", "object": deployment(n % 500, n + 1)})
        for n in range(5000)
    ]
    best = float("inf")
    for _ in range(5):
        ledger = WriteOverlay(Store(), clock=time.monotonic)
        started = time.process_time()
        for line in lines:
            ledger.observe("", decoder.take(_event_decoder.decode(line).object))
        best = min(best, time.process_time() - started)
    return best / len(lines) * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--objects", type=int, default=10_000)
    objects = parser.parse_args().objects
    body = orjson.dumps(deployment(1, 2))
    entry = EntryDecoder(GVK).decode(body)
    changed = entry.decode()
    changed["spec"]["replicas"] = 3
    original = entry.decode()
    print(f"object: {len(body)} bytes of JSON")
    for name, options in (
        ("full", {"metadata_only": False, "track": False}),
        ("full, tracked", {"metadata_only": False, "track": True}),
        ("metadata only, tracked", {"metadata_only": True, "track": True}),
    ):
        print(f"{name}: watch event {watch_event(**options):.1f} us")
        print(f"{name}: memory {memory(objects, **options):.2f} KiB/object")
    print(f"read as dict: {microseconds(lambda _: entry.decode(), 2000):.1f} us")
    print(f"one field: {microseconds(lambda _: entry.field('status'), 5000):.1f} us")
    print(f"difference: {microseconds(lambda _: difference(original, changed), 5000):.1f} us")


if __name__ == "__main__":
    main()

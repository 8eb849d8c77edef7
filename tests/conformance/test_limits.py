"""What the server refuses because it is too large or too much: numbers, data, counts."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from ctrlruntime.envtest.eventually import eventually_holds

from .manifests import configmap, deployment, pod, secret
from .wire import APPLY, JSON_PATCH, MERGE, STRATEGIC, Api

HUGE = 99_999_999_999


def sized(replicas: object) -> dict[str, Any]:
    body: dict[str, Any] = deployment("d")
    body["spec"]["replicas"] = replicas
    return body


@pytest.mark.since("numbers in words")
@pytest.mark.parametrize("number", [HUGE, 2**31, -(2**31) - 1, 1.5])
async def test_integers_beyond_their_type_are_refused(api: Api, number: float) -> None:
    code, reason, message = await api.fails(
        "POST", api.path("apps/v1", "deployments"), sized(number)
    )
    assert (code, reason) == (400, "BadRequest")
    assert f"json: cannot unmarshal number {number} into Go struct field" in message
    assert message.endswith("of type int32")


@pytest.mark.since("numbers in words")
async def test_integers_beyond_their_type_are_refused_everywhere(api: Api) -> None:
    deployments = api.path("apps/v1", "deployments")
    await api.create(deployments, deployment("d"))
    patch = {"spec": {"replicas": HUGE}}
    operations = [{"op": "add", "path": "/spec/replicas", "value": HUGE}]
    scale = {"metadata": {"name": "d"}, "spec": {"replicas": HUGE}}
    port: dict[str, Any] = {"port": HUGE}
    target: dict[str, Any] = {"port": 80, "targetPort": HUGE}
    stop = pod("p")
    stop["spec"]["terminationGracePeriodSeconds"] = 2**63
    words = f"json: cannot unmarshal number {HUGE} into Go struct field"
    for method, path, body, kind, code in (
        ("PATCH", f"{deployments}/d", patch, MERGE, 422),
        ("PATCH", f"{deployments}/d", operations, JSON_PATCH, 422),
        ("PUT", f"{deployments}/d/scale", scale, "application/json", 400),
        ("PATCH", f"{deployments}/d/scale", patch, MERGE, 422),
        ("POST", api.path("v1", "services"), {"metadata": {"name": "s"}, "spec": {"ports": [port]}}, "application/json", 400),
        ("POST", api.path("v1", "services"), {"metadata": {"name": "s"}, "spec": {"ports": [target]}}, "application/json", 400),
    ):  # fmt: skip
        found, _, message = await api.fails(method, path, body, kind)
        assert (found, words in message) == (code, True), message
    found, _, message = await api.fails("POST", api.path("v1", "pods"), stop)
    assert (found, message.endswith("of type int64")) == (400, True)
    assert (await api.get(f"{deployments}/d"))["spec"]["replicas"] == 1


async def test_strategic_patches_and_applies_cut_integers_to_their_bits(api: Api) -> None:
    deployments = api.path("apps/v1", "deployments")
    await api.create(deployments, deployment("d"))
    for number, cut in ((2**32 + 3, 3), (HUGE, HUGE % 2**32)):
        patch = {"spec": {"replicas": number}}
        after = await api.call("PATCH", f"{deployments}/d?dryRun=All", patch, STRATEGIC)
        assert after["spec"]["replicas"] == cut
        applied = {"apiVersion": "apps/v1", "kind": "Deployment", **sized(number)}
        path = f"{deployments}/d?dryRun=All&fieldManager=m&force=true"
        after = await api.call("PATCH", path, applied, APPLY)
        assert after["spec"]["replicas"] == cut
    code, reason, _ = await api.fails(
        "PATCH", f"{deployments}/d", {"spec": {"replicas": 2**31}}, STRATEGIC
    )
    assert (code, reason) == (422, "Invalid"), "it is negative now"


async def test_config_maps_and_secrets_hold_a_mebibyte(api: Api) -> None:
    most = 1024 * 1024
    full = {**configmap("full"), "data": {"a": "x" * (most - 3)}}
    full["binaryData"] = {"b": base64.b64encode(b"xyz").decode()}
    await api.create(api.configmaps, full)
    over = {"binaryData": {"b": base64.b64encode(b"wxyz").decode()}}
    code, _, message = await api.fails("PATCH", f"{api.configmaps}/full", over, MERGE)
    words = 'ConfigMap "full" is invalid: []: Too long: '
    assert (code, message.startswith(words)) == (422, True)
    assert "1048576" in message
    data = base64.b64encode(b"x" * (most + 1)).decode()
    code, _, message = await api.fails("POST", api.secrets, secret("over", data))
    assert (code, message.startswith('Secret "over" is invalid: data: Too long: ')) == (422, True)


async def is_enforced(api: Api) -> bool:
    """Whether admission knows the quota: a real server reads it by a watch, and remembers for half a
    minute that a namespace had none."""
    path = f"{api.path('apps/v1', 'deployments')}?dryRun=All"
    code, answer, _ = await api.send("POST", path, deployment("d"))
    return bool(code == 403 and "exceeded quota: q" in answer["message"])


async def test_a_quota_limits_how_many_objects_there_are(api: Api) -> None:
    quotas = api.path("v1", "resourcequotas")
    hard = {"count/secrets": "1", "pods": "1", "count/deployments.apps": "0"}
    await api.create(quotas, {"metadata": {"name": "q"}, "spec": {"hard": hard}})
    used = dict.fromkeys(hard, "0")
    await api.merge(f"{quotas}/q/status", {"status": {"hard": hard, "used": used}})
    await eventually_holds(lambda: is_enforced(api))
    await api.create(api.secrets, secret("a"))
    code, reason, message = await api.fails("POST", api.secrets, secret("b"))
    assert (code, reason) == (403, "Forbidden")
    assert message == (
        'secrets "b" is forbidden: exceeded quota: q, requested: count/secrets=1, '
        "used: count/secrets=1, limited: count/secrets=1"
    )
    await api.create(api.path("v1", "pods"), pod("a"))
    code, _, message = await api.fails("POST", api.path("v1", "pods"), pod("b"))
    assert (code, "exceeded quota: q, requested: pods=1" in message) == (403, True)
    code, _, message = await api.fails("POST", api.path("apps/v1", "deployments"), deployment("d"))
    assert (code, "used: count/deployments.apps=0" in message) == (403, True)
    await api.create(api.configmaps, configmap("free"))

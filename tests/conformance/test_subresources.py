"""scale, eviction, binding."""

from __future__ import annotations

from typing import Any

from .manifests import deployment, pod
from .wire import Api


async def test_scale_of_a_deployment(api: Api) -> None:
    path = api.path("apps/v1", "deployments")
    await api.create(path, deployment("d"))
    scale = await api.get(f"{path}/d/scale")
    assert scale["spec"] == {"replicas": 1}
    assert scale["status"] == {"replicas": 0, "selector": "app=d"}
    scale["spec"]["replicas"] = 3
    assert (await api.call("PUT", f"{path}/d/scale", scale))["spec"] == {"replicas": 3}
    stored = await api.get(f"{path}/d")
    assert (stored["spec"]["replicas"], stored["metadata"]["generation"]) == (3, 2)
    assert (await api.fails("PUT", f"{path}/d/scale", scale))[:2] == (409, "Conflict")
    wrong = {"metadata": {"name": "d"}, "spec": {"replicas": -1}}
    assert (await api.fails("PUT", f"{path}/d/scale", wrong))[:2] == (422, "Invalid")


async def test_binding(api: Api) -> None:
    pods = api.path("v1", "pods")
    await api.create(pods, pod("p"))
    binding = {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n1"}}
    await api.create(f"{pods}/p/binding", binding)
    bound = await api.get(f"{pods}/p")
    assert bound["spec"]["nodeName"] == "n1"
    assert bound["status"]["conditions"][0]["type"] == "PodScheduled"
    assert (await api.fails("POST", f"{pods}/p/binding", binding))[0] == 409


async def budget(api: Api, allowed: int) -> None:
    path = api.path("policy/v1", "poddisruptionbudgets")
    selector = {"matchLabels": {"app": "x"}}
    await api.create(
        path, {"metadata": {"name": "b"}, "spec": {"minAvailable": 1, "selector": selector}}
    )
    status: dict[str, Any] = {
        "observedGeneration": 1,
        "disruptionsAllowed": allowed,
        "currentHealthy": 1,
        "desiredHealthy": 1,
        "expectedPods": 1,
    }
    await api.merge(f"{path}/b/status", {"status": status})


async def test_eviction_respects_budgets(api: Api) -> None:
    pods = api.path("v1", "pods")
    await api.create(pods, pod("p", labels={"app": "x"}))
    await api.create(pods, pod("waits", labels={"app": "x"}))
    await budget(api, 0)
    await api.create(f"{pods}/waits/eviction", {"metadata": {"name": "waits"}})
    ready = [{"type": "Ready", "status": "True"}]
    await api.merge(f"{pods}/p/status", {"status": {"phase": "Running", "conditions": ready}})
    code, reason, message = await api.fails(
        "POST", f"{pods}/p/eviction", {"metadata": {"name": "p"}}
    )
    assert (code, reason) == (429, "TooManyRequests")
    assert message == "Cannot evict pod as it would violate the pod's disruption budget."
    await api.call("DELETE", f"{api.path('policy/v1', 'poddisruptionbudgets')}/b")
    await budget(api, 1)
    await api.create(f"{pods}/p/eviction", {"metadata": {"name": "p"}})
    assert (await api.send("GET", f"{pods}/p"))[0] == 404
    left = await api.get(f"{api.path('policy/v1', 'poddisruptionbudgets')}/b")
    assert left["status"]["disruptionsAllowed"] == 0


async def test_unknown_subresources_are_404(api: Api) -> None:
    assert (await api.fails("GET", f"{api.configmaps}/a/status"))[0] == 404
    assert (await api.fails("GET", f"{api.configmaps}/a/nothing"))[0] == 404

"""Defaults of built-in kinds, as a current server fills them in."""

from __future__ import annotations

from typing import Any

import pytest

from .manifests import deployment, pod
from .wire import APPLY, Api


async def test_deployment(api: Api) -> None:
    spec = (await api.create(api.path("apps/v1", "deployments"), deployment("d", "x")))["spec"]
    assert spec["replicas"] == 1
    assert spec["revisionHistoryLimit"] == 10
    assert spec["progressDeadlineSeconds"] == 600
    assert spec["strategy"] == {
        "type": "RollingUpdate",
        "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"},
    }
    template = spec["template"]["spec"]
    assert template["restartPolicy"] == "Always"
    assert template["dnsPolicy"] == "ClusterFirst"
    assert template["schedulerName"] == "default-scheduler"
    assert template["containers"] == [
        {
            "name": "c",
            "image": "x",
            "resources": {},
            "terminationMessagePath": "/dev/termination-log",
            "terminationMessagePolicy": "File",
            "imagePullPolicy": "Always",
        }
    ]


@pytest.mark.parametrize("rolling", [{"maxSurge": 1, "maxUnavailable": 1}, {"maxSurge": 1}])
async def test_an_apply_changes_a_rolling_strategy_to_recreate(api: Api, rolling: object) -> None:
    """What the server filled in beside the given-up members of rollingUpdate goes with them."""
    path = api.path("apps/v1", "deployments") + "/d"
    obj = deployment("d")
    obj["spec"]["strategy"] = {"rollingUpdate": rolling}
    made = await api.apply(path, obj)
    assert made["spec"]["strategy"]["rollingUpdate"].keys() == {"maxSurge", "maxUnavailable"}
    obj["spec"]["strategy"] = {"type": "Recreate"}
    changed = await api.apply(path, obj)
    assert changed["spec"]["strategy"] == {"type": "Recreate"}


async def test_a_recreate_strategy_has_no_rolling_parameters_of_others(api: Api) -> None:
    path = api.path("apps/v1", "deployments") + "/d"
    obj = deployment("d")
    obj["spec"]["strategy"] = {"rollingUpdate": {"maxSurge": 1}}
    await api.apply(path, obj, "one")
    obj["spec"]["strategy"] = {"type": "Recreate"}
    answer = await api.refusal("PATCH", f"{path}?fieldManager=two", obj, APPLY)
    assert (answer["code"], answer["reason"]) == (422, "Invalid")
    cause = answer["details"]["causes"][0]
    assert cause["field"] == "spec.strategy.rollingUpdate"
    assert cause["message"] == (
        "Forbidden: may not be specified when strategy `type` is 'Recreate'"
    )


async def test_service_addresses(api: Api) -> None:
    services = api.path("v1", "services")
    body: dict[str, Any] = {"metadata": {"name": "a"}, "spec": {"ports": [{"port": 80}]}}
    made = await api.create(services, body)
    spec = made["spec"]
    assert spec["ports"] == [{"port": 80, "protocol": "TCP", "targetPort": 80}]
    assert spec["type"] == "ClusterIP"
    assert spec["sessionAffinity"] == "None"
    assert spec["clusterIPs"] == [spec["clusterIP"]]
    assert (spec["ipFamilies"], spec["ipFamilyPolicy"]) == (["IPv4"], "SingleStack")
    assert made["status"] == {"loadBalancer": {}}
    body["metadata"]["name"], body["spec"]["type"] = "b", "NodePort"
    port = (await api.create(services, body))["spec"]["ports"][0]["nodePort"]
    assert 30000 <= port <= 32767
    changed = await api.merge(f"{services}/b", {"spec": {"type": "ClusterIP"}})
    assert "nodePort" not in changed["spec"]["ports"][0]
    code, _, message = await api.fails(
        "PATCH",
        f"{services}/a",
        {"spec": {"clusterIP": "10.96.9.9"}},
        "application/merge-patch+json",
    )
    assert (code, "may not change once set" in message) == (422, True)
    body["metadata"]["name"], body["spec"]["clusterIP"] = "c", "None"
    body["spec"]["type"] = "ClusterIP"
    assert (await api.create(services, body))["spec"]["clusterIP"] == "None"


async def test_secret_text_becomes_data(api: Api) -> None:
    secrets = api.path("v1", "secrets")
    body = {"metadata": {"name": "s"}, "stringData": {"a": "b"}, "data": {"a": "eA==", "c": "eA=="}}
    made = await api.create(secrets, body)
    assert (made["type"], made["data"]) == ("Opaque", {"a": "Yg==", "c": "eA=="})
    assert "stringData" not in made
    wrong = {"metadata": {"name": "t"}, "data": {"a": "***"}}
    assert (await api.fails("POST", secrets, wrong))[0] == 400


async def test_pod(api: Api) -> None:
    body = pod("p")
    body["spec"]["containers"][0]["resources"] = {"limits": {"cpu": "0.5", "memory": "1024Ki"}}
    made = await api.create(api.path("v1", "pods"), body)
    resources = made["spec"]["containers"][0]["resources"]
    assert resources["limits"] == resources["requests"] == {"cpu": "500m", "memory": "1Mi"}
    assert made["status"] == {"phase": "Pending", "qosClass": "Guaranteed"}
    assert {item["key"] for item in made["spec"]["tolerations"]} == {
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
    }


async def test_job_gets_selector_and_labels(api: Api) -> None:
    containers = [{"name": "c", "image": "x"}]
    template = {"spec": {"restartPolicy": "Never", "containers": containers}}
    body = {"metadata": {"name": "j"}, "spec": {"template": template}}
    made = await api.create(api.path("batch/v1", "jobs"), body)
    uid = made["metadata"]["uid"]
    assert made["spec"]["selector"] == {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}
    assert made["spec"]["template"]["metadata"]["labels"]["job-name"] == "j"
    assert (made["spec"]["completions"], made["spec"]["backoffLimit"]) == (1, 6)
    code, _, message = await api.fails(
        "POST",
        api.path("batch/v1", "jobs"),
        {"metadata": {"name": "k"}, "spec": {"template": {"spec": {"containers": containers}}}},
    )
    assert (code, 'valid values: "OnFailure", "Never"' in message) == (422, True)


async def test_events_of_both_groups_are_the_same_objects(api: Api) -> None:
    new = api.path("events.k8s.io/v1", "events")
    body = {
        "metadata": {"name": "e"},
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "reportingController": "c/d",
        "reportingInstance": "i",
        "action": "Do",
        "reason": "R",
        "note": "n",
        "type": "Normal",
        "regarding": {"kind": "Pod", "name": "p", "namespace": api.namespace},
    }
    await api.create(new, body)
    core = await api.get(f"{api.path('v1', 'events')}/e")
    assert (core["message"], core["reportingComponent"]) == ("n", "c/d")
    assert core["involvedObject"]["name"] == "p"
    listed = await api.get(
        f"{api.path('v1', 'events')}?fieldSelector=involvedObject.name=p,type=Normal"
    )
    assert len(listed["items"]) == 1
    assert (await api.get(f"{new}/e"))["note"] == "n"


async def test_autoscalers_in_both_versions(api: Api) -> None:
    ref = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}
    body = {"metadata": {"name": "h"}, "spec": {"maxReplicas": 3, "scaleTargetRef": ref}}
    made = await api.create(api.path("autoscaling/v1", "horizontalpodautoscalers"), body)
    assert made["spec"]["targetCPUUtilizationPercentage"] == 80
    other = await api.get(f"{api.path('autoscaling/v2', 'horizontalpodautoscalers')}/h")
    assert other["spec"]["metrics"][0]["resource"]["target"]["averageUtilization"] == 80


async def test_network_policy_and_claim(api: Api) -> None:
    policies = api.path("networking.k8s.io/v1", "networkpolicies")
    body = {
        "metadata": {"name": "n"},
        "spec": {"podSelector": {}, "egress": [{"ports": [{"port": 53}]}]},
    }
    spec = (await api.create(policies, body))["spec"]
    assert spec["policyTypes"] == ["Ingress", "Egress"]
    assert spec["egress"][0]["ports"] == [{"port": 53, "protocol": "TCP"}]
    claims = api.path("v1", "persistentvolumeclaims")
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1024Mi"}}}
    made = await api.create(claims, {"metadata": {"name": "c"}, "spec": claim})
    assert made["spec"]["resources"]["requests"] == {"storage": "1Gi"}
    assert made["metadata"]["finalizers"] == ["kubernetes.io/pvc-protection"]
    assert made["status"] == {"phase": "Pending"}


async def test_workloads_of_the_apps_group(api: Api) -> None:
    body = deployment("s")
    body["kind"] = "StatefulSet"
    body["spec"]["serviceName"] = "s"
    made = await api.create(api.path("apps/v1", "statefulsets"), body)
    assert made["spec"]["podManagementPolicy"] == "OrderedReady"
    assert made["spec"]["updateStrategy"] == {
        "type": "RollingUpdate",
        "rollingUpdate": {"partition": 0},
    }
    body = deployment("d")
    body["kind"] = "DaemonSet"
    made = await api.create(api.path("apps/v1", "daemonsets"), body)
    assert made["metadata"]["annotations"] == {"deprecated.daemonset.template.generation": "1"}
    assert made["status"]["numberReady"] == 0
